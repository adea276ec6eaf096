"""What a run leaves behind: the run folder, and everything that reads it back.

In: the events and files of runs. Out: complete run folders, and answers about past runs.
Own modules: the layout of a run folder and its metrics (`run_directory`), its links
(`artifact_links`), and the blobs that it refers to (`referenced_blobs`).
Sub-packages, lowest first: `queries` and `composition`, then `verify`, `retention`, `parity`.
Start with `run_directory.py`.
"""
