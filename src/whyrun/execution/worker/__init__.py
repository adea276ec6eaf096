"""The worker process: executes the steps that its host sends. The same code runs on every backend.

In: commands (`main.py`) and input files. Out: numbered messages (`outbox.py`), outputs in the store, logs in
the run folder. Start with `main.py`, then `step_runner.py`: it materializes inputs, calls the action with a context,
collects outputs and restores the process for the next step.
"""
