"""Reads CSV, TSV and JSON with DuckDB. The types follow from all rows, by our own rules (`kinds`).

A sample only proposes types. The load marks every row with a text that does not fit; if there is one, each column gets
the first kind that all its texts fit, and the file is loaded again. So types do not depend on the first rows.
"""

from __future__ import annotations

import codecs
import csv
import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from whyrun.actions.data.engine import ROW, Engine, file_literal, literal, literals, name, position
from whyrun.actions.data.kinds import KINDS, SMALL, TYPE_OF, from_text, misfit
from whyrun.actions.data.params import UnreadableTable
from whyrun.actions.data.tables import Column, Source, check_names

_SAMPLE = 1000  # rows
_SAMPLE_BUFFER = 1 << 23  # bytes to read for the sample, instead of 32 MB; longer than the longest allowed line
_STORED = (SMALL, *KINDS)  # how a column is stored: the first of these that all its texts fit
_MISFIT = "__whyrun_misfit"  # marks rows with a text that does not fit the proposed type
_PYTHON_ENCODING = {"utf-8": "utf-8-sig", "latin-1": "latin-1", "utf-16": "utf-16"}


def header(path: Path, delimiter: str, encoding: str) -> list[str]:
    try:
        with path.open(encoding=_PYTHON_ENCODING[encoding], newline="") as file:
            found = next(csv.reader(file, delimiter=delimiter, strict=True), None)
    except UnicodeError:  # where is not known: whole blocks are decoded
        with path.open("rb") as raw:
            wide = raw.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
        other = "utf-16" if wide else "latin-1" if encoding == "utf-8" else "utf-8"
        raise UnreadableTable(f"it is not {encoding} text", f"is it `encoding: {other}`?") from None
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
    """`as_text`: columns that stay text. `names`: the column names of a file without a header line."""
    has_header = names is None
    names = header(path, delimiter, encoding) if names is None else list(names)
    check_names(None, names)
    scan = _scan(path, len(names), delimiter, missing, encoding, has_header)
    start = [_STORED.index("text") if column in as_text else 0 for column in names]
    sample = _scan(path, len(names), delimiter, missing, encoding, has_header, f", buffer_size = {_SAMPLE_BUFFER}")
    kinds, empty = _fitting(engine, f"(SELECT * FROM {sample} LIMIT {_SAMPLE})", start)
    table = engine.new_name("csv")
    if not _load(engine, table, scan, names, kinds):
        engine.do(f"DROP TABLE {table}")
        kinds, empty = _fitting(engine, scan, [_STORED.index(kind) for kind in kinds])
        _load(engine, table, scan, names, kinds)
    elif empty:  # in the sample
        counts = engine.row(f"SELECT {', '.join(f'count({name(names[at])})' for at in empty)} FROM {table}")
        empty = [at for at, count in zip(empty, counts, strict=True) if not count]
    # A column without values fits every kind; it becomes text.
    types = ["VARCHAR" if at in empty else TYPE_OF[_public_kind(kind)] for at, kind in enumerate(kinds)]
    selected = [
        f"CAST({'NULL' if at in empty else name(column)} AS {types[at]}) AS {name(column)}"
        if at in empty or kinds[at] == SMALL
        else name(column)
        for at, column in enumerate(names)
    ]
    view = engine.new_name("typed_csv")
    engine.do(f"CREATE VIEW {view} AS SELECT {', '.join(selected)}, {position(names)} AS {ROW} FROM {table}")
    texts = {
        column: f"SELECT c{at} AS t FROM {scan}" for at, column in enumerate(names) if types[at] == TYPE_OF["number"]
    }
    return Source(view, tuple(Column(*found) for found in zip(names, types, strict=True)), untyped=True, texts=texts)


def _public_kind(kind: str) -> str:
    """The kind that other modules see; `SMALL` is only a storage type."""
    return "integer" if kind == SMALL else kind


def _scan(
    path: Path, columns: int, delimiter: str, missing: Sequence[str], encoding: str, has_header: bool, more: str = ""
) -> str:
    """SQL that reads every column as text, named `c0`, `c1`, …, without detection. `more`: additional options."""
    struct = ", ".join(f"'c{at}': 'VARCHAR'" for at in range(columns))
    encoded = "" if encoding == "utf-8" else f", encoding = {literal(encoding)}"
    # `nullstr` needs at least one text; this one occurs in no file.
    nulls = literals(list(missing) or ["\x01nothing is missing\x01"])
    return (
        f"read_csv({file_literal(path)}, auto_detect = false, hive_partitioning = false, "
        f"header = {has_header}, delim = {literal(delimiter)}, "
        f"quote = '\"', escape = '\"', columns = {{{struct}}}, nullstr = {nulls}, allow_quoted_nulls = true, "
        f"strict_mode = true{encoded}{more})"
    )


def _fitting(engine: Engine, relation: str, start: Sequence[int]) -> tuple[list[str], list[int]]:
    """For each column the first kind, from index `start` on, that all values fit; and the columns without values."""
    tests = [(at, kind) for at, first in enumerate(start) for kind in _STORED[first:-1]]
    selected = [f"count(c{at})" for at in range(len(start))] + [f"bool_or({misfit(f'c{at}', k)})" for at, k in tests]
    results = engine.row(f"SELECT {', '.join(selected)} FROM {relation}")
    misfits = dict(zip(tests, results[len(start) :], strict=True))
    kinds = [next((k for k in _STORED[first:-1] if not misfits[at, k]), _STORED[-1]) for at, first in enumerate(start)]
    return kinds, [at for at in range(len(start)) if not results[at]]


def _load(engine: Engine, table: str, scan: str, names: Sequence[str], kinds: Sequence[str]) -> bool:
    """Create the table. Returns whether every value fits the kind of its column."""
    values = [f"{from_text(f'c{at}', kinds[at])} AS {name(column)}" for at, column in enumerate(names)]
    misfits = [misfit(f"c{at}", kind) for at, kind in enumerate(kinds) if kind != "text"]
    any_misfit = " OR ".join(misfits) or "false"
    engine.do(f"CREATE TABLE {table} AS SELECT {', '.join(values)}, {any_misfit} AS {_MISFIT} FROM {scan}")
    return not engine.rows(f"SELECT 1 FROM {table} WHERE {_MISFIT} LIMIT 1")


# --- reads JSON: a list of objects, one object a line (NDJSON), or a single object, which is a table of one row -------
# A column's type follows from the JSON types of all its values: integers, numbers, booleans or texts. The values stay
# texts as written if their types are mixed, if they are objects or lists, or if an integer does not fit 64 bits.


_LARGEST_OBJECT = 64 * 1024 * 1024
_SMALL_FILE = 256 * 1024  # bytes; only smaller files are read for their names
_MOST_KEYS = 100_000  # more keys than an object has


def load_json(engine: Engine, path: Path, as_text: Collection[str] = ()) -> Source:
    """`as_text`: columns that stay text."""
    raw = engine.new_name("json")
    engine.do(
        f"CREATE TABLE {raw} AS SELECT json FROM read_json_objects({file_literal(path)}, format = 'auto', "
        f"maximum_object_size = {_LARGEST_OBJECT})"
    )
    other_rows = engine.rows(
        f"SELECT rowid, json_type(json) FROM {raw} WHERE json_type(json) <> 'OBJECT' ORDER BY rowid LIMIT 1"
    )
    if other_rows:
        row, type_ = other_rows[0]
        raise UnreadableTable(f"row {row + 1} is not an object with columns, but {type_.lower()}")
    twice = engine.rows(
        f"SELECT rowid, json_keys(json) FROM {raw} "
        f"WHERE len(json_keys(json)) <> len(list_distinct(json_keys(json))) ORDER BY rowid LIMIT 1"
    )
    if twice:
        row, keys = twice[0]
        repeated = next(key for at, key in enumerate(keys) if key in keys[:at])
        raise UnreadableTable(f"row {row + 1} has the key `{repeated}` twice; remove one")
    names = [
        str(row[0])
        for row in engine.rows(
            f"SELECT key FROM (SELECT rowid AS r, unnest(json_keys(json)) AS key, "
            f"unnest(range(len(json_keys(json)))) AS position FROM {raw}) "
            f"GROUP BY key ORDER BY min(r * {_MOST_KEYS} + position)"
        )
    ]
    if not names:
        raise UnreadableTable("it has no columns: write objects with at least one entry")
    check_names(None, names)
    columns = tuple(Column(c, "VARCHAR" if c in as_text else _type(engine, raw, c)) for c in names)
    selected = [f"{_value(column)} AS {name(column.name)}" for column in columns]
    table = engine.new_name("typed_json")
    engine.do(f"CREATE TABLE {table} AS SELECT {', '.join(selected)} FROM {raw} ORDER BY {raw}.rowid")
    engine.do(f"DROP TABLE {raw}")
    view = engine.new_name("rows")
    engine.do(f"CREATE VIEW {view} AS SELECT *, {position(names)} AS {ROW} FROM {table}")
    return Source(view, columns, untyped=True)


def names_of_small(path: Path) -> list[str] | None:
    """The columns of a small file; None for a large file, or if it is not valid: the step itself reports that."""
    with path.open("rb") as file:
        start = file.read(_SMALL_FILE + 1)
    if len(start) > _SMALL_FILE:
        return None
    try:
        rows = _rows(start.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None
    names = dict.fromkeys(name for row in rows if isinstance(row, dict) for name in row)
    return list(names) if names and all(isinstance(row, dict) for row in rows) else None


def _rows(text: str) -> list[Any]:
    try:
        whole = json.loads(text)
    except ValueError:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    return whole if isinstance(whole, list) else [whole]


def _pointer(column: str) -> str:
    return literal("/" + column.replace("~", "~0").replace("/", "~1"))


def _type(engine: Engine, raw: str, column: str) -> str:
    at = _pointer(column)
    text = f"json_extract_string(json, {at})"
    whole = f"regexp_full_match({text}, '-?[0-9]+')"
    # DuckDB calls an integer of more than 64 bits DOUBLE, but keeps its digits. In a column of numbers, the digits of
    # every integer must survive the conversion.
    kinds, no_integer, no_number = engine.row(
        f"SELECT coalesce(list(DISTINCT json_type(json, {at})), []), "
        f"coalesce(bool_or({whole} AND TRY_CAST({text} AS BIGINT) IS NULL), false), "
        f"coalesce(bool_or(CASE WHEN {whole} "
        f"THEN coalesce(CAST(TRY_CAST(TRY_CAST({text} AS DOUBLE) AS HUGEINT) AS VARCHAR) <> {text}, true) "
        f"ELSE NOT coalesce(isfinite(TRY_CAST({text} AS DOUBLE)), false) END), false) "
        f"FROM {raw} WHERE json_type(json, {at}) <> 'NULL'"
    )
    types = set(kinds)
    if types and types <= {"BIGINT", "UBIGINT"} and not no_integer:
        return "BIGINT"
    if types and types <= {"BIGINT", "UBIGINT", "DOUBLE"} and not no_number:
        return "DOUBLE"
    return "BOOLEAN" if types == {"BOOLEAN"} else "VARCHAR"


def _value(column: Column) -> str:
    text = f"json_extract_string(json, {_pointer(column.name)})"
    return text if column.type == "VARCHAR" else f"CAST({text} AS {column.type})"
