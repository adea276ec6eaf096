"""`whyrun connections [test] [NAME]...`: list the connections of `connections.yaml`, or test them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whyrun.cli.output import print_json
from whyrun.connections.file import FILE_NAME, Connections, Leaf, WrittenConnection
from whyrun.connections.redact import MASK
from whyrun.connections.resolve import Unresolved, find
from whyrun.connections.text import Text, Variable
from whyrun.errors import Diagnostic, Exit, InvalidError

if TYPE_CHECKING:
    from whyrun.connections.probe import Probed

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


TEST = "test"


@click.command("connections")
@click.argument("words", nargs=-1, metavar="[test] [NAME]...")
@click.option("--json", "as_json", is_flag=True, help="Print the connections as JSON.")
def command(words: tuple[str, ...], as_json: bool) -> None:
    """List the connections of this project, or test them. NAME is `@family.alias`, or a family.

    The list shows the content of `connections.yaml`, without passwords. For a variable it shows only whether it is
    set. `test` connects to MySQL, MariaDB, PostgreSQL and DuckDB.

    Exit status: 0 success; 1 a connection does not work; 2 the file or a name is invalid.

    \b
    Example:
      whyrun connections
      whyrun connections mysql.primary
      whyrun connections test
      whyrun connections test @mysql.primary --json
    """
    from whyrun.connections.file import FILE_NAME, load_connections
    from whyrun.log.runs import project_dir_for
    from whyrun.project import DEFAULT_FILE

    project = project_dir_for(os.path.abspath(DEFAULT_FILE))
    testing = words[:1] == (TEST,)
    connections = load_connections(project)
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
    from whyrun.connections.probe import probe
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
    from whyrun.actions.movers.connections import MySqlConnection, PostgresConnection
    from whyrun.actions.movers.mysql import client as mysql
    from whyrun.actions.movers.postgres import client as postgres

    if family in MySqlConnection.families:
        return MySqlConnection(fields).failure(mysql.server_message(problem))
    if family in PostgresConnection.families:
        return PostgresConnection(fields).failure(postgres.server_message(problem))
    return None
