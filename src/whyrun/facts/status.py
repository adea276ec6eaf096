"""The state of a project: its jobs, changed inputs, artifacts, leftover files, and the run in progress."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from whyrun.evidence.queries.current import CurrentArtifact, StaleFile
    from whyrun.evidence.queries.run_list import Unfinished
    from whyrun.planning.plan import Plan
    from whyrun.project import Project
    from whyrun.snapshot.snapshot import PlanningSnapshot


@dataclass(frozen=True, slots=True)
class Status:
    snapshot: PlanningSnapshot
    plan: Plan
    jobs: dict[str, int]
    unfinished: Unfinished | None
    artifacts: list[CurrentArtifact]
    stale: list[StaleFile]

    def to_json(self) -> dict[str, Any]:
        return {
            "workflow": self.plan.workflow,
            "log_position": self.snapshot.log_position,
            "unfinished": self.unfinished.to_json() if self.unfinished is not None else None,
            "jobs": self.jobs,
            "plan": dict(self.plan.totals),
            "inputs_changed": self.snapshot.inputs_changed,
            "artifacts": [artifact.to_json() for artifact in self.artifacts],
            "stale_files": [file.to_json() for file in self.stale],
        }


def current_status(project: Project, patterns: tuple[str, ...]) -> Status:
    from whyrun.evidence.queries.current import current_artifacts, stale_files, while_running
    from whyrun.evidence.queries.run_list import unfinished_run
    from whyrun.planning.plan import compute_execution_plan, match_nodes

    project.config, project.graph, project.actions  # noqa: B018  # report all problems together
    # Look for a running run before reading the log: it may end in between.
    last, unfinished = project.state.runs()[-1:], unfinished_run(project.state)
    snapshot = project.snapshot()
    if project.state.runs()[-1:] != last:
        unfinished = unfinished_run(project.state)  # a run has begun in between
    plan = compute_execution_plan(snapshot)
    graph = snapshot.dependency_graph
    open_steps = _open_steps(snapshot, unfinished)
    running = [step for step in open_steps if step in graph.node_of]
    if unfinished is not None and unfinished.state == "running":
        unfinished = msgspec.structs.replace(unfinished, open_steps=tuple(open_steps))
    artifacts = list(current_artifacts(snapshot, plan))
    if unfinished is not None and running:
        artifacts = list(while_running(artifacts, unfinished.run, set(running)))
    if patterns:
        wanted = _wanted(patterns)
        for pattern in patterns:
            match_nodes(graph, pattern)  # raises if nothing matches
        artifacts = [a for a in artifacts if any(p.matches(a.id) or p.matches(a.job) for p in wanted)]
    runs, pruned = project.state.runs_and_tombstones()
    stale = stale_files(graph, plan, runs, project.observer().published, pruned)
    return Status(snapshot, plan, _job_counts(plan, len(running)), unfinished, artifacts, stale)


def _wanted(patterns: tuple[str, ...]) -> list[Any]:
    from whyrun.ids import IdPattern

    return [IdPattern(pattern) for pattern in patterns]


def _open_steps(snapshot: PlanningSnapshot, unfinished: Unfinished | None) -> list[str]:
    """The open steps of a run in progress, as of the snapshot: the log grows, and later other steps are open."""
    from whyrun.log.events import INTERRUPTED_ERROR
    from whyrun.snapshot.records import run_name

    if unfinished is None or unfinished.state != "running":
        return []
    latest = ((step, record.latest) for step, record in snapshot.records.steps.items())
    interrupted = ((step, one) for step, one in latest if one.error == INTERRUPTED_ERROR)
    return sorted(step for step, one in interrupted if run_name(one.run) == unfinished.run)


def _job_counts(plan: Plan, running: int) -> dict[str, int]:
    """Instances by the state of their latest attempt. Open steps of a run in progress are running, not failed."""
    counts = dict(plan.snapshot["jobs"])
    counts["running"] += running
    counts["failed"] -= running
    return counts
