"""Actions: what the steps of a workflow run.

In: `uses:` and `with:` of a job. Out: facts and problems for planning, and the callable for the worker.
`base.py` defines them; `parameters.py` and its neighbours check their `with:` blocks. The actions are in `builtin/`,
`data/`, `movers/` and `http/`; `code/` reads the project's own. `inspection/` imports user code in another process, and
`registry/` finds the action that a `uses:` names, fingerprints it and loads it. Start with `base.py`, then
`registry/registry.py`.
"""
