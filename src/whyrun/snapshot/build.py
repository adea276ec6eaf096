"""GRAPH + LOG + WORLD → SNAPSHOT: builds the state that planning reads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import msgspec

from whyrun.artifacts.hash_column import HashColumn
from whyrun.errors import WhyrunError, error
from whyrun.graph.tables import Graph
from whyrun.ids import Kind, parse_id_of
from whyrun.snapshot.columns import JoinedTable, foreign_steps, join_tables
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
    """Join the folded log and the observed world over the graph. Reads through its arguments only.

    `memo` remembers, by job, the digest of columns that were compared row by row and found equal. Columns with the
    same digest are not compared again. It saves time and changes no result.

    `ask` asks actions about published files that are as recorded (see `actions.output_hooks`); their answers count like
    observations.
    """
    records = log.records
    joined = join_tables(graph, records.steps)
    rows, shas = [table.rows for table in joined], [table.shas for table in joined]
    _check_foreign_ids(graph, log, joined)
    files = observe.changed_files(*_published(graph, shas, sections=False))
    sites, expected = _published(graph, shas, sections=True)
    if sites:
        files = {**files, **observe.changed_sections(sites, expected)}
    lost = set(observe.lost_blobs(_blob_checks(graph, joined)))
    _remove_unavailable(graph, shas, files, lost)
    snapshot = PlanningSnapshot(graph, records, actions, files, frozenset(lost), rows=rows, shas=shas)
    denied = ask(snapshot) if ask is not None else {}
    if denied:
        files = {**files, **denied}
        shas = [[column.copy() for column in columns] for columns in shas]
        _remove_unavailable(graph, shas, files, lost)
        snapshot = replace(snapshot, files=files, shas=shas)
    suspects = find_suspects(snapshot, [table.fingerprints for table in joined], {} if memo is None else memo)
    reach = sorted(graph.downstream(suspects))
    histories = [r for node in reach if (r := snapshot.record(node)) is not None]
    consumed = log.consumed([a for r in histories if (a := r.last_success()) is not None])
    if any(actions[graph.table_at(node)[0].name].deterministic for node in reach):
        histories = list(records.steps.values())  # such a job may reuse the result of any other step
    candidates = {
        (key := o.bytes_key): BlobCheck(o.sha256, o.size, o.type, o.path, key)
        for record in histories
        for attempt in (*record.attempts(), *(record.unadopted or ()))
        if attempt.has_result
        for o in attempt.outputs
        if o.value is msgspec.UNSET and o.bytes_key not in lost
    }
    lost.update(observe.lost_blobs(list(candidates.values())))
    return replace(snapshot, suspects=suspects, consumed=consumed, lost=frozenset(lost))


def _check_foreign_ids(graph: Graph, log: LogReader, joined: Sequence[JoinedTable]) -> None:
    """IDs of the graph are right by construction; any other ID in the log must at least parse."""
    records = log.records
    foreign: list[tuple[Kind, str]] = []
    if sum(table.present for table in joined) < len(records.steps):
        foreign.extend(("Job", step) for step in foreign_steps(graph, records.steps))
    foreign.extend(("Input", id_) for id_ in records.inputs.keys() - dict(leaf_inputs(graph.inputs)).keys())
    for table in joined:
        for p in sorted({p for column in table.shas for p in column.absent()}):
            record = table.rows[p]
            if record is not None:
                foreign.extend(("Artifact", output.id) for output in record.latest.outputs)
    for kind, id_ in foreign:
        try:
            parse_id_of(kind, id_)
        except WhyrunError as problem:
            log.check_ids()  # raises with the file and the line
            raise error("LOG_DAMAGED", f"the log names `{id_}`: {problem.diagnostics[0].message}") from None


def _published(graph: Graph, shas: list[list[HashColumn]], *, sections: bool) -> tuple[list[str], HashColumn]:
    """The published files (or sections of files) to check, and the hash that each should have."""
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
    """Outputs without a path are in the store only. Small values are in the log itself."""
    return [
        BlobCheck(sha, size, spec.type, None, sha)
        for table in graph.tables
        for a, spec in enumerate(table.artifacts)
        if not spec.is_leaf and spec.type not in VALUE_TYPES and table.output_of(a).paths is None
        for sha, size in zip(joined[table.number].shas[a], joined[table.number].sizes[a], strict=True)
        if sha is not None
    ]


def _remove_unavailable(
    graph: Graph, shas: Sequence[Sequence[HashColumn]], files: Mapping[str, str], lost: Collection[str]
) -> None:
    """Clear the hashes of outputs that are recorded, but no longer there."""
    if not files and not lost:
        return
    for table in graph.tables:
        for a, spec in enumerate(table.artifacts):
            if spec.is_leaf:
                continue
            column = shas[table.number][a]
            paths = table.output_of(a).paths
            if paths is not None:
                for p, path in enumerate(paths):
                    if path in files:
                        column[p] = None
            elif lost and spec.type not in VALUE_TYPES:
                for p, sha in enumerate(column):
                    if sha in lost:
                        column[p] = None
