"""What a comparison would do: which jobs it would execute again, how long that takes, and which it skips and why."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from msgspec import UNSET

from whyrun.console.lines import TaskLine, TaskStatus, count, runtime_text, task_text
from whyrun.console.preview import task_name
from whyrun.execution.backends.registry import RunOptions
from whyrun.execution.run.preflight import check_limits, check_resources, resource_limits
from whyrun.graph.fingerprint import counts, recorded_suffix
from whyrun.graph.layers import compute_layers
from whyrun.graph.tables import ArtifactAt
from whyrun.planning.answers.explain import about, logged_duration
from whyrun.planning.artifact_states import ArtifactState, Available, Pending
from whyrun.planning.consume import Consumer, Consumption
from whyrun.planning.id_matching import match_nodes
from whyrun.planning.input_changes import InputChanged, compare_entries
from whyrun.planning.judge import Judge
from whyrun.project import Project
from whyrun.snapshot.records import Attempt, Output, Records, run_name
from whyrun.snapshot.snapshot import ActionFacts, Consumed, LogReader, PlanningSnapshot
from whyrun.workflow.arrays import is_value_type

# --- the subjects of a comparison --------------------------------------------------------------------------------
#
# The subjects of a comparison: each chosen job instance, what it would consume, and its recorded result.
#
# Each instance is compared on the recorded artifacts of its sources, whether or not those are up to date. If it would
# consume other content than its recorded result did, the two cannot be compared.


@dataclass(frozen=True, slots=True)
class Subject:
    """One job instance to compare. `against` is the recorded result; None: there is nothing to compare with."""

    node: int
    consumed: Consumption
    against: Attempt | None = None
    fingerprint: str = ""  # empty: the instance is not executed
    not_comparable: str | None = None  # the reason

    @property
    def executes(self) -> bool:
        return bool(self.fingerprint)


class RecordedResults:
    """The results that were current at a point of the log, as sources of the subjects."""

    def __init__(self, snapshot: PlanningSnapshot, records: Records) -> None:
        self.snapshot, self.records = snapshot, records
        self.graph = snapshot.dependency_graph
        self.inactive: set[int] = set()
        self._outputs: dict[int, Mapping[str, Output]] = {}
        if any(table.condition is not None for table in self.graph.tables):
            self._find_inactive()
        self.consumer = Consumer(self.graph, self.look)

    def result(self, node: int) -> Attempt | None:
        """The result of the latest attempt of an instance, if that succeeded."""
        record = self.records.steps.get(self.graph.job_id(node))
        return record.latest if record is not None and record.latest.ok else None

    def look(self, at: ArtifactAt) -> ArtifactState:
        node = self.graph.node(at)
        if node in self.inactive:
            return None
        if node not in self._outputs:
            result = self.result(node)
            self._outputs[node] = {} if result is None else {output.id: output for output in result.outputs}
        table = self.graph.tables[at.table]
        output = self._outputs[node].get(self.graph.artifact_id(at))
        spec = table.artifacts[at.artifact]
        if output is None or (output.type, output.suffix) != (spec.type, recorded_suffix(table, at.artifact)):
            return Pending(maybe=False)
        return Available(output.sha256, output.value if spec.is_leaf or is_value_type(spec.type) else UNSET)

    def _find_inactive(self) -> None:
        """Layer by layer, so that the sources of each instance are decided before it."""
        layers = compute_layers(self.graph)
        consumer = Consumer(self.graph, self.look)
        for node in sorted(range(self.graph.size), key=lambda n: (layers[n], n)):
            if consumer.consume(*self.graph.table_at(node)).inactive:
                self.inactive.add(node)


def find_subjects(snapshot: PlanningSnapshot, records: Records, log: LogReader, ids: Sequence[str]) -> list[Subject]:
    """The instances that `ids` name, or all active ones with a result; in the order of the graph."""
    recorded = RecordedResults(snapshot, records)
    graph = snapshot.dependency_graph
    if ids:
        nodes = sorted({node for text in ids for node in match_nodes(graph, text)})
    else:
        candidates = (node for node in range(graph.size) if node not in recorded.inactive)
        nodes = [node for node in candidates if recorded.result(node) is not None]
    results = {node: recorded.result(node) for node in nodes}
    consumed_before = log.consumed(attempt for attempt in results.values() if attempt is not None)
    judge = Judge(snapshot, {})
    return [_subject(recorded, judge, node, results[node], consumed_before) for node in nodes]


def _subject(
    recorded: RecordedResults,
    judge: Judge,
    node: int,
    against: Attempt | None,
    consumed_before: Mapping[tuple[int, int], Consumed],
) -> Subject:
    graph = recorded.graph
    table, position = graph.table_at(node)
    consumed = recorded.consumer.consume(table, position)
    if consumed.inactive:
        return Subject(node, consumed, against)
    if judge.snapshot.actions[table.name].effectful:
        return Subject(
            node, consumed, against, not_comparable="it changes things outside the project, and would do so again"
        )
    if consumed.problems:
        name, problem = next(iter(consumed.problems.items()))
        what = "its condition" if name == "if" else f"`{name.removeprefix('.')}`"
        return Subject(node, consumed, against, not_comparable=f"{what} cannot be computed: {problem}")
    waiting = next(consumed.pending, None)
    if waiting is not None or not consumed.known:
        what = graph.artifact_id(waiting) if waiting is not None else f"`{consumed.unknown[0]}`"
        return Subject(node, consumed, against, not_comparable=f"{what} is not available")
    if against is not None:
        before = consumed_before[(against.run, against.seq)]
        changes = list(_changes(consumed, before, judge.snapshot.actions[table.name]))
        if changes:
            more = f" and {len(changes) - 1} more" if len(changes) > 1 else ""
            why = changes[0].text(table.job_id(position)).replace("  ", " ") + more
            return Subject(node, consumed, against, not_comparable=why)
    return Subject(node, consumed, against, judge.fingerprint(table, position, consumed))


def _changes(consumed: Consumption, before: Consumed, action: ActionFacts) -> Iterator[InputChanged]:
    """How the inputs differ from those of the recorded result. A changed action does not count: testing it is what a
    comparison is for."""
    for name in sorted({*before, *consumed.entries} - {".action"}):
        if counts(name, action.uncounted):
            yield from compare_entries(name.removeprefix("."), before.get(name), consumed.entries.get(name))


# --- the preview -------------------------------------------------------------------------------------------------


def subjects_of(
    project: Project, snapshot: PlanningSnapshot, ids: Sequence[str], against: str | None
) -> tuple[Records, Sequence[Subject]]:
    """The subjects, and the records that they are compared with: the present ones, or those after an earlier run."""
    log = project.history() if against is None else project.history(through=project.state.run(against).number)
    records = snapshot.records if against is None else log.records
    subjects = find_subjects(snapshot, records, log, ids)
    for subject in subjects:
        log.check_known(snapshot.dependency_graph.job_id(subject.node))
    return records, subjects


@dataclass(frozen=True, slots=True)
class ComparisonPreview:
    """What a comparison will do, at most: a job whose recorded inputs are lost is skipped after all."""

    snapshot: PlanningSnapshot
    subjects: Sequence[Subject]

    @property
    def durations(self) -> dict[str, float | None]:
        """By job, in seconds; None: unknown."""
        steps = self.snapshot.records.steps
        jobs = {self.job(subject): subject for subject in self.subjects}
        return {job: logged_duration(steps.get(job)) if one.executes else 0.0 for job, one in jobs.items()}

    def job(self, subject: Subject) -> str:
        return self.snapshot.dependency_graph.job_id(subject.node)

    def estimate(self, workers: int = 0) -> float | None:
        """Seconds that it may take; None unless the log has a duration for every job."""
        known = [duration for duration in self.durations.values() if duration is not None]
        if not known or len(known) < len(self.subjects):
            return None
        return max(max(known), sum(known) / (workers or os.cpu_count() or 1))

    def headline(self, workers: int = 0) -> str:
        if not self.subjects:
            return "nothing to compare: no job has a result"
        executing = sum(subject.executes for subject in self.subjects)
        rest = len(self.subjects) - executing
        estimate = self.estimate(workers) if executing else None
        return "".join(
            [
                f"{count(executing, 'job')} to execute again and compare",
                f", {rest} to skip" if rest else "",
                f"  (~{about(estimate)})" if estimate is not None else "",
            ]
        )

    def lines(self, when: datetime) -> Iterator[TaskLine]:
        durations = self.durations
        for subject in self.subjects:
            table, position = self.snapshot.dependency_graph.table_at(subject.node)
            status = TaskStatus.WOULD_EXECUTE if subject.executes else TaskStatus.WOULD_SKIP
            runtime = runtime_text(status, durations[self.job(subject)]) if subject.executes else ""
            text = task_text(task_name(table, position), runtime=runtime, details=[self.detail(subject)])
            yield TaskLine(when, table.decl.uses, status, text)

    def detail(self, subject: Subject) -> str:
        if subject.consumed.inactive:
            return "inactive"
        if subject.not_comparable is not None:
            return f"not comparable: {subject.not_comparable}"
        if subject.against is None:
            return "there is nothing to compare with"
        origins = sorted({origin for _, origin in subject.against.own_sources.values()})
        return f"to compare with {', '.join([run_name(subject.against.run), *origins])}"

    def to_json(self, workers: int = 0) -> dict[str, Any]:
        jobs = []
        for subject in self.subjects:
            status = "WOULD_EXECUTE" if subject.executes else "WOULD_SKIP"
            jobs.append({"id": self.job(subject), "status": status, "why": self.detail(subject)})
        return {"dry_run": True, "estimate_seconds": self.estimate(workers), "jobs": jobs}


def preview_comparison(
    project: Project, ids: Sequence[str], against: str | None, options: RunOptions
) -> ComparisonPreview:
    """Does not lock, execute or record anything."""
    graph = project.settled_graph()
    for text in ids:
        match_nodes(graph, text)
    check_limits(project, options.limits or {})
    snapshot = project.snapshot()
    _, subjects = subjects_of(project, snapshot, ids, against)
    limits = resource_limits(project, options)
    check_resources(snapshot, [subject.node for subject in subjects if subject.executes], limits, project.config.rates)
    return ComparisonPreview(snapshot, subjects)
