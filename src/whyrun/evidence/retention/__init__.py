"""Freeing disk space: `whyrun runs prune` removes runs, `whyrun gc` removes blobs.

In: the state folder, and for `prune` the opened project. Out: a report of what was removed, or would be.
Neither changes a plan: start with `prune.py`, then `gc.py`.
"""
