"""Excel (`.xlsx`): one sheet, its first row the header, read row by row and never held as a whole.

The file is read twice: once for the types, which follow from all cells of a column, and once for the values.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from whyrun.actions.builtin.data.engine import ROW, Engine
from whyrun.actions.builtin.data.kinds import TYPE_OF
from whyrun.actions.builtin.data.problems import UnreadableTable, listed
from whyrun.actions.builtin.data.tables import Column, Source, check_names

_BATCH = 10_000  # rows
_MIDNIGHT = datetime.time()


@contextmanager
def opened_sheet(path: Path, sheet: str | None) -> Iterator[Any]:
    import zipfile

    import openpyxl
    from openpyxl.utils.exceptions import InvalidFileException

    with path.open("rb") as file:  # of a file object openpyxl does not judge the name
        try:
            book = openpyxl.load_workbook(file, read_only=True, data_only=True)
        except (InvalidFileException, zipfile.BadZipFile, KeyError) as problem:
            raise UnreadableTable(f"it is no workbook: {problem}") from None
        try:
            if sheet is not None and sheet not in book.sheetnames:
                raise UnreadableTable(f"it has no sheet `{sheet}`; its sheets: {listed(book.sheetnames)}")
            yield book[sheet] if sheet is not None else book.worksheets[0]
        finally:
            book.close()


def load_excel(engine: Engine, path: Path, sheet: str | None, missing: Sequence[str]) -> Source:
    import pyarrow as pa

    nothing = frozenset(missing)
    with opened_sheet(path, sheet) as page:
        names = header_of(page)
        kinds, count = _kinds(page, len(names), nothing)
        arrow = {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_(), "date": pa.date32(),
                 "timestamp": pa.timestamp("us"), "text": pa.string()}  # fmt: skip
        schema = pa.schema([pa.field(column, arrow[kind]) for column, kind in zip(names, kinds, strict=True)])

        def batches() -> Iterator[Any]:
            rows = _rows(page, len(names), nothing, count)
            while batch := list(islice(rows, _BATCH)):
                converted = [[_converted(value, kind) for value, kind in zip(row, kinds, strict=True)] for row in batch]
                yield _batch(pa, converted, schema)

        reader = pa.RecordBatchReader.from_batches(schema, batches())
        incoming, table = engine.register("incoming", reader), engine.new_name("excel")
        engine.do(f"CREATE TABLE {table} AS SELECT * FROM {incoming}")
    view = engine.new_name("rows")
    engine.do(f"CREATE VIEW {view} AS SELECT *, rowid AS {ROW} FROM {table}")
    columns = tuple(Column(column, TYPE_OF[kind]) for column, kind in zip(names, kinds, strict=True))
    return Source(view, columns, untyped=True)


def _batch(pa: Any, rows: list[list[Any]], schema: Any) -> Any:
    columns = [pa.array(values, type=field.type) for values, field in zip(zip(*rows, strict=True), schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def header_of(page: Any) -> list[str]:
    first = next(page.iter_rows(values_only=True), ())
    cells = list(first)
    while cells and cells[-1] is None:
        cells.pop()
    if not cells:
        raise UnreadableTable("its first row is empty: it names the columns")
    names = ["" if cell is None else str(cell) for cell in cells]
    check_names("it", names)
    return names


def _rows(page: Any, width: int, missing: frozenset[str], count: int | None = None) -> Iterator[list[Any]]:
    """The rows below the header, each as wide as it; what is missing is None."""
    for number, cells in enumerate(page.iter_rows(min_row=2, values_only=True)):
        if number == count:
            return
        row = [None if cell is None or (isinstance(cell, str) and cell in missing) else cell for cell in cells]
        if any(cell is not None for cell in row[width:]):
            raise UnreadableTable(f"row {number + 2} has more cells than there are columns ({width})")
        yield row[:width] + [None] * (width - len(row))


def _kinds(page: Any, width: int, missing: frozenset[str]) -> tuple[list[str], int]:
    """The kind of every column, and how many rows there are: empty ones at the end are only formatted cells."""
    found: list[set[str]] = [set() for _ in range(width)]
    count = 0
    for number, row in enumerate(_rows(page, width, missing), 1):
        for at, value in enumerate(row):
            if value is not None:
                found[at].add(_kind(value))
                count = number
    return [_common(kinds) for kinds in found], count


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer" if -(2**63) <= value < 2**63 else "text"
    if isinstance(value, float):
        return "number"
    if isinstance(value, datetime.datetime):
        return "date" if value.time() == _MIDNIGHT else "timestamp"
    return "date" if isinstance(value, datetime.date) else "text"


def _common(kinds: set[str]) -> str:
    if len(kinds) == 1:
        return next(iter(kinds))
    if kinds == {"integer", "number"}:
        return "number"
    return "timestamp" if kinds == {"date", "timestamp"} else "text"


def _converted(value: Any, kind: str) -> Any:
    if value is None:
        return None
    if kind == "text":
        return str(value)
    if kind == "number":
        return float(value)
    if kind == "date" and isinstance(value, datetime.datetime):
        return value.date()
    return value
