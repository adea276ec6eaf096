"""What people see during a run: lines, progress and summaries.

In: plans, events and metrics. Out: text on the terminal and in log files. `lines.py` defines a line, `logger.py` writes
lines, `preview.py` makes those of a plan, `files.py` names their files, `render.py` has the summaries.
Start with `lines.py`.
"""
