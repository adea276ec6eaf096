"""Runs each step in a bubblewrap sandbox on this machine.

In: a step, and what its job may use. Out: messages and files of a worker that sees nothing else of the host.
`backend.py` is the backend and its transport, and finds out whether sandboxes work here. `launcher.py` starts a fork
server (`fork_server.py`), which creates sandboxes inside a restricted view. `view.py` decides what is
visible and builds the command lines. Start with `backend.py` and `view.py`.
"""
