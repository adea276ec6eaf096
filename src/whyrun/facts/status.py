"""The state of a project: its jobs, changed inputs, artifacts, leftover files, and the run in progress."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from whyrun.ids import IdPattern, job_of

if TYPE_CHECKING:
    from whyrun.evidence.queries.current import CurrentArtifact, StaleFile
    from whyrun.evidence.queries.history import Unfinished
    from whyrun.graph.tables import Graph
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
    inputs_changed: list[str]

    def to_json(self) -> dict[str, Any]:
        return {
            "workflow": self.plan.workflow,
            "log_position": self.snapshot.log_position,
            "unfinished": self.unfinished.to_json() if self.unfinished is not None else None,
            "jobs": self.jobs,
            "plan": dict(self.plan.totals),
            "inputs_changed": self.inputs_changed,
            "artifacts": [artifact.to_json() for artifact in self.artifacts],
            "stale_files": [file.to_json() for file in self.stale],
        }


def current_status(project: Project, patterns: tuple[str, ...]) -> Status:
    from whyrun.evidence.queries.current import current_artifacts, stale_files
    from whyrun.evidence.queries.history import unfinished_run
    from whyrun.planning.plan import compute_execution_plan

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
    runs, pruned = project.state.runs_and_tombstones()
    stale = stale_files(snapshot, plan, runs, project.observer().published, pruned)
    inputs_changed = snapshot.inputs_changed
    if patterns:
        chosen = _Chosen(graph, patterns, stale)
        artifacts = [artifact for artifact in artifacts if chosen.has(artifact.id, artifact.job)]
        stale = [file for file in stale if chosen.has_file(file)]
        inputs_changed = chosen.read_by_them(inputs_changed)
    assert plan.snapshot is not None  # it is no stage
    return Status(snapshot, plan, plan.snapshot["jobs"], unfinished, artifacts, stale, inputs_changed)


class _Chosen:
    """The jobs and artifacts that the user asks for."""

    def __init__(self, graph: Graph, patterns: tuple[str, ...], stale: Iterable[StaleFile]) -> None:
        """A pattern must match a current job or artifact, or a leftover of a former one."""
        from whyrun.errors import WhyrunError
        from whyrun.planning.id_matching import match_nodes, read_pattern

        self.graph, self.nodes = graph, set[int]()
        self.patterns = [read_pattern(text, lambda: graph) for text in patterns]
        for text, pattern in zip(patterns, self.patterns, strict=True):
            try:
                self.nodes.update(match_nodes(graph, text))
            except WhyrunError:
                if not any(map(partial(_made_by, pattern), stale)):
                    raise

    def has_file(self, file: StaleFile) -> bool:
        return any(_made_by(pattern, file) for pattern in self.patterns)

    def has(self, artifact: str, job: str) -> bool:
        return any(pattern.matches(artifact) or pattern.matches(job) for pattern in self.patterns)

    def read_by_them(self, inputs: list[str]) -> list[str]:
        """Those of these inputs that a chosen job reads, as a whole or as an element."""
        from whyrun.graph.tables import InputAt, sources_of

        read: set[str] = set()
        for node in self.nodes if inputs else ():
            table, position = self.graph.table_at(node)
            for _, column in table.operand_columns():
                read.update(source.id for source in sources_of(column.at(position)) if isinstance(source, InputAt))
        return [id_ for id_ in inputs if any(id_ == one or id_.startswith(f"{one}[") for one in read)]


def _made_by(pattern: IdPattern, file: StaleFile) -> bool:
    """Whether a pattern means the artifact or its job. The file of an element has one index more than its job."""
    jobs = {job_of(file.artifact), job_of(file.artifact.rpartition("[")[0] or file.artifact)}
    return pattern.matches(file.artifact) or any(map(pattern.matches, jobs))
