"""Hashes of files that have not changed since they were last hashed.

In: paths. Out: their content hashes, read from the cache if the time stamps prove that the file is unchanged.
Start with `cache.py`; `rows.py` says when time stamps prove that.
"""
