"""Reads one sheet of an Excel file (`.xlsx`) row by row; its first row is the header.

The file is read twice: once for the types, which follow from all cells of a column, and once for the values.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from whyrun.actions.data.engine import ROW, Engine, position
from whyrun.actions.data.kinds import TYPE_OF
from whyrun.actions.data.params import UnreadableTable, listed
from whyrun.actions.data.tables import Column, Source, check_names
from whyrun.errors import did_you_mean

_BATCH = 10_000  # rows
_MIDNIGHT = datetime.time()
_CHUNK = 1 << 20  # bytes
_LONGEST_TAG = 64
# Results of formulas that failed. They arrive as texts, and one of them would make a column of numbers a text.
_ERRORS = frozenset(
    ("#N/A", "#DIV/0!", "#REF!", "#NAME?", "#NULL!", "#NUM!", "#VALUE!", "#SPILL!", "#CALC!", "#GETTING_DATA")
)
_FORMULA = re.compile(rb"<(\w+:)?f[ />]")


@contextmanager
def _report_damage() -> Iterator[None]:
    """Turn openpyxl's errors into `UnreadableTable`: for a damaged file it raises many different exceptions."""
    from xml.etree.ElementTree import ParseError
    from zipfile import BadZipFile
    from zlib import error as ZlibError

    errors = (ParseError, BadZipFile, ZlibError, EOFError, ValueError, TypeError, AttributeError, LookupError)
    try:
        yield
    except UnreadableTable:
        raise
    except errors as problem:
        raise UnreadableTable(f"it is not a workbook, or is damaged: {problem}") from None


@contextmanager
def opened_sheet(path: Path, sheet: str | None, *, formulas: bool = False) -> Iterator[Any]:
    """`formulas`: the cells contain the formulas instead of their results."""
    import openpyxl

    with path.open("rb") as file:  # openpyxl checks the suffix of a path, but not of a file object
        with _report_damage():
            book = openpyxl.load_workbook(file, read_only=True, data_only=not formulas)
        try:
            with _report_damage():
                if sheet is not None and sheet not in book.sheetnames:
                    hint = did_you_mean(sheet, book.sheetnames) or f"its sheets: {listed(book.sheetnames)}"
                    raise UnreadableTable(f"it has no sheet `{sheet}`; {hint}")
                page = book[sheet] if sheet is not None else book.worksheets[0]
                page.reset_dimensions()  # the size in the file may be wrong, and rows would be left out
            yield page
        finally:
            book.close()


def _cells(page: Any, first: int) -> Iterator[tuple[Any, ...]]:
    """The values of each row from number `first` on."""
    with _report_damage():
        yield from page.iter_rows(min_row=first, values_only=True)


def load_excel(engine: Engine, path: Path, sheet: str | None, missing: Sequence[str]) -> Source:
    import pyarrow as pa

    missing_texts = frozenset(missing)
    _check_formulas(path, sheet)
    with opened_sheet(path, sheet) as page:
        names = header_of(page)
        kinds, count = _kinds(page, len(names), missing_texts)
        arrow = {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_(), "date": pa.date32(),
                 "timestamp": pa.timestamp("us"), "text": pa.string()}  # fmt: skip
        schema = pa.schema([pa.field(column, arrow[kind]) for column, kind in zip(names, kinds, strict=True)])

        def batches() -> Iterator[Any]:
            rows = _rows(page, len(names), missing_texts, count)
            while batch := list(islice(rows, _BATCH)):
                converted = [[_converted(value, kind) for value, kind in zip(row, kinds, strict=True)] for row in batch]
                yield _batch(pa, converted, schema)

        reader = pa.RecordBatchReader.from_batches(schema, batches())
        incoming, table = engine.register("incoming", reader), engine.new_name("excel")
        engine.do(f"CREATE TABLE {table} AS SELECT * FROM {incoming}")
    view = engine.new_name("rows")
    engine.do(f"CREATE VIEW {view} AS SELECT *, {position(names)} AS {ROW} FROM {table}")
    columns = tuple(Column(column, TYPE_OF[kind]) for column, kind in zip(names, kinds, strict=True))
    return Source(view, columns, untyped=True)


def _batch(pa: Any, rows: list[list[Any]], schema: Any) -> Any:
    columns = [pa.array(values, type=field.type) for values, field in zip(zip(*rows, strict=True), schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def header_of(page: Any) -> list[str]:
    first = next(_cells(page, 1), ())
    cells = list(first)
    while cells and cells[-1] is None:
        cells.pop()
    if not cells:
        raise UnreadableTable("its first row is empty, but should name the columns")
    names = ["" if cell is None else str(cell) for cell in cells]
    check_names(None, names)
    return names


def _check_formulas(path: Path, sheet: str | None) -> None:
    """Refuse formulas without a stored result, as some programs write them: they are not empty cells."""
    if not _has_formulas(path):
        return
    from openpyxl.utils import get_column_letter

    with opened_sheet(path, sheet) as values, opened_sheet(path, sheet, formulas=True) as formulas:
        pairs = zip(_cells(values, 1), _cells(formulas, 1), strict=True)
        for number, (results, texts) in enumerate(pairs, 1):
            for at, (result, text) in enumerate(zip(results, texts, strict=True), 1):
                if result is None and text is not None:
                    raise UnreadableTable(
                        f"the cell {get_column_letter(at)}{number} has the formula `{text}` and no result; open the "
                        "file in a program that calculates it, and save it there"
                    )


def _has_formulas(path: Path) -> bool:
    """Whether any sheet has a formula. Searches the bytes, which is much faster than reading cells."""
    import zipfile

    with _report_damage(), zipfile.ZipFile(path) as parts:
        for part in parts.namelist():
            if not (part.startswith("xl/worksheets/") and part.endswith(".xml")):
                continue
            with parts.open(part) as file:
                before = b""
                while chunk := file.read(_CHUNK):
                    if _FORMULA.search(before + chunk):
                        return True
                    before = chunk[-_LONGEST_TAG:]
    return False


def _rows(page: Any, width: int, missing: frozenset[str], count: int | None = None) -> Iterator[list[Any]]:
    """The rows below the header, padded to its width; missing values are None."""
    for number, cells in enumerate(_cells(page, 2)):
        if number == count:
            return
        row = [None if cell is None or (isinstance(cell, str) and cell in missing) else cell for cell in cells]
        if not _ERRORS.isdisjoint(cell for cell in row if isinstance(cell, str)):
            _refuse_error(row, number + 2)
        if any(cell is not None for cell in row[width:]):
            raise UnreadableTable(f"row {number + 2} has more cells than the header has columns ({width})")
        yield row[:width] + [None] * (width - len(row))


def _refuse_error(row: Sequence[Any], number: int) -> None:
    from openpyxl.utils import get_column_letter

    at, error = next((at, cell) for at, cell in enumerate(row, 1) if cell in _ERRORS)
    raise UnreadableTable(
        f"the cell {get_column_letter(at)}{number} has the error `{error}`; correct the file, or declare that it means "
        f'"no value": `missing: ["", "{error}"]`'
    )


def _kinds(page: Any, width: int, missing: frozenset[str]) -> tuple[list[str], int]:
    """The kind of every column, and the number of rows without empty rows at the end (only formatted cells)."""
    by_column: list[set[str]] = [set() for _ in range(width)]
    count = 0
    for number, row in enumerate(_rows(page, width, missing), 1):
        for at, value in enumerate(row):
            if value is not None:
                by_column[at].add(_kind(value))
                count = number
    return [_common(kinds) for kinds in by_column], count


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
