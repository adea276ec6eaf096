"""What the next run does after a kill or a power loss: keep the lines that can be trusted, and end the log.

In: the log of the last run, and the lock's note of how far it was synced. Out: a log that ends in `run_complete`.
Start with `repair`; `surviving_prefix` decides how far the log can be trusted.
"""
