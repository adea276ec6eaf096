"""`whyrun connections [test|discover] [NAME]...`: list the connections of `connections.yaml`, or test them."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click

from whyrun.cli.output import print_json
from whyrun.connections.redact import MASK, Redactor
from whyrun.connections.resolve import FILE_NAME, Connections, Leaf, Ready, Unresolved, WrittenConnection, find
from whyrun.connections.text import Text, Variable
from whyrun.errors import Diagnostic, Exit, InvalidError, to_install

# --- tests a connection: `probe` connects to the server and asks for its version --------------------------------------


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


def _sqlite(fields: Fields, project: Path) -> str:
    import sqlite3
    from contextlib import closing

    path = fields.get("path")
    if not isinstance(path, str) or not path:
        raise ValueError("it has no `path:`")
    with closing(sqlite3.connect(f"{(project / path).resolve().as_uri()}?mode=ro", uri=True)) as database:
        (tables,) = database.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table'").fetchone()
    return f"SQLite {sqlite3.sqlite_version}, {tables} table{'' if tables == 1 else 's'}"


DRIVERS: Mapping[str, _Driver] = {
    "duckdb": _Driver(_duckdb, "data"),
    "mariadb": _Driver(_mysql, "db"),
    "mysql": _Driver(_mysql, "db"),
    "postgres": _Driver(_postgres, "db"),
    "postgresql": _Driver(_postgres, "db"),
    "sqlite": _Driver(_sqlite, "data"),
}


# --- connections ------------------------------------------------------------------------------------------------------


# Connections for display: the text of the file, never the value of a variable or a secret.


def chosen(connections: Connections, names: Sequence[str]) -> list[WrittenConnection]:
    """The connections of these names; a family name selects all of its connections. Without names, all."""
    if connections.problems:
        raise InvalidError(connections.problems)
    selected: dict[str, WrittenConnection] = {}
    problems: list[Diagnostic] = []
    for name in names:
        reference = f"@{name.removeprefix('@')}"
        family = connections.families.get(reference[1:])
        one = find(connections, reference) if family is None else None
        if isinstance(one, Unresolved):
            problems.append(Diagnostic(one.code, one.message, hint=one.hint, file=FILE_NAME))
        for connection in (family or {}).values() if family is not None else [one]:
            if isinstance(connection, WrittenConnection):
                selected[connection.reference] = connection
    if problems:
        raise InvalidError(problems)
    return list(selected.values()) if names else list(connections)


def connection_as_json(
    connection: WrittenConnection, secret_fields: Collection[str], environment: Collection[str]
) -> dict[str, Any]:
    return {
        "reference": connection.reference,
        "family": connection.family,
        "alias": connection.alias,
        "default": connection.default,
        "file": connection.place.source,
        "line": connection.place.line,
        "fields": dict(shown_fields(connection, secret_fields)),
        "variables": [
            {"name": v.name, "set": v.name in environment, "has_default": v.default is not None}
            for v in variables_of(connection)
        ],
    }


def shown_fields(connection: WrittenConnection, secret_fields: Collection[str]) -> Iterator[tuple[str, str]]:
    """Each value by its path, as written; for a secret, only the names of its variables."""
    for path, leaf in connection.leaves():
        name = path.partition(".")[0].partition("[")[0]
        yield path, _hidden(leaf) if name in secret_fields else _plain(leaf)


def variables_of(connection: WrittenConnection) -> list[Variable]:
    """The variables of a connection, each name once."""
    by_name: dict[str, Variable] = {}
    for _, leaf in connection.leaves():
        for variable in leaf.value.variables if isinstance(leaf.value, Text) else ():
            by_name.setdefault(variable.name, variable)
    return list(by_name.values())


def _plain(leaf: Leaf) -> str:
    return leaf.value.written if isinstance(leaf.value, Text) else leaf.plain


def _hidden(leaf: Leaf) -> str:
    if not isinstance(leaf.value, Text):
        return "" if leaf.value is None else MASK
    return "".join(MASK if isinstance(part, str) else _name_of(part) for part in leaf.value.parts)


def _name_of(variable: Variable) -> str:
    return f"${{{variable.name}}}" if variable.default is None else f"${{{variable.name}:-{MASK}}}"


TEST, DISCOVER = "test", "discover"


@click.command("connections")
@click.argument("words", nargs=-1, metavar="[test|discover] [NAME]... [TABLE]")
@click.option("--json", "as_json", is_flag=True, help="Print the connections as JSON.")
def command(words: tuple[str, ...], as_json: bool) -> None:
    """List the connections of this project, or test them. NAME is `@family.alias`, or a family.

    The list shows the content of `connections.yaml`, without passwords. For a variable it shows only whether it is
    set. `test` connects to MySQL, MariaDB, PostgreSQL, DuckDB and SQLite. `discover` lists the tables of one
    connection, or the columns of TABLE, from its catalogue; it counts nothing, so numbers of rows are estimates.

    Exit status: 0 success; 1 a connection does not work; 2 the file or a name is invalid.

    \b
    Example:
      whyrun connections
      whyrun connections mysql.primary
      whyrun connections test
      whyrun connections test @mysql.primary --json
      whyrun connections discover @mysql.primary
      whyrun connections discover @mysql.primary orders
    """
    from whyrun.connections.resolve import load_connections
    from whyrun.log.runs import project_dir_for
    from whyrun.project import DEFAULT_FILE

    project = project_dir_for(os.path.abspath(DEFAULT_FILE))
    testing = words[:1] == (TEST,)
    connections = load_connections(project)
    if words[:1] == (DISCOVER,):
        from whyrun.cli.commands.discover import discover

        discover(connections, words[1:], project, _why_failed, as_json=as_json)
        return
    found = chosen(connections, words[1:] if testing else words)
    if not found and not as_json:
        why = "has no connections" if connections.exists else f"has no `{FILE_NAME}`"
        click.echo(f"the project {why}", err=True)
    elif testing:
        _test(found, project, as_json=as_json)
    else:
        _list(found, as_json=as_json)


def _list(found: Sequence[WrittenConnection], *, as_json: bool) -> None:
    from whyrun.actions.base import SECRET_FIELDS

    if as_json:
        print_json({"connections": [connection_as_json(one, SECRET_FIELDS, os.environ) for one in found]})
        return
    for one in found:
        click.echo(f"{one.reference}{' (default)' if one.default else ''}")
        fields = list(shown_fields(one, SECRET_FIELDS))
        width = max((len(path) for path, _ in fields), default=0)
        for path, text in fields:
            click.echo(f"  {path:<{width}}  {text}".rstrip())
        for variable in variables_of(one):
            state = "is set" if variable.name in os.environ else "is not set"
            default = "; it has a default" if state == "is not set" and variable.default is not None else ""
            click.echo(f"  {variable.name} {state}{default}")


def _test(found: Sequence[WrittenConnection], project: Path, *, as_json: bool) -> None:
    from whyrun.actions.base import SECRET_FIELDS
    from whyrun.connections.resolve import ready

    results: list[tuple[str, Probed]] = []
    width = max((len(one.reference) for one in found), default=0)
    for one in found:
        result = probe(one.family, ready(one, SECRET_FIELDS, os.environ), project, _why_failed)
        results.append((one.reference, result))
        if not as_json:
            click.echo(f"{one.reference:<{width}}  {result.status:<7}  {result.detail}")
    if as_json:
        print_json(
            {"connections": [{"reference": name, "status": r.status, "detail": r.detail} for name, r in results]}
        )
    if any(result.status == "failed" for _, result in results):
        click.get_current_context().exit(Exit.FAILED)


def _why_failed(family: str, fields: Mapping[str, Any], problem: BaseException) -> str | None:
    """The message that a step with this connection would show; None for a family without a server."""
    from whyrun.actions.movers import mysql_extract as mysql
    from whyrun.actions.movers.connections import MySqlConnection, PostgresConnection
    from whyrun.actions.movers.postgres import client as postgres

    if family in MySqlConnection.families:
        return MySqlConnection(fields).failure(mysql.server_message(problem))
    if family in PostgresConnection.families:
        return PostgresConnection(fields).failure(postgres.server_message(problem))
    return None
