"""Results that several projects or machines share through one store.

In: fingerprints of a plan or a run, and new results. Out: results of others, and uploads in the background.
Start with `sharing.py`; `run/shared_results.py` connects it to a run.
"""
