"""Asks a separate process what only imported code can tell about an action.

In: an action and `with:` blocks. Out: its description, problems of its parameters, results of its optional methods.
`inspector.py` is the host's interface and cache, `inspector_process.py` the host's end of the process,
`inspector_main.py` the process itself. Start with `inspector.py`.
"""
