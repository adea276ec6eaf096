"""Finds the action that a `uses:` names.

In: a name, the project and a `with:` block. Out: what planning knows about the action and the problems of the block
(`registry.py`), its fingerprint (`fingerprint.py`), the callable for the worker (`load.py`) and the list of all actions
(`catalogue.py`). Start with `registry.py`.
"""
