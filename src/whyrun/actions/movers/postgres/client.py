"""PostgreSQL through ADBC: opens a session with fixed settings, and turns errors into messages."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from whyrun.actions.data.engine import name
from whyrun.actions.data.params import QueryFailed
from whyrun.actions.data.tables import Column
from whyrun.actions.movers.connections import ConnectionFailed, PostgresConnection, sqlstate_suffix, without_password
from whyrun.actions.movers.statement import Scalar

# Settings that change the result of a query and may differ by server, database or user.
_SETTINGS = (
    "SET TIME ZONE 'UTC'",
    "SET DateStyle = 'ISO, YMD'",
    "SET IntervalStyle = 'iso_8601'",
    "SET extra_float_digits = 1",
    "SET standard_conforming_strings = on",
)


def quoted(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'


def literal(value: Scalar) -> str:
    """A literal for `standard_conforming_strings`: only the quote is special in a string."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value) if value >= 0 else f"({value})"
        case float():
            return f"({value!r})" if math.isfinite(value) else f"'{value}'::float8"
    if "\0" in value:
        raise QueryFailed("a value of `values` contains a zero byte, which PostgreSQL texts cannot hold; remove it")
    return "'" + value.replace("'", "''") + "'"


def _conninfo(connection: PostgresConnection) -> str:
    fields = connection.checked()
    given = {
        "host": fields.get("host", "localhost"),
        "port": fields.get("port", connection.default_port),
        "user": fields["user"],
        "password": fields.get("password"),
        "dbname": fields["database"],
        "connect_timeout": fields.get("connect_timeout", 10),
        "sslmode": fields.get("sslmode"),
        "sslrootcert": fields.get("sslrootcert"),
        "client_encoding": "UTF8",
        "application_name": "whyrun",
    }
    return " ".join(f"{name}={_escaped(str(value))}" for name, value in given.items() if value is not None)


def _escaped(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


@contextmanager
def connected(connection: PostgresConnection, *, read_only: bool) -> Iterator[Any]:
    """A cursor in one transaction, which is rolled back unless the caller commits (`cursor.connection.commit()`)."""
    from adbc_driver_manager import Error
    from adbc_driver_postgresql import dbapi

    try:
        session = dbapi.connect(_conninfo(connection))
    except Error as problem:
        raise ConnectionFailed(connection.failure(server_message(problem))) from None
    try:
        cursor = session.cursor()
        try:
            if read_only:
                cursor.execute("SET TRANSACTION READ ONLY")
            for setting in _SETTINGS:
                cursor.execute(setting)
            yield cursor
        finally:
            cursor.close()
    finally:
        session.close()


def server_message(problem: BaseException) -> str:
    """The server's message and SQLSTATE, without the driver's text and the echo of our query."""
    text = str(problem)
    for end in ("\n\nQuery was:", ". SQLSTATE:", "\nLINE ", "\nHINT: ", "\nCONTEXT: "):
        text = text.split(end)[0]
    for mark in ("ERROR:  ", "FATAL:  ", "failed: ", "[libpq] "):
        if mark in text:
            text = text.split(mark, 1)[1]
            break
    return " ".join(text.split()).rstrip(".") + sqlstate_suffix(getattr(problem, "sqlstate", None))


def reader_of(cursor: Any) -> Any:
    """The reader of the result. `fetch_record_batch` would return the inner reader, whose errors have no SQLSTATE."""
    return cursor._results.reader


def failed(what: str, problem: BaseException, connection: PostgresConnection) -> QueryFailed:
    return QueryFailed(f"{what} cannot be answered: {without_password(server_message(problem), connection)}")


# --- converts the columns of a dataset to the columns of a PostgreSQL table, if no value is lost ----------------------
# Rows are copied in binary format, which requires exactly the type of the table. If a type differs, the rows are copied
# to a temporary table first, and the server converts them from there.


# DuckDB type → (DuckDB type that is copied, PostgreSQL type of the copy, type of a new column if it differs).
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
_ARRAY_MEMBERS = ("BOOLEAN", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "VARCHAR", "DATE")
_INTEGERS = {"smallint": 1, "integer": 2, "bigint": 3}
_NUMBERS = frozenset({*_INTEGERS, "real", "double precision"})
_TIMES = frozenset({"date", "timestamp without time zone", "timestamp with time zone"})
_TEXTS = ("character varying", "character", "text", "citext", "name")


@dataclass(frozen=True, slots=True)
class CopiedColumn:
    """A column of the dataset as it is copied. `select`: the SQL over the dataset. `type`: the PostgreSQL type of the
    copy. `new_type`: the type of a new column for it. `lossy`: SQL that is true where `select` changes a value; "" if
    it never does.
    """

    name: str
    select: str
    type: str
    new_type: str
    lossy: str = ""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of the table. `category`: PostgreSQL's type category: N numbers, B booleans, D dates and times, …"""

    name: str
    type: str
    category: str = ""


@dataclass(frozen=True, slots=True)
class Conversion:
    """`insert`: the SQL over the copied column. `lossy`: SQL that is true where the conversion changes a value."""

    insert: str
    lossy: str = ""


def copied_column(column: Column) -> CopiedColumn:
    quoted = name(column.name)
    simple = _SIMPLE.get(column.type)
    if simple is not None:
        cast, type_, new_type = simple
        select = f"CAST({quoted} AS {cast})" if cast else quoted
        lossy = f"CAST({select} AS {column.type}) IS DISTINCT FROM {quoted}" if column.type == "TIMESTAMP_NS" else ""
        return CopiedColumn(column.name, select, type_, new_type or type_, lossy)
    if column.type.startswith("DECIMAL("):
        type_ = column.type.lower().replace("decimal", "numeric").replace(" ", "")
        return CopiedColumn(column.name, quoted, type_, type_)
    if column.type.startswith("ENUM"):
        return CopiedColumn(column.name, f"CAST({quoted} AS VARCHAR)", "text", "text")
    if column.type.endswith("[]") and column.type[:-2] in _ARRAY_MEMBERS:
        type_ = _SIMPLE[column.type[:-2]][1] + "[]"
        return CopiedColumn(column.name, quoted, type_, type_)
    if column.type.endswith("]") or column.type.startswith(("STRUCT", "MAP", "UNION")):
        return CopiedColumn(column.name, f"CAST(to_json({quoted}) AS VARCHAR)", "text", "jsonb")
    return CopiedColumn(column.name, f"CAST({quoted} AS VARCHAR)", "text", "text")


def is_exact(column: CopiedColumn, target: TableColumn) -> bool:
    """Whether the copied type is exactly the type of the table's column."""
    return column.type == target.type or (target.type == "numeric" and column.type.startswith("numeric"))


def conversion(column: CopiedColumn, target: TableColumn) -> Conversion | None:
    """How the server converts the column; None if there is no safe conversion."""
    source = name(column.name)
    if is_exact(column, target):
        return Conversion(source)
    if _is_number(column.type) and _is_number(target.type):
        if column.type in _INTEGERS and (target.type == "numeric" or _wider(column.type, target.type)):
            return Conversion(source)
        back = f"CAST(CAST({source} AS {target.type}) AS {_without_limits(column.type)})"
        return Conversion(f"CAST({source} AS {target.type})", f"{back} IS DISTINCT FROM {source}")
    if column.type in _TIMES and _without_limits(target.type) in _TIMES:
        back = f"CAST(CAST({source} AS {target.type}) AS {column.type})"
        return Conversion(f"CAST({source} AS {target.type})", f"{back} IS DISTINCT FROM {source}")
    if column.type == "text":
        if _without_limits(target.type) in _TEXTS:
            return Conversion(source)  # without a cast, which would cut a text that is too long
        if target.type == "bytea":
            return Conversion(f"decode({source}, 'hex')")  # our CSV files hold bytes as hexadecimal digits
        if target.category not in ("N", "B", "D", "A"):
            return Conversion(f"CAST({source} AS {target.type})")  # datasets have no such type, only text
    return None


def _is_number(type_: str) -> bool:
    return type_ in _NUMBERS or type_.startswith("numeric")


def _wider(source: str, target: str) -> bool:
    return _INTEGERS.get(source, 9) <= _INTEGERS.get(target, 0)


def _without_limits(type_: str) -> str:
    """`numeric(12,2)` → `numeric`, `timestamp(3) without time zone` → `timestamp without time zone`."""
    return re.sub(r"\([^)]*\)", "", type_)
