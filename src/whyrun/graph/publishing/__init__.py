"""Conflicts of published paths: outputs against each other, inputs, own files, patterns and reserved folders. Pure.

In: the graph, and the links and paths that `snapshot.observing` found on disk. Out: diagnostics.
Start with `conflicts`.
"""
