"""Comparers: what differs between two versions of an artifact, in one line and in bounded detail.

Each module knows one kind of content; `files.compare_files` chooses. Bytes that are equal are never opened.
"""
