"""PostgreSQL through ADBC: opens a session with fixed settings, and turns errors into messages."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from whyrun.actions.data.problems import QueryFailed
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
