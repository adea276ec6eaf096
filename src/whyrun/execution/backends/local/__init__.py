"""The default backend: a pool of worker processes on the host's own files.

`backend.py` distributes commands to workers and gathers their messages; `worker_process.py` is one worker process.
"""
