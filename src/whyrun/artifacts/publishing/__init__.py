"""Writing artifacts into the project folder without losing anything of the user.

In: blobs of the store. Out: files, folders and sections of shared JSON files; overwritten content goes to the store.
Start with `publish.py`; `merge.py` writes sections.
"""
