"""Finds the action that a `uses:` names.

In: a name, the project and a `with:` block. Out: what planning knows about the action, the problems of the
block and the fingerprint (`registry.py`), the callable for the worker (`load.py`) and the list of all actions
(`catalogue.py`). Start with `registry.py`.
"""
