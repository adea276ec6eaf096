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
    from whyrun.evidence.queries.current import current_artifacts, stale_files
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
    if unfinished is not None and unfinished.state == "running" and unfinished.mode != "compare":
        # As of the snapshot: the log grows, and later other steps are open.
        unfinished = msgspec.structs.replace(unfinished, open_steps=tuple(sorted(snapshot.running_steps)))
    artifacts = list(current_artifacts(snapshot, plan))
    if patterns:
        wanted = _wanted(patterns)
        for pattern in patterns:
            match_nodes(graph, pattern)  # raises if nothing matches
        artifacts = [a for a in artifacts if any(p.matches(a.id) or p.matches(a.job) for p in wanted)]
    runs, pruned = project.state.runs_and_tombstones()
    stale = stale_files(graph, plan, runs, project.observer().published, pruned)
    return Status(snapshot, plan, plan.snapshot["jobs"], unfinished, artifacts, stale)


def _wanted(patterns: tuple[str, ...]) -> list[Any]:
    from whyrun.ids import IdPattern

    return [IdPattern(pattern) for pattern in patterns]
