"""`whyrun parity`: did two runs leave the same evidence?

In: two run folders. Out: a `Parity` with all differences. Nothing is written.
Start with `parity.py`; `reading.py` reads a run, `fields.py` says which event fields are compared.
"""
