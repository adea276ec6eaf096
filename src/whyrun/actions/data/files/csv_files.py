"""CSV and TSV: read once by DuckDB, with the types of the columns decided by all rows and by our rules (`kinds`).

A sample only proposes. The load notes, beside the values, every row with a text that is not what was proposed; where
there is one, each column gets the first kind that all its texts fit. So no type depends on which rows come first.
"""

from __future__ import annotations

import codecs
import csv
from collections.abc import Collection, Sequence
from pathlib import Path

from whyrun.actions.builtin.data.engine import ROW, Engine, file_literal, literal, literals, name
from whyrun.actions.builtin.data.kinds import KINDS, SMALL, TYPE_OF, from_text, misfit
from whyrun.actions.builtin.data.problems import UnreadableTable
from whyrun.actions.builtin.data.tables import Column, Source, check_names

_SAMPLE = 1000  # rows
_SAMPLE_BUFFER = 1 << 23  # bytes that are read for them, instead of 32 MB; more than the longest line that is read
_KEPT = (SMALL, *KINDS)  # what a column is kept as: in this order, the first that all its texts fit
_NOTE = "__whyrun_misfit"  # whether a text of the row is not what was proposed
_PYTHON_ENCODING = {"utf-8": "utf-8-sig", "latin-1": "latin-1", "utf-16": "utf-16"}


def header(path: Path, delimiter: str, encoding: str) -> list[str]:
    try:
        with path.open(encoding=_PYTHON_ENCODING[encoding], newline="") as file:
            found = next(csv.reader(file, delimiter=delimiter, strict=True), None)
    except UnicodeError as problem:
        with path.open("rb") as raw:
            wide = raw.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
        other = "utf-16" if wide else "latin-1" if encoding == "utf-8" else "utf-8"
        raise UnreadableTable(f"its header is not {encoding} text: {problem}; is it `encoding: {other}`?") from None
    except csv.Error as problem:
        raise UnreadableTable(f"its header cannot be split at `{delimiter}`: {problem}") from None
    if not found:
        raise UnreadableTable("it has no header line: the first line names the columns")
    return found


def load_csv(
    engine: Engine,
    path: Path,
    delimiter: str,
    missing: Sequence[str],
    encoding: str,
    *,
    as_text: Collection[str] = (),
    names: Sequence[str] | None = None,
) -> Source:
    """`as_text`: columns that are left as they are written. `names`: of a file whose first line is no header."""
    has_header = names is None
    names = header(path, delimiter, encoding) if names is None else list(names)
    check_names(None, names)
    scan = _scan(path, len(names), delimiter, missing, encoding, has_header)
    start = [_KEPT.index("text") if column in as_text else 0 for column in names]
    sample = _scan(path, len(names), delimiter, missing, encoding, has_header, f", buffer_size = {_SAMPLE_BUFFER}")
    kinds, empty = _fitting(engine, f"(SELECT * FROM {sample} LIMIT {_SAMPLE})", start)
    table = engine.new_name("csv")
    if not _load(engine, table, scan, names, kinds):
        engine.do(f"DROP TABLE {table}")
        kinds, empty = _fitting(engine, scan, [_KEPT.index(kind) for kind in kinds])
        _load(engine, table, scan, names, kinds)
    elif empty:  # in the sample
        counts = engine.row(f"SELECT {', '.join(f'count({name(names[at])})' for at in empty)} FROM {table}")
        empty = [at for at, count in zip(empty, counts, strict=True) if not count]
    # A column without a single value fits every kind, and so has none.
    types = ["VARCHAR" if at in empty else TYPE_OF[_told(kind)] for at, kind in enumerate(kinds)]
    selected = [
        f"CAST({'NULL' if at in empty else name(column)} AS {types[at]}) AS {name(column)}"
        if at in empty or kinds[at] == SMALL
        else name(column)
        for at, column in enumerate(names)
    ]
    view = engine.new_name("typed_csv")
    engine.do(f"CREATE VIEW {view} AS SELECT {', '.join(selected)}, rowid AS {ROW} FROM {table}")
    texts = {
        column: f"SELECT c{at} AS t FROM {scan}" for at, column in enumerate(names) if types[at] == TYPE_OF["number"]
    }
    return Source(view, tuple(Column(*found) for found in zip(names, types, strict=True)), untyped=True, texts=texts)


def _told(kind: str) -> str:
    """The kind as it is known outside: how a column is kept is nobody's business."""
    return "integer" if kind == SMALL else kind


def _scan(
    path: Path, columns: int, delimiter: str, missing: Sequence[str], encoding: str, has_header: bool, more: str = ""
) -> str:
    """Every column as text under a neutral name; nothing about the file is guessed. `more`: further options."""
    struct = ", ".join(f"'c{at}': 'VARCHAR'" for at in range(columns))
    encoded = "" if encoding == "utf-8" else f", encoding = {literal(encoding)}"
    # `nullstr` needs a member; a file in which nothing is missing has no field with this in it.
    nulls = literals(list(missing) or ["\x01nothing is missing\x01"])
    return (
        f"read_csv({file_literal(path)}, auto_detect = false, hive_partitioning = false, "
        f"header = {has_header}, delim = {literal(delimiter)}, "
        f"quote = '\"', escape = '\"', columns = {{{struct}}}, nullstr = {nulls}, allow_quoted_nulls = true, "
        f"strict_mode = true{encoded}{more})"
    )


def _fitting(engine: Engine, relation: str, start: Sequence[int]) -> tuple[list[str], list[int]]:
    """By column, the first kind (from number `start` on) that all its values fit; and the columns without a value."""
    tests = [(at, kind) for at, first in enumerate(start) for kind in _KEPT[first:-1]]
    asked = [f"count(c{at})" for at in range(len(start))] + [f"bool_or({misfit(f'c{at}', k)})" for at, k in tests]
    found = engine.row(f"SELECT {', '.join(asked)} FROM {relation}")
    misfits = dict(zip(tests, found[len(start) :], strict=True))
    kinds = [next((k for k in _KEPT[first:-1] if not misfits[at, k]), _KEPT[-1]) for at, first in enumerate(start)]
    return kinds, [at for at in range(len(start)) if not found[at]]


def _load(engine: Engine, table: str, scan: str, names: Sequence[str], kinds: Sequence[str]) -> bool:
    """Make the table. Returns whether every value fits the kind of its column."""
    values = [f"{from_text(f'c{at}', kinds[at])} AS {name(column)}" for at, column in enumerate(names)]
    misfits = [misfit(f"c{at}", kind) for at, kind in enumerate(kinds) if kind != "text"]
    note = " OR ".join(misfits) or "false"
    engine.do(f"CREATE TABLE {table} AS SELECT {', '.join(values)}, {note} AS {_NOTE} FROM {scan}")
    return not engine.rows(f"SELECT 1 FROM {table} WHERE {_NOTE} LIMIT 1")
