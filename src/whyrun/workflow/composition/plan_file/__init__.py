"""The reader of dataset plans and inputs manifests, which are JSON files.

In: the text of a plan and of its manifest. Out: `model.Workflow`, in which datasets are inputs, steps are jobs, and
conditions are `if` of the steps in their branches; or all problems together.
Every key is a row of a table beside its reader (of a step: `step_keys`), which gives the JSON Schema, too.
Start with `dataset_plan.py`, which also makes the workflow: `steps` reads one step, `links` checks them together.
"""
