"""What differs between two versions of an artifact: one line, and limited details.

In: two files or folders. Out: a `Comparison`. Each module knows one kind of content.
Start with `compare_files` in `files.py`, which chooses the module. Equal bytes are never parsed.
"""
