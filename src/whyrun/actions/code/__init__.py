"""Reads the project's Python code without running it, and imports it in workers.

In: the project folder and an entry file. Out: the actions it defines (`discovery.py`), the files an action consists of
(`imports.py`) with their canonical hashes (`source.py`), and imported modules (`source_loader.py`). Start with
`imports.py`.
"""
