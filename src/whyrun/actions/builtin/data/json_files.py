"""JSON: a list of objects, one object a line (NDJSON), or a single object, which is a table of one row.

A column's type follows from the JSON types of all its values: integers, numbers, booleans or texts. Where they are
mixed, or objects and lists, the values are texts, as they are written.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from whyrun.actions.builtin.data.engine import ROW, Engine, literal, name
from whyrun.actions.builtin.data.problems import UnreadableTable
from whyrun.actions.builtin.data.tables import Column, Source, check_names

_LARGEST_OBJECT = 64 * 1024 * 1024
_SMALL_FILE = 256 * 1024  # bytes that are read only to look at names
_MOST_KEYS = 100_000  # of an object; a table is not as wide


def load_json(engine: Engine, path: Path) -> Source:
    raw = engine.new_name("json")
    engine.do(
        f"CREATE TABLE {raw} AS SELECT json FROM read_json_objects({literal(path)}, format = 'auto', "
        f"maximum_object_size = {_LARGEST_OBJECT})"
    )
    strange = engine.rows(
        f"SELECT rowid, json_type(json) FROM {raw} WHERE json_type(json) <> 'OBJECT' ORDER BY rowid LIMIT 1"
    )
    if strange:
        row, found = strange[0]
        raise UnreadableTable(f"row {row + 1} is no object with columns, but {found.lower()}")
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
    check_names("it", names)
    columns = tuple(Column(column, _type(engine, raw, column)) for column in names)
    selected = [f"{_value(column)} AS {name(column.name)}" for column in columns]
    table = engine.new_name("typed_json")
    engine.do(f"CREATE TABLE {table} AS SELECT {', '.join(selected)} FROM {raw} ORDER BY rowid")
    engine.do(f"DROP TABLE {raw}")
    view = engine.new_name("rows")
    engine.do(f"CREATE VIEW {view} AS SELECT *, rowid AS {ROW} FROM {table}")
    return Source(view, columns, untyped=True)


def names_of_small(path: Path) -> list[str] | None:
    """The columns of a small file; None of a large one, and where the step itself should say what is wrong with it."""
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
    kinds, too_large = engine.row(
        f"SELECT coalesce(list(DISTINCT json_type(json, {at})), []), "
        f"coalesce(bool_or(json_type(json, {at}) IN ('UBIGINT', 'HUGEINT', 'UHUGEINT') "
        f"AND TRY_CAST({text} AS BIGINT) IS NULL), false) FROM {raw}"
    )
    found = {kind for kind in kinds if kind not in (None, "NULL")}
    if found and found <= {"BIGINT", "UBIGINT"} and not too_large:
        return "BIGINT"
    if found and found <= {"BIGINT", "UBIGINT", "DOUBLE"} and not too_large:
        return "DOUBLE"
    return "BOOLEAN" if found == {"BOOLEAN"} else "VARCHAR"


def _value(column: Column) -> str:
    text = f"json_extract_string(json, {_pointer(column.name)})"
    return text if column.type == "VARCHAR" else f"CAST({text} AS {column.type})"
