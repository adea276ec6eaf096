"""CSV and TSV: read once by DuckDB, with the types of the columns decided by all rows and by our rules (`kinds`).

A sample only proposes. The load keeps, beside the values, a note of every text that did not fit what was proposed;
where there is one, the column gets the first kind that all its texts fit. So no type depends on which rows come first.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from whyrun.actions.builtin.data.engine import ROW, Engine, literal, literals, name
from whyrun.actions.builtin.data.kinds import KINDS, TYPE_OF, from_text, misfit
from whyrun.actions.builtin.data.problems import UnreadableTable
from whyrun.actions.builtin.data.tables import Column, Source, check_names

_SAMPLE = 1000  # rows
_BITS = 60  # columns whose misfits one integer notes
_PYTHON_ENCODING = {"utf-8": "utf-8-sig", "latin-1": "latin-1", "utf-16": "utf-16"}


def header(path: Path, delimiter: str, encoding: str) -> list[str]:
    try:
        with path.open(encoding=_PYTHON_ENCODING[encoding], newline="") as file:
            found = next(csv.reader(file, delimiter=delimiter, strict=True), None)
    except (UnicodeDecodeError, csv.Error) as problem:
        raise UnreadableTable(f"its header is not {encoding} text with `{delimiter!r}` in between: {problem}") from None
    if not found:
        raise UnreadableTable("it has no header line: the first line names the columns")
    return found


def load_csv(engine: Engine, path: Path, delimiter: str, missing: Sequence[str], encoding: str) -> Source:
    names = header(path, delimiter, encoding)
    check_names("it", names)
    scan = _scan(path, len(names), delimiter, missing, encoding)
    kinds = _fitting(engine, f"(SELECT * FROM {scan} LIMIT {_SAMPLE})", dict.fromkeys(range(len(names)), 0))
    table = engine.new_name("csv")
    while wrong := _load(engine, table, scan, names, kinds):
        engine.do(f"DROP TABLE {table}")
        kinds |= _fitting(engine, scan, {at: KINDS.index(kinds[at]) + 1 for at in wrong})
    empty = _empty(engine, table, names, kinds)
    columns = tuple(Column(column, TYPE_OF["text" if at in empty else kinds[at]]) for at, column in enumerate(names))
    selected = [
        f"CAST(NULL AS VARCHAR) AS {name(column)}" if at in empty else name(column) for at, column in enumerate(names)
    ]
    view = engine.new_name("typed_csv")
    engine.do(f"CREATE VIEW {view} AS SELECT {', '.join(selected)}, rowid AS {ROW} FROM {table}")
    return Source(view, columns, untyped=True)


def _scan(path: Path, columns: int, delimiter: str, missing: Sequence[str], encoding: str) -> str:
    """Every column as text under a neutral name; nothing about the file is guessed."""
    struct = ", ".join(f"'c{at}': 'VARCHAR'" for at in range(columns))
    encoded = "" if encoding == "utf-8" else f", encoding = {literal(encoding)}"
    # `nullstr` needs a member; a file in which nothing is missing has no field with this in it.
    nulls = literals(list(missing) or ["\x01nothing is missing\x01"])
    return (
        f"read_csv({literal(path)}, auto_detect = false, header = true, delim = {literal(delimiter)}, quote = '\"', "
        f"escape = '\"', columns = {{{struct}}}, nullstr = {nulls}, allow_quoted_nulls = true, strict_mode = true, "
        f"max_line_size = 16777216{encoded})"
    )


def _fitting(engine: Engine, relation: str, start: dict[int, int]) -> dict[int, str]:
    """By column, the first kind (from the one with number `start[column]` on) that all its values fit."""
    asked = [(at, kind) for at, first in start.items() for kind in KINDS[first:-1]]
    if not asked:
        return dict.fromkeys(start, KINDS[-1])
    tests = ", ".join(f"bool_or({misfit(f'c{at}', kind)})" for at, kind in asked)
    found = dict(zip(asked, engine.row(f"SELECT {tests} FROM {relation}"), strict=True))
    return {
        at: next((kind for kind in KINDS[first:-1] if not found[at, kind]), KINDS[-1]) for at, first in start.items()
    }


def _load(engine: Engine, table: str, scan: str, names: Sequence[str], kinds: dict[int, str]) -> list[int]:
    """Make the table. Returns the columns that hold something else than was proposed."""
    values = [f"{from_text(f'c{at}', kinds[at])} AS {name(column)}" for at, column in enumerate(names)]
    noted = [at for at in range(len(names)) if kinds[at] != "text"]
    groups = [noted[first : first + _BITS] for first in range(0, len(noted), _BITS)]
    notes = [
        " + ".join(f"CASE WHEN {misfit(f'c{at}', kinds[at])} THEN {1 << bit}::BIGINT ELSE 0::BIGINT END"
                   for bit, at in enumerate(group))
        + f" AS __whyrun_misfits_{number}"
        for number, group in enumerate(groups)
    ]  # fmt: skip
    engine.do(f"CREATE TABLE {table} AS SELECT {', '.join((*values, *notes))} FROM {scan}")
    if not groups:
        return []
    masks = ", ".join(f"coalesce(bit_or(__whyrun_misfits_{number}), 0)" for number in range(len(groups)))
    found = engine.row(f"SELECT {masks} FROM {table}")
    return [at for group, mask in zip(groups, found, strict=True) for bit, at in enumerate(group) if mask >> bit & 1]


def _empty(engine: Engine, table: str, names: Sequence[str], kinds: dict[int, str]) -> set[int]:
    """Columns without a single value: they fit every kind, and so have none."""
    suspects = [at for at in range(len(names)) if kinds[at] == KINDS[0]]
    if not suspects:
        return set()
    tests = ", ".join(f"count({name(names[at])})" for at in suspects)
    return {at for at, count in zip(suspects, engine.row(f"SELECT {tests} FROM {table}"), strict=True) if not count}
