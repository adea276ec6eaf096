"""From a workflow file to its model.

In: the text of YAML files, dataset plans and inputs files. Out: `model.Workflow`, with the place of every part, or all
problems as diagnostics. Nothing is resolved here: `graph` expands loops and references.
The modules here are the lowest layer; `expressions`, `parsing` and `composition` build on them, in this order.
Start with `model`, then `parsing/parse.py`.
"""
