"""The parser of workflow files.

In: YAML nodes of a file and of its imports. Out: `model.Workflow`, or all problems together.
Every key of the language is a `fields.Key`, a row of a table (`job_keys` for jobs); the JSON Schema and the docs come
from the tables.
Start with `parse.py`, then `file.py`. To add a job key, see `job_keys.py`.
"""
