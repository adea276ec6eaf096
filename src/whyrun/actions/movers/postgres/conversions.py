"""How a column of a file travels to PostgreSQL, and whether it can become what the table asks for. Pure.

Rows are copied in binary, where a type must be met exactly. What differs goes through a temporary table, and the server
converts it from there: only as far as nothing is lost.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from whyrun.actions.builtin.data.engine import name
from whyrun.actions.builtin.data.tables import Column

# DuckDB's type → (as which it travels, PostgreSQL's type of that, the type of a new column if that is another).
_SIMPLE = {
    "BOOLEAN": ("", "boolean", ""),
    "TINYINT": ("SMALLINT", "smallint", ""),
    "UTINYINT": ("SMALLINT", "smallint", ""),
    "SMALLINT": ("", "smallint", ""),
    "USMALLINT": ("INTEGER", "integer", ""),
    "INTEGER": ("", "integer", ""),
    "UINTEGER": ("BIGINT", "bigint", ""),
    "BIGINT": ("", "bigint", ""),
    "UBIGINT": ("DECIMAL(20, 0)", "numeric(20,0)", ""),
    "HUGEINT": ("DECIMAL(38, 0)", "numeric(38,0)", ""),
    "UHUGEINT": ("DECIMAL(38, 0)", "numeric(38,0)", ""),
    "FLOAT": ("", "real", ""),
    "DOUBLE": ("", "double precision", ""),
    "VARCHAR": ("", "text", ""),
    "BLOB": ("", "bytea", ""),
    "DATE": ("", "date", ""),
    "TIME": ("", "time without time zone", ""),
    "TIMESTAMP": ("", "timestamp without time zone", ""),
    "TIMESTAMP_S": ("TIMESTAMP", "timestamp without time zone", ""),
    "TIMESTAMP_MS": ("TIMESTAMP", "timestamp without time zone", ""),
    "TIMESTAMP_NS": ("TIMESTAMP", "timestamp without time zone", ""),
    "TIMESTAMP WITH TIME ZONE": ("", "timestamp with time zone", ""),
    "UUID": ("VARCHAR", "text", "uuid"),
    "JSON": ("VARCHAR", "text", "jsonb"),
    "INTERVAL": ("VARCHAR", "text", "interval"),
}
_LISTED = ("BOOLEAN", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "VARCHAR", "DATE")  # in an array
_INTEGERS = {"smallint": 1, "integer": 2, "bigint": 3}
_NUMBERS = frozenset({*_INTEGERS, "real", "double precision"})
_MOMENTS = frozenset({"date", "timestamp without time zone", "timestamp with time zone"})
_OF_TEXT = ("character varying", "character", "text", "citext", "name")


@dataclass(frozen=True, slots=True)
class Carried:
    """`select`: of the dataset. `type`: PostgreSQL's, of what is copied. `made`: that of a column made for it.
    `lossy`: SQL that is true where the way to `select` loses something; "" where it cannot."""

    name: str
    select: str
    type: str
    made: str
    lossy: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    """A column of the table. `category`: as PostgreSQL sorts its types: N numbers, B booleans, D dates and times, …"""

    name: str
    type: str
    category: str = ""


@dataclass(frozen=True, slots=True)
class Conversion:
    """`insert`: the expression over the copied column. `lossy`: SQL that is true where a value would be changed."""

    insert: str
    lossy: str = ""


def carried(column: Column) -> Carried:
    quoted = name(column.name)
    found = _SIMPLE.get(column.type)
    if found is not None:
        cast, type_, made = found
        select = f"CAST({quoted} AS {cast})" if cast else quoted
        lossy = f"CAST({select} AS {column.type}) IS DISTINCT FROM {quoted}" if column.type == "TIMESTAMP_NS" else ""
        return Carried(column.name, select, type_, made or type_, lossy)
    if column.type.startswith("DECIMAL("):
        type_ = column.type.lower().replace("decimal", "numeric").replace(" ", "")
        return Carried(column.name, quoted, type_, type_)
    if column.type.startswith("ENUM"):
        return Carried(column.name, f"CAST({quoted} AS VARCHAR)", "text", "text")
    if column.type.endswith("[]") and column.type[:-2] in _LISTED:
        type_ = _SIMPLE[column.type[:-2]][1] + "[]"
        return Carried(column.name, quoted, type_, type_)
    if column.type.endswith("]") or column.type.startswith(("STRUCT", "MAP", "UNION")):
        return Carried(column.name, f"CAST(to_json({quoted}) AS VARCHAR)", "text", "jsonb")
    return Carried(column.name, f"CAST({quoted} AS VARCHAR)", "text", "text")


def is_exact(column: Carried, target: Target) -> bool:
    """Whether the bytes that are copied are what the column holds."""
    return column.type == target.type or (target.type == "numeric" and column.type.startswith("numeric"))


def conversion(column: Carried, target: Target) -> Conversion | None:
    """How the server makes of the one the other; None where that would be a guess."""
    source = name(column.name)
    if is_exact(column, target):
        return Conversion(source)
    if _is_number(column.type) and _is_number(target.type):
        if column.type in _INTEGERS and (target.type == "numeric" or _wider(column.type, target.type)):
            return Conversion(source)
        back = f"CAST(CAST({source} AS {target.type}) AS {_without_limits(column.type)})"
        return Conversion(f"CAST({source} AS {target.type})", f"{back} IS DISTINCT FROM {source}")
    if column.type in _MOMENTS and _without_limits(target.type) in _MOMENTS:
        back = f"CAST(CAST({source} AS {target.type}) AS {column.type})"
        return Conversion(f"CAST({source} AS {target.type})", f"{back} IS DISTINCT FROM {source}")
    if column.type == "text":
        if _without_limits(target.type) in _OF_TEXT:
            return Conversion(source)  # assigned and not cast: a cast would cut what is too long
        if target.type == "bytea":
            return Conversion(f"decode({source}, 'hex')")  # as our CSV holds it
        if target.category not in ("N", "B", "D", "A"):
            return Conversion(f"CAST({source} AS {target.type})")  # no file has a type for these
    return None


def _is_number(type_: str) -> bool:
    return type_ in _NUMBERS or type_.startswith("numeric")


def _wider(source: str, target: str) -> bool:
    return _INTEGERS.get(source, 9) <= _INTEGERS.get(target, 0)


def _without_limits(type_: str) -> str:
    """`numeric(12,2)` → `numeric`, `timestamp(3) without time zone` → `timestamp without time zone`."""
    return re.sub(r"\([^)]*\)", "", type_)
