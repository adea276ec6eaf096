"""Runs each step in a bubblewrap sandbox on this machine.

`backend.py` is the backend and its transport. `launcher.py` starts a fork server, which creates sandboxes inside a
restricted view (`fork_server.py`, `enter.py`). `bubblewrap.py` builds the command lines, `view.py` decides what is
visible, `check.py` finds out whether sandboxes work here. Start with `backend.py` and `bubblewrap.py`.
"""
