"""The worker process: executes the steps that its host sends. The same code runs on every backend.

In: commands (`command_source.py`) and input files. Out: numbered messages (`outbox.py`), outputs in the store, logs in
the run folder. Start with `main.py`, then `step_runner.py`: it materializes inputs, forks the process of the step
(`step_process.py`), calls the action there with a context, collects outputs and keeps the evidence.
"""
