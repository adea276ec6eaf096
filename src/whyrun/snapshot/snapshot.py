"""GRAPH + LOG + WORLD → the snapshot: everything that the planner may know.

The planner reads nothing else and touches nothing. What `observe` saw is kept only where it differs from what the log
says, so that a snapshot can be written down and built again (`replay`).

Most instances of a large workflow are up to date, and showing that must cost nearly nothing. So the snapshot compares
whole columns first: `suspects` are the instances that may be other than clean. The rest is clean by construction (its
fingerprint is that of its latest, successful attempt, its outputs are recorded and there, and it has no condition),
unless something upstream changes, which the planner follows along the edges.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from itertools import repeat
from typing import Any, Literal, Protocol

import msgspec

from whyrun.artifacts.hashing import value_sha256
from whyrun.errors import WhyrunError, error
from whyrun.graph.fingerprint import (
    artifact_form,
    fingerprint,
    group_token,
    input_form,
    prefixes,
    token,
)
from whyrun.graph.graph import (
    AlignedArtifact,
    ArtifactAt,
    Column,
    Computed,
    FirstOf,
    Graph,
    Group,
    InputAt,
    JobTable,
    Known,
    SameTerm,
    Term,
)
from whyrun.graph.template import compute
from whyrun.ids import Kind, parse_id_of
from whyrun.snapshot.fold import (
    Attempt,
    InputRecord,
    Output,
    Records,
    StepRecord,
    run_name,
)
from whyrun.workflow.expression import ExpressionError
from whyrun.workflow.inputs import InputValue
from whyrun.workflow.model import VALUE_TYPES

JobStatus = Literal["succeeded", "failed", "never_run", "running"]
Consumed = Mapping[str, Any]  # slot name → [{"id", "sha256", "as"?, "value"?}] or {"count", "digest", "blob"}


@dataclass(frozen=True, slots=True)
class ArtifactAvailabilityRecord:
    id: str
    sha256: str
    size: int
    type: str
    run: str
    seq: int
    step_id: str
    path: str | None = None


@dataclass(frozen=True, slots=True)
class ProducerAttemptRecord:
    step_id: str
    status: JobStatus
    run: str | None = None
    attempt: int | None = None
    error_type: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class InputStateRecord:
    id: str
    sha256: str
    recorded_sha256: str | None


@dataclass(frozen=True, slots=True)
class ActionFacts:
    """What planning knows of a job's action."""

    name: str
    sha256: str
    deterministic: bool = False
    files: tuple[str, ...] = ()  # its code in the project; known to the live world only, not part of a snapshot


@dataclass(frozen=True, slots=True)
class BlobCheck:
    """Stored bytes to look for; a published file with the same content does as well."""

    sha256: str
    size: int
    type: str
    path: str | None


class Observer(Protocol):
    """The world's answers. Only deviations are reported: what is as recorded is not worth a word."""

    def changed_files(self, paths: Sequence[str], sha256s: Sequence[str]) -> Mapping[str, str]:
        """path → "deleted" or "changed", for published files whose content is not what the log says."""

    def lost_blobs(self, checks: Sequence[BlobCheck]) -> Iterable[str]:
        """The hashes whose bytes are no longer to be had."""


class LogReader(Protocol):
    """The log, folded, with the detail of single records on demand."""

    @property
    def records(self) -> Records: ...

    def consumed(self, attempts: Iterable[Attempt]) -> Mapping[tuple[int, int], Consumed]:
        """(run, seq) → the bindings recorded there."""

    def check_ids(self) -> None:
        """Read every ID of the log; LOG_DAMAGED with file and line at the first that is not canonical."""


@dataclass(eq=False)
class PlanningSnapshot:
    dependency_graph: Graph
    records: Records
    actions: Mapping[str, ActionFacts]  # by job name
    files: Mapping[str, str]  # observed: published path → "deleted" | "changed"
    lost: frozenset[str]  # observed: stored bytes that are gone
    suspects: Sequence[int] = ()
    consumed: Mapping[tuple[int, int], Consumed] = field(default_factory=dict)
    rows: list[list[StepRecord | None]] = field(default_factory=list)  # [table][row]: what the log says of it
    shas: list[list[list[str | None]]] = field(default_factory=list)  # [table][artifact][row]: available, and there

    @property
    def log_position(self) -> dict[str, Any] | None:
        return {"run": run_name(self.records.run), "seq": self.records.seq} if self.records.run else None

    # -- one instance --

    def record(self, node: int) -> StepRecord | None:
        table, position = self.dependency_graph.table_at(node)
        return self.rows[table.number][position]

    def output(self, at: ArtifactAt) -> Output:
        """The record of an available artifact."""
        table = self.dependency_graph.tables[at.table]
        record = self.rows[at.table][at.position]
        assert record is not None
        wanted = table.artifact_id(at.artifact, at.position)
        return next(o for o in record.latest.outputs if o.id == wanted)

    def value(self, at: ArtifactAt) -> Any:
        output = self.output(at)
        return output.value if output.value is not msgspec.UNSET else output.sha256

    # -- the whole, for people and programs; made on demand --

    @cached_property
    def available_artifacts(self) -> Mapping[str, ArtifactAvailabilityRecord]:
        found = {}
        for table in self.dependency_graph.tables:
            for a in range(len(table.artifacts)):
                shas = self.shas[table.number][a]
                for p, id_ in enumerate(table.artifact_ids(a)):
                    if shas[p] is not None:
                        latest = self.records.steps[table.job_id(p)].latest
                        output = next(o for o in latest.outputs if o.id == id_)
                        found[id_] = ArtifactAvailabilityRecord(
                            id_, output.sha256, output.size, output.type, run_name(latest.run), latest.seq,
                            table.job_id(p), output.path,
                        )  # fmt: skip
        return found

    @cached_property
    def failed_artifacts(self) -> frozenset[str]:
        return frozenset(
            table.artifact_id(a, p)
            for table in self.dependency_graph.tables
            for p, job in enumerate(table.job_ids())
            if (record := self.records.steps.get(job)) is not None and not record.latest.ok
            for a in range(len(table.artifacts))
        )

    @cached_property
    def latest_job_status(self) -> Mapping[str, ProducerAttemptRecord]:
        found = {}
        for table in self.dependency_graph.tables:
            for job in table.job_ids():
                record = self.records.steps.get(job)
                if record is None:
                    found[job] = ProducerAttemptRecord(job, "never_run")
                    continue
                latest = record.latest
                failed = (latest.error_type, latest.error) if not latest.ok else (None, None)
                status: JobStatus = "succeeded" if latest.ok else "failed"
                found[job] = ProducerAttemptRecord(job, status, run_name(latest.run), latest.number, *failed)
        return found

    @cached_property
    def input_state(self) -> Mapping[str, InputStateRecord]:
        found = {}
        for id_, value in leaf_inputs(self.dependency_graph.inputs):
            recorded = self.records.inputs.get(id_)
            found[id_] = InputStateRecord(id_, value.sha256, recorded.sha256 if recorded else None)
        return found

    @cached_property
    def inputs_changed(self) -> list[str]:
        """Inputs and elements whose content is not what the last run recorded; recorded ones that are gone, too."""
        if not self.records.run:
            return []
        return sorted(changed_inputs(self.dependency_graph.inputs, self.records.inputs))


def leaf_inputs(inputs: Mapping[str, InputValue]) -> Iterable[tuple[str, InputValue]]:
    """Each input by its finest canonical ID: elements of arrays, not the array."""

    def walk(id_: str, value: InputValue) -> Iterable[tuple[str, InputValue]]:
        if value.elements is None:
            yield id_, value
        for i, item in enumerate(value.elements or ()):
            yield from walk(f"{id_}[{i}]", item)

    for id_, value in inputs.items():
        yield from walk(id_, value)


def changed_inputs(inputs: Mapping[str, InputValue], recorded: Mapping[str, InputRecord]) -> Iterable[str]:
    now = dict(leaf_inputs(inputs))
    for id_, value in now.items():
        before = recorded.get(id_)
        if before is None or before.sha256 != value.sha256:
            yield id_
    for id_, before in recorded.items():
        if id_ not in now and before.sha256:  # an empty hash is the record of a removal
            yield id_


# --- building ----------------------------------------------------------------------------------------------------


def build_planning_snapshot(
    graph: Graph,
    log: LogReader,
    observe: Observer,
    actions: Mapping[str, ActionFacts],
    memo: dict[str, str] | None = None,
) -> PlanningSnapshot:
    """Fold of the log and look at the world, joined over the graph. Reads through its arguments only.

    `memo` remembers, by job, the digest of columns that were compared row by row and found equal; with the same
    digest they need not be compared again. It saves time and changes nothing.
    """
    records = log.records
    snapshot = PlanningSnapshot(graph, records, actions, {}, frozenset())
    snapshot.rows = [list(map(records.steps.get, table.job_ids())) for table in graph.tables]
    snapshot.shas = [_recorded(table, snapshot.rows[table.number]) for table in graph.tables]
    _check_foreign_ids(snapshot, log)
    snapshot.files = observe.changed_files(*_published(graph, snapshot.shas))
    lost = set(observe.lost_blobs(_blob_checks(graph, snapshot.shas)))
    _apply_deviations(snapshot, lost)
    snapshot.suspects = _suspects(snapshot, {} if memo is None else memo)
    reach = _reach(graph, snapshot.suspects)
    histories = [r for node in reach if (r := snapshot.record(node)) is not None]
    successes = [a for r in histories if (a := r.last_success()) is not None]
    snapshot.consumed = log.consumed(successes)
    if any(actions[graph.table_at(node)[0].name].deterministic for node in reach):
        histories = list(records.steps.values())
    candidates = {
        o.sha256: BlobCheck(o.sha256, o.size, o.type, o.path)
        for record in histories
        for attempt in record.attempts()
        if attempt.ok
        for o in attempt.outputs
        if o.value is msgspec.UNSET and o.sha256 not in lost
    }
    snapshot.lost = frozenset(lost.union(observe.lost_blobs(list(candidates.values()))))
    return snapshot


def _check_foreign_ids(snapshot: PlanningSnapshot, log: LogReader) -> None:
    """IDs of the graph are right by construction; any other in the log must at least parse."""
    graph, records = snapshot.dependency_graph, log.records
    foreign: list[tuple[Kind, str]] = []
    if sum(len(row) - row.count(None) for row in snapshot.rows) < len(records.steps):
        foreign.extend(("Job", step) for step in records.steps.keys() - graph.node_of.keys())
    foreign.extend(("Input", id_) for id_ in records.inputs.keys() - dict(leaf_inputs(graph.inputs)).keys())
    for table in graph.tables:
        incomplete = [column for column in snapshot.shas[table.number] if None in column]
        for p, record in enumerate(snapshot.rows[table.number] if incomplete else ()):
            if record is not None and any(column[p] is None for column in incomplete):
                foreign.extend(("Artifact", output.id) for output in record.latest.outputs)
    for kind, id_ in foreign:
        try:
            parse_id_of(kind, id_)
        except WhyrunError as problem:
            log.check_ids()  # knows the file and the line
            raise error("LOG_DAMAGED", f"the log names `{id_}`: {problem.diagnostics[0].message}") from None


def _recorded(table: JobTable, rows: Sequence[StepRecord | None]) -> list[list[str | None]]:
    """By artifact and row: the hash recorded by the latest attempt, if that succeeded and the type still fits."""
    columns: list[list[str | None]] = [[None] * len(table) for _ in table.artifacts]
    ids = [table.artifact_ids(a) for a in range(len(table.artifacts))]
    if len(columns) == 1:  # the common case, in one pass without dictionaries
        column, names, type_ = columns[0], ids[0], table.artifacts[0].type
        for p, record in enumerate(rows):
            if record is not None and record.latest.ok:
                for output in record.latest.outputs:
                    if output.id == names[p] and output.type == type_:
                        column[p] = output.sha256
        return columns
    for p, record in enumerate(rows):
        if record is None or not record.latest.ok:
            continue
        by_id = {output.id: output for output in record.latest.outputs}
        for a, column in enumerate(columns):
            found = by_id.get(ids[a][p])
            if found is not None and found.type == table.artifacts[a].type:
                column[p] = found.sha256
    return columns


def _published(graph: Graph, shas: list[list[list[str | None]]]) -> tuple[list[str], list[str]]:
    """The published files to look at, and the content that each should have."""
    paths: list[str] = []
    expected: list[str] = []
    for table in graph.tables:
        for a, spec in enumerate(table.artifacts):
            output = table.output_of(a)
            if spec.is_leaf or output.paths is None:
                continue
            column = shas[table.number][a]
            if None not in column:
                paths.extend(output.paths)
                expected.extend(column)  # type: ignore[arg-type]  # no None in it
            else:
                for path, sha in zip(output.paths, column, strict=True):
                    if sha is not None:
                        paths.append(path)
                        expected.append(sha)
    return paths, expected


def _blob_checks(graph: Graph, shas: list[list[list[str | None]]]) -> list[BlobCheck]:
    """Outputs that are published nowhere live in the store only. Small values are in the log itself."""
    checks = []
    for table in graph.tables:
        for a, spec in enumerate(table.artifacts):
            if spec.is_leaf or spec.type in VALUE_TYPES or table.output_of(a).paths is not None:
                continue
            for sha in shas[table.number][a]:
                if sha is not None:
                    checks.append(BlobCheck(sha, -1, spec.type, None))
    return checks


def _apply_deviations(snapshot: PlanningSnapshot, lost: set[str]) -> None:
    """Recorded is not enough: what is not there any more is not available."""
    if not snapshot.files and not lost:
        return
    for table in snapshot.dependency_graph.tables:
        for a, spec in enumerate(table.artifacts):
            if spec.is_leaf:
                continue
            column = snapshot.shas[table.number][a]
            paths = table.output_of(a).paths
            if paths is not None:
                for p, path in enumerate(paths):
                    if path in snapshot.files:
                        column[p] = None
            elif lost and spec.type not in VALUE_TYPES:
                for p, sha in enumerate(column):
                    if sha in lost:
                        column[p] = None


# --- suspects: whole columns compared ----------------------------------------------------------------------------


def _suspects(snapshot: PlanningSnapshot, memo: dict[str, str]) -> list[int]:
    found: list[int] = []
    for table in snapshot.dependency_graph.tables:
        if table.condition is not None:
            found.extend(range(table.base, table.base + len(table)))
            continue
        tokens = [_token_column(snapshot, slot.column, len(table)) for slot in table.slots]
        # "" where there is no success: no fingerprint is empty.
        recorded = [r.latest.fingerprint if r is not None and r.latest.ok else "" for r in snapshot.rows[table.number]]
        heads = prefixes(table, snapshot.actions[table.name].sha256)
        incomplete = [column for column in snapshot.shas[table.number] if None in column]
        digest = None
        if not incomplete and not any(None in column for column in tokens):
            digest = _digest(heads, tokens, recorded)
            if memo.get(table.name) == digest:
                continue
        before = len(found)
        consumed: Iterable[tuple[str | None, ...]] = zip(*tokens, strict=True) if tokens else repeat((), len(table))
        for p, (was, head, row) in enumerate(zip(recorded, heads, consumed, strict=True)):
            if (
                None in row
                or was != fingerprint(head, row)  # type: ignore[arg-type]  # no None in it
                or any(column[p] is None for column in incomplete)
            ):
                found.append(table.base + p)
        if digest is not None and len(found) == before:
            memo[table.name] = digest
    return found


def _digest(heads: Sequence[str], tokens: Sequence[Sequence[str | None]], recorded: Sequence[str]) -> str:
    """Over everything that comparing the rows would look at, column by column, each with its length."""
    same = heads[:1] if len(set(heads)) == 1 else heads
    whole = sha256()
    for column in (same, *tokens, recorded):
        data = "\0".join(column).encode()  # type: ignore[arg-type]  # no None in it
        whole.update(b"%d %d\n" % (len(column), len(data)))
        whole.update(data)
    return whole.hexdigest()


def _token_column(snapshot: PlanningSnapshot, column: Column, rows: int) -> Sequence[str | None]:
    """By row: the token of what a slot would consume, None where that is not known from the log alone."""
    if not rows:
        return []  # a loop without values: what its slots would name was never resolved
    graph = snapshot.dependency_graph
    if isinstance(column, AlignedArtifact):
        form = artifact_form(graph.tables[column.table], column.artifact)
        letter, suffix = form[0], form[1:]
        return [
            None if sha is None else f"{letter}{sha}{suffix}" for sha in snapshot.shas[column.table][column.artifact]
        ]
    groups: dict[int, str | None] = {}

    def token_of(term: Term) -> str | None:
        if isinstance(term, Group):
            if id(term) not in groups:
                members = [token_of(member) for member in term.members]
                groups[id(term)] = None if None in members else group_token(members)  # type: ignore[arg-type]
            return groups[id(term)]
        return _plain_token(snapshot, term)

    if isinstance(column, SameTerm):
        return [token_of(column.term)] * rows
    return [token_of(term) for term in column.terms]


def _plain_token(snapshot: PlanningSnapshot, term: Term) -> str | None:
    if isinstance(term, Known):
        return f"v{term.sha256}"
    if isinstance(term, InputAt):
        return token(input_form(term.value), term.value.sha256)
    if isinstance(term, ArtifactAt):
        sha = snapshot.shas[term.table][term.artifact][term.position]
        if sha is None:
            return None
        return token(artifact_form(snapshot.dependency_graph.tables[term.table], term.artifact), sha)
    if isinstance(term, Computed):
        values = []
        for operand in term.operands:
            if isinstance(operand, InputAt):
                values.append(operand.value.value)
            elif isinstance(operand, ArtifactAt):
                if snapshot.shas[operand.table][operand.artifact][operand.position] is None:
                    return None
                values.append(snapshot.value(operand))
            else:
                return None  # fan-ins, `first`, absences: the planner decides
        try:
            return f"v{value_sha256(compute(term.template, values, term.names))}"
        except ExpressionError:
            return None
    assert isinstance(term, FirstOf | Group)
    return None


def _reach(graph: Graph, roots: Sequence[int]) -> list[int]:
    """The roots and everything downstream: all that the planner can have a question about."""
    seen = set(roots)
    stack = list(roots)
    while stack:
        for node in graph.dependents(stack.pop()):
            if node not in seen:
                seen.add(node)
                stack.append(node)
    return sorted(seen)
