"""What a step reads, as its worker sees it: in Python by an audit hook, in all its processes by strace.

In: the operations of a step on files. Out: `StepReads`, the paths of the project that it read, listed or looked for,
with their content, for the host. Start with `eyes.py`; `python_eye.py` sees, `places.py` says which
paths count, `content.py` hashes what was read.
"""
