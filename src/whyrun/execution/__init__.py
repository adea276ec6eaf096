"""PLAN → EVENTS: execute a plan on a backend, and record the evidence of every step.

In: a project and the options of a run. Out: events, published files and a result.
`run` has the loop; `dispatch` prepares one step; `recording` writes events and publishes files; `backends` run workers;
`worker` is the code that executes an action; `protocol` defines their messages with the host. `compare`, `adopt`
and `sharing` build on these. Packages import only those below them: `compare` and `adopt`, `run`, `sharing` and
`dispatch`, `recording`, `backends`, `bundle`, `worker`, `files` and `protocol`.
Start with `run/session.py`, then `run/runner.py`.
"""
