"""GRAPH + LOG + WORLD → the snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from whyrun.artifacts.hash_column import HashColumn
from whyrun.errors import WhyrunError, error
from whyrun.graph.graph import Graph
from whyrun.ids import Kind, parse_id_of
from whyrun.snapshot.joined import JoinedTable, foreign_steps, join_tables
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
    joined = join_tables(graph, records.steps)
    snapshot.rows = [table.rows for table in joined]
    snapshot.shas = [table.shas for table in joined]
    _check_foreign_ids(snapshot, log, sum(table.present for table in joined))
    snapshot.files = observe.changed_files(*_published(graph, snapshot.shas, sections=False))
    sites, expected = _published(graph, snapshot.shas, sections=True)
    if sites:
        snapshot.files = {**snapshot.files, **observe.changed_sections(sites, expected)}
    lost = set(observe.lost_blobs(_blob_checks(graph, joined)))
    _apply_deviations(snapshot, lost)
    said = ask(snapshot) if ask is not None else {}
    if said:
        snapshot.files = {**snapshot.files, **said}
        _apply_deviations(snapshot, lost)
    snapshot.suspects = find_suspects(snapshot, [table.fingerprints for table in joined], {} if memo is None else memo)
    reach = sorted(graph.downstream(snapshot.suspects))
    histories = [r for node in reach if (r := snapshot.record(node)) is not None]
    successes = [a for r in histories if (a := r.last_success()) is not None]
    snapshot.consumed = log.consumed(successes)
    if any(actions[graph.table_at(node)[0].name].deterministic for node in reach):
        histories = list(records.steps.values())
    candidates = {
        (key := o.bytes_key): BlobCheck(o.sha256, o.size, o.type, o.path, key)
        for record in histories
        for attempt in (*record.attempts(), *(record.unadopted or ()))
        if attempt.has_result
        for o in attempt.outputs
        if o.value is msgspec.UNSET and o.bytes_key not in lost
    }
    snapshot.lost = frozenset(lost.union(observe.lost_blobs(list(candidates.values()))))
    return snapshot


def _check_foreign_ids(snapshot: PlanningSnapshot, log: LogReader, present: int) -> None:
    """IDs of the graph are right by construction; any other in the log must at least parse."""
    graph, records = snapshot.dependency_graph, log.records
    foreign: list[tuple[Kind, str]] = []
    if present < len(records.steps):
        foreign.extend(("Job", step) for step in foreign_steps(graph, records.steps))
    foreign.extend(("Input", id_) for id_ in records.inputs.keys() - dict(leaf_inputs(graph.inputs)).keys())
    for table in graph.tables:
        rows = snapshot.rows[table.number]
        for p in sorted({p for column in snapshot.shas[table.number] for p in column.absent()}):
            record = rows[p]
            if record is not None:
                foreign.extend(("Artifact", output.id) for output in record.latest.outputs)
    for kind, id_ in foreign:
        try:
            parse_id_of(kind, id_)
        except WhyrunError as problem:
            log.check_ids()  # knows the file and the line
            raise error("LOG_DAMAGED", f"the log names `{id_}`: {problem.diagnostics[0].message}") from None


def _published(graph: Graph, shas: list[list[HashColumn]], *, sections: bool) -> tuple[list[str], HashColumn]:
    """The published files (or sections of files) to look at, and the content that each should have."""
    paths: list[str] = []
    expected: list[HashColumn] = []
    for table in graph.tables:
        for a, spec in enumerate(table.artifacts):
            output = table.output_of(a)
            if spec.is_leaf or output.paths is None or output.append != sections:
                continue
            column = shas[table.number][a]
            if column.is_complete:
                paths.extend(output.paths)
                expected.append(column)
            else:
                there = [p for p, sha in enumerate(column) if sha is not None]
                paths.extend([output.paths[p] for p in there])
                expected.append(column.taken(there))
    return paths, HashColumn.joined(expected)


def _blob_checks(graph: Graph, joined: Sequence[JoinedTable]) -> list[BlobCheck]:
    """Outputs that are published nowhere live in the store only. Small values are in the log itself."""
    return [
        BlobCheck(sha, size, spec.type, None, sha)
        for table in graph.tables
        for a, spec in enumerate(table.artifacts)
        if not spec.is_leaf and spec.type not in VALUE_TYPES and table.output_of(a).paths is None
        for sha, size in zip(joined[table.number].shas[a], joined[table.number].sizes[a], strict=True)
        if sha is not None
    ]


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
