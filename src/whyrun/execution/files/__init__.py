"""Files of workers: the scratch folder of a worker, copies of inputs in it, and safe handling of what steps leave.

In: inputs, and folders that steps have written to, which are not trusted. Out: evidence in the run folder. Start with
`scratch.py`. `input_views.py` puts the inputs there; `safe_files.py` and `tree_removal.py` are its tools.
"""
