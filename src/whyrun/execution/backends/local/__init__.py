"""The default backend: a pool of worker processes on the host's own files.

In: commands of the runner. Out: messages of the workers; their outputs are in the store already. `backend.py`
distributes commands and gathers messages; `worker_process.py` is one worker process. Start with `backend.py`.
"""
