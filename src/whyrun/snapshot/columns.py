"""Joins the records of the log to the rows of the graph, a column at a time. Pure.

Columns of the index are used as they are; single records are read only on demand.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import overload

import msgspec

from whyrun.artifacts.hash_column import HashColumn
from whyrun.graph.fingerprint import recorded_suffix
from whyrun.graph.tables import Graph, JobTable
from whyrun.snapshot.index import IndexedSteps, JobBlock
from whyrun.snapshot.records import Attempt, Output, StepRecord

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

    def take_record(self, table: JobTable, row: int, record: StepRecord) -> None:
        latest = record.latest
        self.fingerprints[row] = latest.fingerprint if latest.ok else None
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
        block = steps.blocks.get(table.name)
        if block is None or not len(table) or any(spec.leaf_by_row is not None for spec in table.artifacts):
            found.append(_from_records(table, steps))
            continue
        if id(table.texts) not in lines:
            lines[id(table.texts)] = "\n".join(table.texts)
        at = None if lines[id(table.texts)] == block.lines else _rows_in(block, table.texts)
        joined = _from_block(table, steps, block, at)
        others = beside.get(table.name, {})
        for row, text in enumerate(table.texts if others else ()):
            if text in others:
                joined.present += at is not None and at[row] < 0
                joined.take_record(table, row, others[text])
        found.append(joined)
    return found


def foreign_steps(graph: Graph, steps: Mapping[str, StepRecord]) -> list[str]:
    """The steps of the log that are not in the graph."""
    if isinstance(steps, IndexedSteps):
        return steps.beyond({table.name: table.texts for table in graph.tables})
    return sorted(steps.keys() - graph.node_of.keys())


def _rows_in(block: JobBlock, texts: Sequence[str]) -> list[int]:
    row_of = {text: row for row, text in enumerate(block.texts)}
    return [row_of.get(text, -1) for text in texts]


def _from_block(table: JobTable, steps: IndexedSteps, block: JobBlock, at: Sequence[int] | None) -> JoinedTable:
    """`at`: the block's row for each row, negative if there is none; None if all rows are the same."""
    present = len(table) if at is None else sum(row >= 0 for row in at)
    joined = JoinedTable(StepRows(table, steps), present, _column(block.fingerprints, at), [], [])
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


def _from_records(table: JobTable, steps: Mapping[str, StepRecord]) -> JoinedTable:
    """Row by row: a log without an index, or instances whose outputs differ."""
    records = list(map(steps.get, table.job_ids()))
    latest = [record.latest if record is not None and record.latest.ok else None for record in records]
    fingerprints = HashColumn.of([None if attempt is None else attempt.fingerprint for attempt in latest])
    joined = JoinedTable(StepRows(table, steps), len(records) - records.count(None), fingerprints, [], [])
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
