"""The past: attempts of a job, versions of an artifact, and what differs between two runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whyrun.evidence.queries.diff import RunDiff, RunSide
    from whyrun.evidence.queries.history import HistoryEntry
    from whyrun.project import Project


def find_history(project: Project, id_: str) -> list[HistoryEntry]:
    """The entries for an ID or pattern; UNKNOWN_REFERENCE if neither the log nor the workflow has it."""
    from whyrun.errors import error
    from whyrun.evidence.queries.history import artifact_versions, job_history
    from whyrun.ids import IdPattern
    from whyrun.log.lock import running_run
    from whyrun.planning.plan import match_nodes

    pattern = IdPattern(id_)
    if id_.startswith("Input:"):
        raise error("USAGE", f"`{id_}`: inputs have no attempts", hint="write `Job:…` or `Artifact:…`")
    runs, running = project.state.runs(), running_run(project.state)
    if id_.startswith("Job:"):
        entries = list(job_history(runs, pattern.matches, running))
    else:
        entries = list(artifact_versions(job_history(runs, _is_producer(id_), running), pattern.matches))
    if not entries:
        match_nodes(project.graph, id_)  # raises if the workflow does not have it either
    return entries


def _is_producer(artifact: str) -> Callable[[str], bool]:
    """A test whether a step can have made this artifact, by the name of its job. A pattern admits every step."""
    from whyrun.ids import parse_id, parse_id_of

    if "*" in artifact:
        return lambda step: True
    job = parse_id(artifact).job
    return lambda step: parse_id_of("Job", step).job == job


def difference(project: Project, old: str, new: str) -> RunDiff:
    from whyrun.evidence.queries.diff import diff_runs

    return diff_runs(_side(project, old), _side(project, new))


def _side(project: Project, name: str) -> RunSide:
    from whyrun.api import plan_of_run
    from whyrun.evidence.queries.diff import RunSide
    from whyrun.log import events as ev

    run = project.state.run(name)
    log = project.history(through=run.number)
    records, last_pruned = log.records, log.last_pruned
    first = next(iter(run.events()), None)
    if isinstance(first, ev.RunStart) and first.mode != "run":
        return RunSide(name, None, {}, records, last_pruned=last_pruned)
    planned = plan_of_run(project, name)
    # A job is inactive by the plan, or by a condition that the run evaluated.
    inactive = {job.id for job in planned.plan.jobs if job.state == "inactive"}
    inactive |= {e.step_id for e in run.events() if isinstance(e, ev.StepSkipped) and e.why != "reused"}
    return RunSide(name, planned.plan, planned.snapshot.actions, records, frozenset(inactive), last_pruned)
