"""`whyrun verify`: is the evidence of a workflow unchanged?

In: the logs, run folders and store of a workflow. Out: a `Verification` with every problem. Nothing is written.
Start with `verify.py`. `lines.py` checks logs, `bytes.py` blobs and files, `derived_files.py` links into the store.
"""
