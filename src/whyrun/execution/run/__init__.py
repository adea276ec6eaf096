"""The run itself: lock, repair, plan, checks, the loop over the steps, and the end of the run.

In: a project and options. Out: a `RunResult`, and a run folder with its evidence.
`session` is `whyrun run`; `lifecycle` is common to all runs; `runner` is the loop; `scheduler` has the table
of step states and decides which step is next; `step_outcomes` records how steps end. Start with `session`.
"""
