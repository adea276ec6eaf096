"""Reads JSON: a list of objects, one object a line (NDJSON), or a single object, which is a table of one row.

A column's type follows from the JSON types of all its values: integers, numbers, booleans or texts. The values stay
texts as written if their types are mixed, if they are objects or lists, or if an integer does not fit 64 bits.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from whyrun.actions.data.engine import ROW, Engine, file_literal, literal, name, position
from whyrun.actions.data.problems import UnreadableTable
from whyrun.actions.data.tables import Column, Source, check_names

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
