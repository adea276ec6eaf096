"""Finishing run folders, and the summary of runs that compose datasets.

In: the manifest and events of a run, and earlier summaries. Out: a complete run folder with
`composition_summary.json`, links to the inputs of each step, and `status.json`.
Start with `finish_run` in `run_folder.py`; `summary.py` builds the summary.
"""
