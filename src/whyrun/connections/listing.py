"""Connections for display: the text of the file, never the value of a variable or a secret."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from whyrun.connections.file import FILE_NAME, Connections, Leaf, WrittenConnection
from whyrun.connections.redact import MASK
from whyrun.connections.resolve import Unresolved, find
from whyrun.connections.text import Text, Variable
from whyrun.errors import Diagnostic, InvalidError


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


def as_json(
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
