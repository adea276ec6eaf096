"""The run itself: lock, repair, plan, checks, the loop over the steps, and the end of the run.

In: a project and options. Out: a `RunResult`, and a run folder with its evidence.
`session` is `whyrun run`; `lifecycle` is common to all runs; `runner` is the loop; `scheduler` decides which step is
next; `step_states` has the table of states; `step_outcomes` records how steps end. Start with `session`.
"""
