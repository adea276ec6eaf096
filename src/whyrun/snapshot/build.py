"""GRAPH + LOG + WORLD → the snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from whyrun.errors import WhyrunError, error
from whyrun.graph.fingerprint import recorded_suffix
from whyrun.graph.graph import (
    Graph,
    JobTable,
)
from whyrun.ids import Kind, parse_id_of
from whyrun.snapshot.records import StepRecord
from whyrun.snapshot.snapshot import ActionFacts, BlobCheck, LogReader, Observer, PlanningSnapshot, leaf_inputs
from whyrun.snapshot.suspects import find_suspects
from whyrun.workflow.model import VALUE_TYPES


def build_planning_snapshot(
    graph: Graph,
    log: LogReader,
    observe: Observer,
    actions: Mapping[str, ActionFacts],
    memo: dict[str, str] | None = None,
    ask: Callable[[PlanningSnapshot], Mapping[str, str]] | None = None,
) -> PlanningSnapshot:
    """Fold of the log and look at the world, joined over the graph. Reads through its arguments only.

    `memo` remembers, by job, the digest of columns that were compared row by row and found equal; with the same
    digest they need not be compared again. It saves time and changes nothing.

    `ask`: what actions say of published files that are as recorded (see `asked_outputs`); told like what was observed.
    """
    records = log.records
    snapshot = PlanningSnapshot(graph, records, actions, {}, frozenset())
    snapshot.rows = [list(map(records.steps.get, table.job_ids())) for table in graph.tables]
    snapshot.shas = [_recorded(table, snapshot.rows[table.number]) for table in graph.tables]
    _check_foreign_ids(snapshot, log)
    snapshot.files = observe.changed_files(*_published(graph, snapshot.shas, sections=False))
    sites, expected = _published(graph, snapshot.shas, sections=True)
    if sites:
        snapshot.files = {**snapshot.files, **observe.changed_sections(sites, expected)}
    lost = set(observe.lost_blobs(_blob_checks(snapshot)))
    _apply_deviations(snapshot, lost)
    said = ask(snapshot) if ask is not None else {}
    if said:
        snapshot.files = {**snapshot.files, **said}
        _apply_deviations(snapshot, lost)
    snapshot.suspects = find_suspects(snapshot, {} if memo is None else memo)
    reach = sorted(graph.downstream(snapshot.suspects))
    histories = [r for node in reach if (r := snapshot.record(node)) is not None]
    successes = [a for r in histories if (a := r.last_success()) is not None]
    snapshot.consumed = log.consumed(successes)
    if any(actions[graph.table_at(node)[0].name].deterministic for node in reach):
        histories = list(records.steps.values())
    candidates = {
        (key := o.bytes_key): BlobCheck(o.sha256, o.size, o.type, o.path, key)
        for record in histories
        for attempt in record.attempts()
        if attempt.has_result
        for o in attempt.outputs
        if o.value is msgspec.UNSET and o.bytes_key not in lost
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
    """By artifact and row: the hash recorded by the latest attempt, if that succeeded and type and suffix still fit."""
    columns: list[list[str | None]] = [[None] * len(table) for _ in table.artifacts]
    ids = [table.artifact_ids(a) for a in range(len(table.artifacts))]
    if len(columns) == 1:  # the common case, in one pass without dictionaries
        column, names, type_, suffix = columns[0], ids[0], table.artifacts[0].type, recorded_suffix(table, 0)
        for p, record in enumerate(rows):
            if record is not None and record.latest.ok:
                for output in record.latest.outputs:
                    if output.id == names[p] and output.type == type_ and output.suffix == suffix:
                        column[p] = output.sha256
        return columns
    declared = [(spec.type, recorded_suffix(table, a)) for a, spec in enumerate(table.artifacts)]
    for p, record in enumerate(rows):
        if record is None or not record.latest.ok:
            continue
        by_id = {output.id: output for output in record.latest.outputs}
        for a, column in enumerate(columns):
            found = by_id.get(ids[a][p])
            if found is not None and (found.type, found.suffix) == declared[a]:
                column[p] = found.sha256
    return columns


def _published(graph: Graph, shas: list[list[list[str | None]]], *, sections: bool) -> tuple[list[str], list[str]]:
    """The published files (or sections of files) to look at, and the content that each should have."""
    paths: list[str] = []
    expected: list[str] = []
    for table in graph.tables:
        for a, spec in enumerate(table.artifacts):
            output = table.output_of(a)
            if spec.is_leaf or output.paths is None or output.append != sections:
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


def _blob_checks(snapshot: PlanningSnapshot) -> list[BlobCheck]:
    """Outputs that are published nowhere live in the store only. Small values are in the log itself."""
    checks = []
    for table in snapshot.dependency_graph.tables:
        wanted = {
            a: snapshot.shas[table.number][a]
            for a, spec in enumerate(table.artifacts)
            if not spec.is_leaf and spec.type not in VALUE_TYPES and table.output_of(a).paths is None
        }
        if not wanted:
            continue
        only = len(table.artifacts) == 1
        for p, record in enumerate(snapshot.rows[table.number]):
            for a, column in wanted.items():
                sha = column[p]
                if sha is None or record is None:
                    continue
                outputs = record.latest.outputs
                id_ = outputs[0].id if only and len(outputs) == 1 else table.artifact_id(a, p)
                size = next(o.size for o in outputs if o.id == id_)
                checks.append(BlobCheck(sha, size, table.artifacts[a].type, None, sha))
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
