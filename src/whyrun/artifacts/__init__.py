"""Content: hashes, the store of blobs, publishing, comparing and sharing.

In: bytes of files and folders. Out: hashes, blobs under their hash, and published files.
Own modules: `hashing`, `hash_column`, `durable`, `store`.
Sub-packages: `stat_cache` (which files have changed), above it `publishing` (copies in the project folder); beside them
`compare` (what differs between two versions) and `shared` (a store that several people use).
Start with `store.py`.
"""
