"""Compare tables: columns, rows and cells. Rows are matched by `keys` if declared, else by their order.

CSV and TSV are read with the standard library, Parquet with pyarrow or duckdb.
"""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from whyrun.artifacts.compare.result import (
    CompareSettings,
    Comparison,
    Findings,
    Unreadable,
    differs,
    number_of,
    phrase,
    shortened,
)
from whyrun.artifacts.compare.text import is_number, read_text

# A number as data files write it. `007` is an ID, not the number 7.
_NUMBER = re.compile(r"[+-]?(0|[1-9]\d*|(?=\.\d))(\.\d*)?([eE][+-]?\d+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE)
_CELL = 40  # characters of a cell that are shown

Row = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Table:
    columns: tuple[str, ...]
    rows: Sequence[Row]
    types: dict[str, str] = field(default_factory=dict)  # of typed formats


def compare_csv(old: Path, new: Path, settings: CompareSettings) -> Comparison:
    return compare_tables(_read(old, "before"), _read(new, "now"), settings)


def _read(path: Path, which: str) -> Table:
    text = read_text(path, which)
    header = text.split("\n", 1)[0]
    delimiter = max(",\t;", key=header.count)
    try:
        rows = [row for row in csv.reader(text.splitlines(keepends=True), delimiter=delimiter, strict=True) if row]
    except csv.Error as problem:
        raise Unreadable(f"the version {which} is not a valid table: {problem}") from None
    if not rows:
        return Table((), ())
    columns = tuple(rows.pop(0))
    if len(set(columns)) < len(columns):
        raise Unreadable(f"the version {which} has two columns of one name")
    for number, row in enumerate(rows, 1):
        if len(row) != len(columns):
            raise Unreadable(f"row {number} of the version {which} has {len(row)} cells for {len(columns)} columns")
    return Table(columns, rows)


# --- Parquet, read with pyarrow or duckdb, whichever is installed ----------------------------------------------------


def compare_parquet(old: Path, new: Path, settings: CompareSettings) -> Comparison:
    read = _parquet_reader()
    return compare_tables(read(old, "before"), read(new, "now"), settings)


def _parquet_reader() -> Callable[[Path, str], Table]:
    if find_spec("pyarrow") is not None:
        return _with_pyarrow
    if find_spec("duckdb") is not None:
        return _with_duckdb
    raise Unreadable("neither pyarrow nor duckdb is installed")


def _with_pyarrow(path: Path, which: str) -> Table:
    parquet, arrow = import_module("pyarrow.parquet"), import_module("pyarrow")
    try:
        table = parquet.read_table(str(path), memory_map=False)
    except (arrow.ArrowException, OSError) as problem:
        raise Unreadable(f"the version {which} is not a Parquet file: {_why(problem, path)}") from None
    names = tuple(table.column_names)
    columns = [column.to_pylist() for column in table.columns]
    types = {name: str(kind) for name, kind in zip(names, table.schema.types, strict=True)}
    return Table(names, list(zip(*columns, strict=True)) if columns else [], types)


def _with_duckdb(path: Path, which: str) -> Table:
    duckdb = import_module("duckdb")
    try:
        with duckdb.connect() as connection:
            result = connection.execute("select * from read_parquet(?)", [str(path)])
            names = tuple(column[0] for column in result.description)
            types = {column[0]: str(column[1]) for column in result.description}
            return Table(names, result.fetchall(), types)
    except duckdb.Error as problem:
        raise Unreadable(f"the version {which} is not a Parquet file: {_why(problem, path)}") from None


def _why(problem: BaseException, path: Path) -> str:
    """The first line of the message, without the path of the file."""
    return str(problem).split("\n", 1)[0].replace(str(path), "it")


# --- comparing ---------------------------------------------------------------------------------------------------


def compare_tables(old: Table, new: Table, settings: CompareSettings) -> Comparison:
    return _Tables(old, new, settings).compare()


class _Tables:
    def __init__(self, old: Table, new: Table, settings: CompareSettings) -> None:
        self.old, self.new, self.settings = old, new, settings
        self.shared = [name for name in old.columns if name in new.columns]
        self.old_at = [old.columns.index(name) for name in self.shared]
        self.new_at = [new.columns.index(name) for name in self.shared]
        self.findings = Findings()
        self.columns = {"added": 0, "removed": 0, "retyped": 0}
        self.rows = {"added": 0, "removed": 0, "moved": 0}
        self.cells = 0
        self.near = 0

    def compare(self) -> Comparison:
        self._columns()
        if not self.settings.keys or not self._by_key():
            self._in_order()
        if self.near:
            self.findings.notes.append(self.settings.near_note(self.near))
        elif not self.findings.total and not self.findings.notes:
            self.findings.notes.append("the cells are the same, but written differently")
        parts = [
            phrase("column", [(number, verb) for verb, number in self.columns.items()]),
            phrase("row", [(number, verb) for verb, number in self.rows.items()]),
            phrase("cell", [(self.cells, "changed")]),
        ]
        return self.findings.result(", ".join(part for part in parts if part))

    def _columns(self) -> None:
        for verb, names, others in (
            ("added", self.new.columns, self.old.columns),
            ("removed", self.old.columns, self.new.columns),
        ):
            for name in names:
                if name not in others:
                    self.columns[verb] += 1
                    self.findings.add(verb, f"column `{name}` {verb}")
        for name in self.shared:
            was, now = self.old.types.get(name), self.new.types.get(name)
            if was != now:
                self.columns["retyped"] += 1
                self.findings.add("retyped", f"column `{name}`: {was} → {now}")
        if [name for name in self.new.columns if name in self.old.columns] != self.shared:
            self.findings.notes.append("the columns are in another order")

    # -- matching rows --

    def _by_key(self) -> bool:
        """Match rows by their keys in any order; False, with a note, if the keys are missing or not unique."""
        absent = [key for key in self.settings.keys if key not in self.shared]
        if absent:
            names = ", ".join(f"`{key}`" for key in absent)
            self.findings.notes.append(f"the key {names} is not a column of both versions: rows are compared in order")
            return False
        old, new = self._keyed(self.old), self._keyed(self.new)
        if old is None or new is None:
            which = "before" if old is None else "now"
            self.findings.notes.append(f"rows with the same key in the version {which}: rows are compared in order")
            return False
        for key, row in old.items():
            if key not in new:
                self._row("removed", self._key_text(key))
            else:
                self._cells(row, new[key], lambda key=key: self._key_text(key))  # type: ignore[misc]
        for key in new:
            if key not in old:
                self._row("added", self._key_text(key))
        if not self.findings.total and list(old) != list(new):
            self.findings.notes.append("the rows are in another order")
        return True

    def _keyed(self, table: Table) -> dict[tuple[Any, ...], Row] | None:
        at = [table.columns.index(key) for key in self.settings.keys]
        by_key = {tuple(_hashable(row[i]) for i in at): row for row in table.rows}
        return by_key if len(by_key) == len(table.rows) else None

    def _key_text(self, key: tuple[Any, ...]) -> str:
        named = zip(self.settings.keys, key, strict=True)
        return "row " + ", ".join(f"{name}={_shown(value)}" for name, value in named)

    def _in_order(self) -> None:
        """Match equal rows from the start and from the end; compare the rows in between."""
        old = [tuple(_hashable(row[i]) for i in self.old_at) for row in self.old.rows]
        new = [tuple(_hashable(row[i]) for i in self.new_at) for row in self.new.rows]
        if len(old) == len(new):
            self._same_number(old, new)
            return
        start = 0
        while start < min(len(old), len(new)) and old[start] == new[start]:
            start += 1
        end = 0
        while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
            end += 1
        before, after = old[start : len(old) - end], new[start : len(new) - end]
        gone, come = Counter(before) - Counter(after), Counter(after) - Counter(before)
        self._only_in("removed", before, gone, start)
        self._only_in("added", after, come, start)

    def _same_number(self, old: list[tuple[Any, ...]], new: list[tuple[Any, ...]]) -> None:
        if old != new and Counter(old) == Counter(new):
            moved = [i for i, (a, b) in enumerate(zip(old, new, strict=True)) if a != b]
            self.rows["moved"] = len(moved)
            self.findings.add("moved", f"the same rows in another order, from row {moved[0] + 1} on")
            return
        for i, (a, b) in enumerate(zip(self.old.rows, self.new.rows, strict=True)):
            if old[i] != new[i]:
                self._cells(a, b, lambda i=i: f"row {i + 1}")  # type: ignore[misc]

    def _only_in(self, verb: str, rows: list[tuple[Any, ...]], left: Counter[tuple[Any, ...]], start: int) -> None:
        for i, row in enumerate(rows):
            if left[row]:
                left[row] -= 1
                self._row(verb, f"row {start + i + 1} ({shortened(', '.join(map(_shown, row)), 100)})")

    # -- differences --

    def _row(self, verb: str, text: str) -> None:
        self.rows[verb] += 1
        self.findings.add(verb, f"{text} {verb}")

    def _cells(self, old: Row, new: Row, name: Callable[[], str]) -> None:
        for column, i, j in zip(self.shared, self.old_at, self.new_at, strict=True):
            if self._same(old[i], new[j]):
                continue
            self.cells += 1
            text = "" if self.findings.full else f"{name()}, `{column}`: {_shown(old[i])} → {_shown(new[j])}"
            self.findings.add("cell", text)

    def _same(self, old: Any, new: Any) -> bool:
        if type(old) is type(new) and old == new:
            return True
        if isinstance(old, str) and isinstance(new, str):
            # Text counts as a number only with a tolerance: otherwise `1.10` and `1.1` may be versions.
            if not self.settings.tolerance or not (_NUMBER.fullmatch(old) and _NUMBER.fullmatch(new)):
                return False
            old, new = number_of(old), number_of(new)
        if not (is_number(old) and is_number(new)) or not self.settings.same_number(old, new):
            return False
        self.near += differs(old, new)
        return True


def _hashable(value: Any) -> Any:
    """A hashable form: cells of typed tables may be lists, and NaN must equal NaN."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return value if value.__hash__ is not None else repr(value)


def _shown(value: Any) -> str:
    return shortened(value if isinstance(value, str) else repr(value), _CELL)
