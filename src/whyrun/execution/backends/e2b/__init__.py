"""Runs workers in E2B sandboxes, through the `e2b` SDK.

In: messages and files for a worker. Out: its messages and files; `remote/` makes a backend of that.
`backend.py` is the transport, with one sandbox a worker. `stream.py` and `relay.py` carry messages over connections
that may break; `calls.py` transfers files, with SDK calls that cannot hang. Start with `backend.py`.
"""
