"""THE TRUTH: the event log of every run, and the state folder that it lives in.

In: events of a run, from the recorder. Out: the same events again, checked, to the snapshot, verify and status.
Only the holder of the workflow's lock writes. No line is ever rewritten.
Start with `events` (what is recorded), then `journal` (how it is written and read) and `runs` (where it is stored).
`repair` completes the log of a killed run.
"""
