"""The protocol between the host and its workers.

`messages.py` has the commands and messages, `framing.py` their encoding and channels, `step_config.py` the cfg file of
a step, `run_options.py` the options of a run. Nothing here reads or writes files. Start with `messages.py`.
"""
