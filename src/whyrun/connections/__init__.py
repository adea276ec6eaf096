"""Connections to databases and other services, as `connections.yaml` declares them.

In: the file and the environment. Out: connections for plans, without values, and for steps, with secrets kept apart
(`resolve.py`); and the `Redactor` that removes secrets from all text.
Start with `resolve.py`.
"""
