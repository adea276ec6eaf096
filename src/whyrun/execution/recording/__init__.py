"""The evidence of a run while it happens.

In: events, commands, metrics and lines of the runner. Out: the synced log, logs for people and published files.
`recorder` writes and syncs, `publisher` puts artifacts at their paths, `step_lines` writes the lines, `totals` counts.
Start with `recorder`.
"""
