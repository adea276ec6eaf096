"""Questions about the past and present: runs, history, current artifacts, and the difference between two runs.

In: logs, snapshots and plans. Out: records with `to_json`. Nothing is written.
Start with `history.py`.
"""
