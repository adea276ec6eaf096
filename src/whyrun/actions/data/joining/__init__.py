"""Joins and stacks of datasets.

In: opened tables and key columns. Out: the joined or stacked rows and their counts. `merge.py` is the action
`data/merge`; it checks keys (`keys.py`), then counts matches and joins (`join.py`). `stack.py` serves
`data/append` and `data/aggregate`. Start with `merge.py`.
"""
