"""The protocol between the host and its workers.

In: commands and messages as records. Out: lines of bytes, and the same records at the other side.
`messages.py` has the commands, the messages and the cfg file of a step, `framing.py` their encoding and channels.
Nothing here reads or writes files. Start with `messages.py`.
"""
