"""Finishing run folders, and the summary of runs that compose datasets.

In: the manifests and events of runs, and stored data. Out: a complete run folder with `composition_summary.json`,
links to the inputs of each step, and `status.json`. The summary is derived: nothing is read from one.
Start with `finish_run` in `run_folder.py`; `summary.py` builds the summary.
"""
