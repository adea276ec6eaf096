"""Files of workers: the scratch folder of a worker, and safe handling of what steps leave behind.

In: folders that steps have written to, which are not trusted. Out: evidence in the run folder. Start with
`scratch.py`; `safe_files.py` (reading and copying) and `tree_removal.py` are its tools.
"""
