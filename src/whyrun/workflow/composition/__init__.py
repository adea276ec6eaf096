"""The composition of datasets.

In: a dataset plan with its inputs manifest (`plan_file`). Out: the same `model.Workflow` that a workflow file gives.
`shapes` checks whether the steps of a plan, or the jobs of a workflow file, fit their composition mode.
Start with `plan_file/dataset_plan.py`.
"""
