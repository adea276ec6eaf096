"""Tests a connection: `probe` connects to the server and asks for its version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from whyrun.connections.redact import Redactor
from whyrun.connections.resolve import Ready
from whyrun.errors import to_install

TIMEOUT = 10  # seconds for a server to answer
LONGEST = 300  # characters of a driver's error message

Fields = Mapping[str, Any]
# Family, fields and the driver's exception → what the error means; None: unknown.
ErrorText = Callable[[str, Fields, BaseException], str | None]


@dataclass(frozen=True, slots=True)
class Probed:
    """`untried`: there is no driver for this family."""

    status: Literal["ok", "failed", "untried"]
    detail: str


@dataclass(frozen=True, slots=True)
class _Driver:
    connect: Callable[[Fields, Path], str]
    extra: str  # the extra of whyrun that installs the package


def _unknown_error(family: str, fields: Fields, problem: BaseException) -> str | None:
    del family, fields, problem
    return None


def probe(family: str, ready: Ready, project: Path, error_text: ErrorText = _unknown_error) -> Probed:
    """Test one connection. `error_text` explains a driver's error."""
    driver = DRIVERS.get(family)
    if driver is None:
        known = ", ".join(f"`{name}`" for name in DRIVERS)
        return Probed("untried", f"connections of the family `{family}` cannot be tested; these can: {known}")
    if ready.missing:
        names = ", ".join(f"`{name}`" for name in dict.fromkeys(ready.missing))
        return Probed("failed", f"not in the environment: {names}")
    if ready.problems:
        return Probed("failed", "; ".join(problem.message for problem in ready.problems))
    try:
        return Probed("ok", driver.connect(ready.real(), project))
    except ImportError as missing:
        return Probed("failed", f"it needs `{missing.name}`: {to_install(driver.extra)}")
    except Exception as problem:  # a driver may raise anything: report it
        message = " ".join(str(problem).split()) or "no reason given"
        text = error_text(family, ready.real(), problem) or f"{type(problem).__name__}: {message}"
        return Probed("failed", Redactor(ready.secrets).text(text)[:LONGEST])


def _mysql(fields: Fields, project: Path) -> str:
    import pymysql

    names = {"host": "host", "port": "port", "user": "user", "password": "password", "database": "database",
             "socket": "unix_socket", "ssl_ca": "ssl_ca"}  # fmt: skip
    given = {theirs: fields[ours] for ours, theirs in names.items() if fields.get(ours) is not None}
    connection = pymysql.connect(**given, connect_timeout=TIMEOUT, read_timeout=TIMEOUT)
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT VERSION()")
            (version,) = cursor.fetchone()
    finally:
        connection.close()
    return f"{'MariaDB' if 'mariadb' in version.lower() else 'MySQL'} {version.partition('-')[0]}"


def _postgres(fields: Fields, project: Path) -> str:
    from adbc_driver_postgresql import dbapi

    names = {"host": "host", "port": "port", "user": "user", "password": "password", "database": "dbname",
             "sslmode": "sslmode", "sslrootcert": "sslrootcert"}  # fmt: skip
    given = {theirs: fields[ours] for ours, theirs in names.items() if fields.get(ours) is not None}
    text = " ".join(f"{name}={_quoted(value)}" for name, value in given.items())
    with dbapi.connect(f"{text} connect_timeout={TIMEOUT}") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('server_version')")
        (version,) = cursor.fetchone()
    return f"PostgreSQL {version}"


def _quoted(value: Any) -> str:
    escaped = str(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _duckdb(fields: Fields, project: Path) -> str:
    import duckdb

    path = fields.get("path")
    if not isinstance(path, str) or not path:
        raise ValueError("it has no `path:`")
    with duckdb.connect(str(project / path), read_only=True) as database:
        row = database.execute("SELECT version(), count(*) FROM duckdb_tables()").fetchone()
    assert row is not None
    version, tables = row
    return f"DuckDB {version.removeprefix('v')}, {tables} table{'' if tables == 1 else 's'}"


DRIVERS: Mapping[str, _Driver] = {
    "duckdb": _Driver(_duckdb, "data"),
    "mariadb": _Driver(_mysql, "db"),
    "mysql": _Driver(_mysql, "db"),
    "postgres": _Driver(_postgres, "db"),
    "postgresql": _Driver(_postgres, "db"),
}
