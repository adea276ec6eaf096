"""The log as planning sees it: folded into one record per step, with an index so that ended runs are folded once.

In: the event logs of all runs. Out: `records.Records`, and on demand the bindings that an attempt consumed.
Start with `fold` (events to records), then `reader` (the index). `replay` rebuilds the snapshot of a recorded run.
"""
