"""STATE → PLAN: which job instances run, and for which reasons. Pure: nothing here reads a file or the clock.

In: a `PlanningSnapshot` (log and observed state, joined over the graph) and the options. Out: a `Plan`.
Start with `plan.compute_execution_plan`; it calls `judge`, which calls `consume` (what an instance would consume),
`reasons` (all reasons, in their order) and `reuse` (earlier results). `answers` renders plans for people; `tracing`
says which jobs are to be traced.
Order of imports: consume, reason_base, input_changes, reasons, reuse, judge, plan, answers.
"""
