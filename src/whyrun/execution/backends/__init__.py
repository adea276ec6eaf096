"""Backends execute steps in worker processes: on this machine, in sandboxes, or on other machines.

In: commands, secrets and needs of steps, through the `Backend` contract. Out: messages of workers, and the files of
their steps. A backend decides nothing about deadlines and retries.
Start with `base.py` (the contract), then `registry.py` (the table of all backends), then `local/backend.py`.
A complete example of a new backend is `tests/backends/toy_backend.py`.
"""
