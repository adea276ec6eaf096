"""GRAPH + LOG + WORLD → STATE: the one frozen value that planning reads.

In: the graph, the folded log, the observed files and the facts of actions. Out: `snapshot.PlanningSnapshot`.
Start with `snapshot` (the value), then `build` (how it is made) and `suspects` (which instances may need to run).
Sub-packages are above these modules: `actions`, then `observing` (the disk) and `history` (the log).
"""
