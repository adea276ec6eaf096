"""GRAPH + LOG + WORLD → SNAPSHOT: builds the state that planning reads."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, overload

import msgspec
from msgspec.structs import replace

from whyrun.artifacts.hash_column import HashColumn
from whyrun.errors import WhyrunError, error
from whyrun.graph.fingerprint import recorded_suffix
from whyrun.graph.tables import Graph, JobTable
from whyrun.ids import Kind, parse_id_of
from whyrun.snapshot.index import IndexedSteps, JobBlock, block_name
from whyrun.snapshot.reads import ObservedReads, has_own_packages
from whyrun.snapshot.records import Attempt, MadeInRun, Output, StepRecord
from whyrun.snapshot.snapshot import ActionFacts, BlobCheck, LogReader, Observer, PlanningSnapshot, leaf_inputs
from whyrun.snapshot.suspects import find_suspects
from whyrun.workflow.arrays import Element, element_type, elements_of, is_array, published_path
from whyrun.workflow.model import VALUE_TYPES

if TYPE_CHECKING:
    from whyrun.snapshot.read_states import ReadsLook

# --- joining records to rows -------------------------------------------------------------------------------------
#
# Joins the records of the log to the rows of the graph, a column at a time. Pure.
#
# Columns of the index are used as they are; single records are read only on demand.


FEW = 16  # outputs: so few are searched one by one, because a dict per step needs too much memory
_NO_SIZE = -1  # no recorded size
_Made = (
    tuple[Output, ...] | dict[tuple[str, str, str], Output]
)  # the outputs of an attempt; by ID, type and suffix if many


class StepRows(Sequence[StepRecord | None]):
    """By row of a table: its record in the log."""

    __slots__ = ("_steps", "_table")

    def __init__(self, table: JobTable, steps: Mapping[str, StepRecord]) -> None:
        self._table, self._steps = table, steps

    def __len__(self) -> int:
        return len(self._table)

    @overload
    def __getitem__(self, row: int) -> StepRecord | None: ...
    @overload
    def __getitem__(self, row: slice) -> list[StepRecord | None]: ...
    def __getitem__(self, row: int | slice) -> StepRecord | list[StepRecord | None] | None:
        if isinstance(row, slice):
            return list(self)[row]
        return self._steps.get(self._table.job_id(row))

    def __iter__(self) -> Iterator[StepRecord | None]:
        return map(self._steps.get, self._table.job_ids())


class JoinedTable(msgspec.Struct, eq=False):
    """One table's columns of the log."""

    rows: StepRows
    present: int  # rows with a record
    fingerprints: HashColumn  # of the latest attempt, if that succeeded
    shas: list[
        HashColumn
    ]  # by artifact: recorded by the latest attempt, if that succeeded and type and suffix still fit
    sizes: list[list[int] | array[int]]
    reads: list[int] | array[int]  # numbers of `Observations`, of the last success or else the latest attempt
    packages: list[int] | array[int]

    def take_record(self, table: JobTable, row: int, record: StepRecord) -> None:
        latest = record.latest
        self.fingerprints[row] = latest.fingerprint if latest.ok else None
        seen = record.last_success() or latest
        self.reads[row], self.packages[row] = seen.reads, seen.packages
        made = _made(latest) if latest.ok else ()
        for a in range(len(table.artifacts)):
            found = _recorded(made, table.artifact_id(a, row), _form(table, a))
            self.shas[a][row] = None if found is None else found.sha256
            self.sizes[a][row] = _NO_SIZE if found is None else found.size


def join_tables(graph: Graph, steps: Mapping[str, StepRecord]) -> list[JoinedTable]:
    if not isinstance(steps, IndexedSteps):
        return [_from_records(table, steps) for table in graph.tables]
    beside = steps.beside()
    lines: dict[int, str] = {}  # by the identity of `texts`, which aligned tables share
    found: list[JoinedTable] = []
    for table in graph.tables:
        name = block_name(table.name, table.levels)
        block = steps.blocks.get(name)
        if block is None or not len(table) or any(spec.leaf_by_row is not None for spec in table.artifacts):
            found.append(_from_records(table, steps))
            continue
        if id(table.texts) not in lines:
            lines[id(table.texts)] = "\n".join(table.texts)
        at = None if lines[id(table.texts)] == block.lines else _rows_in(block, table.texts)
        joined = _from_block(table, steps, block, at)
        others = beside.get(name, {})
        for row, text in enumerate(table.texts if others else ()):
            if text in others:
                joined.present += at is not None and at[row] < 0
                joined.take_record(table, row, others[text])
        found.append(joined)
    return found


def foreign_steps(graph: Graph, steps: Mapping[str, StepRecord]) -> list[str]:
    """The steps of the log that are not in the graph."""
    if isinstance(steps, IndexedSteps):
        return steps.beyond({block_name(table.name, table.levels): table.texts for table in graph.tables})
    return sorted(steps.keys() - graph.node_of.keys())


def _rows_in(block: JobBlock, texts: Sequence[str]) -> list[int]:
    row_of = {text: row for row, text in enumerate(block.texts)}
    return [row_of.get(text, -1) for text in texts]


def _from_block(table: JobTable, steps: IndexedSteps, block: JobBlock, at: Sequence[int] | None) -> JoinedTable:
    """`at`: the block's row for each row, negative if there is none; None if all rows are the same."""
    present = len(table) if at is None else sum(row >= 0 for row in at)
    reads, packages = _numbers(block.reads, at), _numbers(block.packages, at)
    joined = JoinedTable(StepRows(table, steps), present, _column(block.fingerprints, at), [], [], reads, packages)
    kept = {made: i for i, made in enumerate(block.shape)}
    for a, spec in enumerate(table.artifacts):
        i = kept.get((spec.output, spec.leaf, *_form(table, a)))
        if i is None:
            joined.shas.append(HashColumn.of([None] * len(table)))
            joined.sizes.append([_NO_SIZE] * len(table))
            continue
        sizes = array("q", block.sizes[i])
        joined.shas.append(_column(block.sha256[i], at))
        joined.sizes.append(sizes if at is None else [sizes[row] if row >= 0 else _NO_SIZE for row in at])
    return joined


def _column(raw: bytes, at: Sequence[int] | None) -> HashColumn:
    return HashColumn(raw) if at is None else HashColumn(raw).taken(at)


def _numbers(raw: bytes, at: Sequence[int] | None) -> array[int]:
    numbers = array("Q", raw)
    return numbers if at is None else array("Q", [numbers[row] if row >= 0 else 0 for row in at])


def _from_records(table: JobTable, steps: Mapping[str, StepRecord]) -> JoinedTable:
    """Row by row: a log without an index, or instances whose outputs differ."""
    records = list(map(steps.get, table.job_ids()))
    latest = [record.latest if record is not None and record.latest.ok else None for record in records]
    fingerprints = HashColumn.of([None if attempt is None else attempt.fingerprint for attempt in latest])
    seen = [None if record is None else record.last_success() or record.latest for record in records]
    joined = JoinedTable(
        StepRows(table, steps), len(records) - records.count(None), fingerprints, [], [],
        [0 if attempt is None else attempt.reads for attempt in seen],
        [0 if attempt is None else attempt.packages for attempt in seen],
    )  # fmt: skip
    outputs = [() if attempt is None else _made(attempt) for attempt in latest]
    for a in range(len(table.artifacts)):
        form = _form(table, a)
        made = [_recorded(of_row, id_, form) for of_row, id_ in zip(outputs, table.artifact_ids(a), strict=True)]
        joined.shas.append(HashColumn.of([None if output is None else output.sha256 for output in made]))
        joined.sizes.append([_NO_SIZE if output is None else output.size for output in made])
    return joined


def _form(table: JobTable, artifact: int) -> tuple[str, str]:
    """Type and suffix as they are declared now."""
    return table.artifacts[artifact].type, recorded_suffix(table, artifact)


def _made(attempt: Attempt) -> _Made:
    if len(attempt.outputs) <= FEW:
        return attempt.outputs
    return {(output.id, output.type, output.suffix): output for output in attempt.outputs}


def _recorded(made: _Made, id_: str, form: tuple[str, str]) -> Output | None:
    """The last output with this ID, type and suffix."""
    if isinstance(made, dict):
        return made.get((id_, *form))
    found = None
    for output in made:
        if output.id == id_ and (output.type, output.suffix) == form:
            found = output
    return found


# --- building the snapshot ---------------------------------------------------------------------------------------


def build_planning_snapshot(
    graph: Graph,
    log: LogReader,
    observe: Observer,
    actions: Mapping[str, ActionFacts],
    memo: dict[str, str] | None = None,
    ask: Callable[[PlanningSnapshot], Mapping[str, str]] | None = None,
    running: str | None = None,
    made: MadeInRun | None = None,
    moving: bool = True,
) -> PlanningSnapshot:
    """Join the folded log and the observed world over the graph. Reads through its arguments only.

    `memo` remembers, by job, the digest of columns that were compared row by row and found equal. Columns with the
    same digest are not compared again. It saves time and changes no result.

    `running`: the run that is going on, if the log has open steps of it.

    `ask` asks actions about published files that are as recorded (see `actions.output_hooks`); their answers count like
    observations.

    `made`: of a stage, what its run has made.
    """
    records = log.records
    joined = join_tables(graph, records.steps)
    rows, shas = [table.rows for table in joined], [table.shas for table in joined]
    reads = _look_at_reads(graph, log, observe, joined)
    graph = graph if reads is None else reads.look(graph, rows, actions)
    _check_foreign_ids(graph, log, joined)
    files = observe.changed_files(*_published(graph, joined, sections=False))
    sites, expected = _published(graph, joined, sections=True)
    if sites:
        files = {**files, **observe.changed_sections(sites, expected)}
    lost = set(observe.lost_blobs(_blob_checks(graph, joined)))
    _remove_unavailable(graph, joined, shas, files, lost)
    snapshot = PlanningSnapshot(
        graph, records, actions, files, frozenset(lost), running, rows=rows, shas=shas, moving=moving
    )
    denied = ask(snapshot) if ask is not None else {}
    if denied:
        files = {**files, **denied}
        shas = [[column.copy() for column in columns] for columns in shas]
        _remove_unavailable(graph, joined, shas, files, lost)
        snapshot = replace(snapshot, files=files, shas=shas)
    suspects = find_suspects(snapshot, [table.fingerprints for table in joined], {} if memo is None else memo)
    if reads is not None:
        suspects = sorted({*suspects, *reads.changed_rows(graph)})
    if made:
        suspects = sorted({*suspects, *(graph.node_of[job] for job in made)})
        snapshot = replace(snapshot, made=made)
    reached = graph.downstream(suspects)
    reach = sorted(reached)
    histories = [r for node in reach if (r := snapshot.record(node)) is not None]
    consumed = log.consumed([a for r in histories if (a := r.last_success()) is not None])
    donors: Mapping[str, Sequence[str]] = {}
    scopes = {table.name: snapshot.reuse_scope(table) for table in tables_of(graph, reach)} if records.steps else {}
    if "job" in scopes.values():
        from whyrun.snapshot.donors import donors_of  # imported late: a plan with nothing to do needs none

        moving_jobs = {name for name, scope in scopes.items() if scope == "job"}
        donors = donors_of(snapshot, reach, moving_jobs, foreign_steps(graph, records.steps))
        others = (step for steps in donors.values() for step in steps if graph.node_of.get(step) not in reached)
        histories += [records.steps[step] for step in others]
    if "anywhere" in scopes.values():
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
    if reads is not None:
        reads.look_at_earlier(graph, histories)
        snapshot = replace(snapshot, reads=reads.found(graph))
    elif observe.counts_packages:
        snapshot = replace(snapshot, reads=ObservedReads(counts_packages=True))
    return replace(snapshot, suspects=suspects, consumed=consumed, lost=frozenset(lost), donors=donors)


def tables_of(graph: Graph, nodes: Sequence[int]) -> Iterator[JobTable]:
    """The tables of these nodes, which are sorted."""
    for table in graph.tables:
        if bisect_left(nodes, table.base) < bisect_left(nodes, table.base + len(table)):
            yield table


def _look_at_reads(graph: Graph, log: LogReader, observe: Observer, joined: Sequence[JoinedTable]) -> ReadsLook | None:
    observations = log.records.observations
    if not observations.read_sets and not observations.package_sets:
        return None
    from whyrun.snapshot.read_states import ReadsLook  # imported late: only where steps were observed

    columns = [
        (one.reads, () if has_own_packages(table) else one.packages)
        for table, one in zip(graph.tables, joined, strict=True)
    ]
    return ReadsLook(log, observe, columns)


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


def _elements(table: JobTable, artifact: int, joined: JoinedTable) -> Iterator[tuple[int, Element]]:
    """The elements of the recorded arrays, each with its row."""
    for p, sha in enumerate(joined.shas[artifact]):
        record = joined.rows[p] if sha is not None else None
        if record is not None:
            whole = table.artifact_id(artifact, p)
            recorded = next((output.value for output in record.latest.outputs if output.id == whole), ())
            yield from ((p, element) for element in elements_of(recorded))


def _published_elements(table: JobTable, artifact: int, joined: JoinedTable) -> Iterator[tuple[int, tuple[str, str]]]:
    """The files of published arrays with the hash that each should have, each with its row."""
    output = table.output_of(artifact)
    assert output.paths is not None
    for p, element in _elements(table, artifact, joined):
        yield p, (published_path(output.paths[p], element, output.type), element.sha256)


def _published(graph: Graph, joined: Sequence[JoinedTable], *, sections: bool) -> tuple[list[str], HashColumn]:
    """The published files (or sections of files) to check, and the hash that each should have."""
    paths: list[str] = []
    expected: list[HashColumn] = []
    for table in graph.tables:
        for a, spec in enumerate(table.artifacts):
            output = table.output_of(a)
            if spec.is_leaf or output.paths is None or output.append != sections:
                continue
            column = joined[table.number].shas[a]
            if is_array(spec.type):
                files = [file for _, file in _published_elements(table, a, joined[table.number])]
                paths.extend(path for path, _ in files)
                expected.append(HashColumn.of([sha for _, sha in files]))
                continue
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
    stored = [
        (table, a, spec)
        for table in graph.tables
        for a, spec in enumerate(table.artifacts)
        if not spec.is_leaf and spec.type not in VALUE_TYPES and table.output_of(a).paths is None
    ]
    whole = [
        BlobCheck(sha, size, spec.type, None, sha)
        for table, a, spec in stored
        if not is_array(spec.type)
        for sha, size in zip(joined[table.number].shas[a], joined[table.number].sizes[a], strict=True)
        if sha is not None
    ]
    elements = [
        BlobCheck(element.sha256, element.size, element_type(spec.type), None, element.sha256)
        for table, a, spec in stored
        if is_array(spec.type) and element_type(spec.type) not in VALUE_TYPES
        for _, element in _elements(table, a, joined[table.number])
    ]
    return whole + elements


def _remove_unavailable_arrays(
    table: JobTable,
    artifact: int,
    joined: JoinedTable,
    column: HashColumn,
    files: Mapping[str, str],
    lost: Collection[str],
) -> None:
    """An array is there if all its elements are."""
    output = table.output_of(artifact)
    if output.paths is not None:
        gone = {p for p, (path, _) in _published_elements(table, artifact, joined) if path in files}
    elif element_type(output.type) not in VALUE_TYPES:
        gone = {p for p, element in _elements(table, artifact, joined) if element.sha256 in lost}
    else:
        return
    for p in gone:
        column[p] = None


def _remove_unavailable(
    graph: Graph,
    joined: Sequence[JoinedTable],
    shas: Sequence[Sequence[HashColumn]],
    files: Mapping[str, str],
    lost: Collection[str],
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
            if is_array(spec.type):
                _remove_unavailable_arrays(table, a, joined[table.number], column, files, lost)
            elif paths is not None:
                for p, path in enumerate(paths):
                    if path in files:
                        column[p] = None
            elif lost and spec.type not in VALUE_TYPES:
                for p, sha in enumerate(column):
                    if sha in lost:
                        column[p] = None
