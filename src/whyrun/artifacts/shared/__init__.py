"""A store that several people share, in a folder or behind a URL.

In: results of steps by fingerprint, with their blobs. Out: the same, checked against their hashes.
Start with `store.py`; `storage.py` reads and writes the bytes.
"""
