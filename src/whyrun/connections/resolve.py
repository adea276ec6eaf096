"""Resolves `@family.alias`: to the connection as written, for plans, and with its values, for a step.

A plan uses the text of the file with its `${VAR}`, so that it is the same on every machine. The host reads the values
when a run begins. Secret values are replaced by references and sent separately.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from whyrun.connections.file import (
    FILE_NAME,
    PORT_HINT,
    Connections,
    Leaf,
    Value,
    WrittenConnection,
    as_port,
    without_line,
)
from whyrun.connections.planned_value import MARK
from whyrun.connections.text import Piece, Text, Variable, pieces
from whyrun.errors import Diagnostic, did_you_mean


@dataclass(frozen=True, slots=True)
class Unresolved:
    """Why a reference cannot be resolved."""

    code: str
    message: str
    hint: str | None


def find(connections: Connections, reference: str) -> WrittenConnection | Unresolved:
    """`@family.alias`, or `@family` for the default of the family."""
    family, dot, alias = reference.removeprefix("@").partition(".")
    if not connections.exists:
        example = f"connections: {{{family or 'mysql'}: {{{alias or 'primary'}: {{host: …}}}}}}"
        hint = f"create it in the project folder: `{example}`"
        return Unresolved("CONNECTION_UNKNOWN", f"`{reference}`: the project has no `{FILE_NAME}`", hint)
    aliases = connections.families.get(family)
    if aliases is None:
        return _unknown(reference, f"`{FILE_NAME}` has no family `{family}`", connections)
    if dot:
        found = aliases.get(alias)
        return found or _unknown(reference, f"the family `{family}` has no connection `{alias}`", connections)
    default = next((connection for connection in aliases.values() if connection.default), None)
    if default is not None:
        return default
    ways = " or ".join(f"`{connection.reference}`" for connection in aliases.values())
    message = f"`{reference}`: no connection of the family `{family}` has `default: true`"
    return Unresolved("CONNECTION_NO_DEFAULT", message, f"write {ways}, or mark one of them" if ways else None)


def find_written(connections: Connections, reference: str) -> WrittenConnection:
    """A connection that `find` has resolved before."""
    family, _, alias = reference.removeprefix("@").partition(".")
    return connections.families[family][alias]


def _unknown(reference: str, why: str, connections: Connections) -> Unresolved:
    known = [connection.reference for connection in connections]
    families = [f"@{family}" for family in connections.families]
    hint = did_you_mean(reference, [*known, *families] if "." not in reference else known)
    return Unresolved("CONNECTION_UNKNOWN", f"`{reference}`: {why}", hint or f"`{FILE_NAME}` has no connection yet")


# --- for plans ---------------------------------------------------------------------------------------------------


def planned(connection: WrittenConnection, secret_fields: Collection[str]) -> dict[str, Any]:
    """The connection in a plan. Of a secret field it contains only the names of the variables."""
    fields = {name: _written(value, name in secret_fields) for name, value in connection.fields.items()}
    return {MARK: connection.reference, **fields}


def _written(value: Value, secret: bool) -> Any:
    if isinstance(value, tuple):
        return [_written(member, secret) for member in value]
    if isinstance(value, Mapping):
        return {key: _written(member, secret) for key, member in value.items()}
    if not isinstance(value.value, Text):
        return {"$secret": ""} if secret and value.value is not None else value.value
    if secret:
        return {"$secret": "".join(f"${{{variable.name}}}" for variable in value.value.variables)}
    return value.value.written


# --- for a run ---------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Ready:
    """A connection as a step receives it: `value` with references instead of secrets, and the secrets by name."""

    value: dict[str, Any] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)  # variables
    problems: list[Diagnostic] = field(default_factory=list)

    def real(self) -> dict[str, Any]:
        """The fields with their secrets, to connect from this process."""
        fields = _real(self.value, self.secrets)
        assert isinstance(fields, dict)
        return fields


def ready(connection: WrittenConnection, secret_fields: Collection[str], environment: Mapping[str, str]) -> Ready:
    result = Ready()
    for name, value in connection.fields.items():
        path = f"{connection.reference}.{name}"
        result.value[name] = _ready_value(value, path, name in secret_fields, environment, result)
    if "port" in result.value and not result.problems:
        port = as_port(result.value["port"])
        if port is None:
            leaf = connection.fields["port"]
            place = leaf.scalar.place if isinstance(leaf, Leaf) else connection.place
            # The value is not shown: it may be a secret.
            message = f"the port of `{connection.reference}` is not a number"
            result.problems.append(without_line(place.diagnostic("CONNECTION_INVALID", message, PORT_HINT)))
        else:
            result.value["port"] = port
    return result


def _ready_value(value: Value, path: str, secret: bool, environment: Mapping[str, str], result: Ready) -> Any:
    if isinstance(value, tuple):
        return [_ready_value(item, f"{path}[{i}]", secret, environment, result) for i, item in enumerate(value)]
    if isinstance(value, Mapping):
        return {key: _ready_value(item, f"{path}.{key}", secret, environment, result) for key, item in value.items()}
    if not isinstance(value.value, Text):
        if not secret or value.value is None:
            return value.value
        result.secrets[path] = value.plain  # a password of digits is a text, too
        return {"$secret": path}
    parts, missing = pieces(value.value, environment)
    result.problems += [_missing(variable, path, value) for variable in missing]
    result.missing += [variable.name for variable in missing]
    for piece in parts:
        if not piece.is_secret and not _is_text(piece.text):  # the run folder would contain it
            result.problems.append(_not_text(piece, path, value))
    return _with_references(parts, path, secret, result)


def _with_references(parts: list[Piece], path: str, secret: bool, result: Ready) -> Any:
    """The text, or a reference if a part of it is secret."""
    whole = "".join(piece.text for piece in parts)
    hidden = [piece for piece in parts if piece.is_secret]
    of_parts = {f"{path}:{piece.variable}": piece.text for piece in hidden if piece.text != whole}
    if not whole or not (secret or hidden):
        return whole
    if not secret and len(hidden) == 1:
        at = parts.index(hidden[0])
        before, after = ("".join(piece.text for piece in some) for some in (parts[:at], parts[at + 1 :]))
        if (before or after) and "{}" not in before + after:
            result.secrets |= of_parts
            return {"$secret": next(iter(of_parts)), "format": f"{before}{{}}{after}"}
    # The whole text is one secret. Its parts are secrets, too: none of them may appear in a log.
    result.secrets |= {path: whole, **of_parts}
    return {"$secret": path}


def _missing(variable: Variable, path: str, leaf: Leaf) -> Diagnostic:
    message = f"`{path}` needs the variable `{variable.name}`, which is not in the environment"
    hint = f"`export {variable.name}=…` before `whyrun run`; `whyrun plan` does not need it"
    place = leaf.place_of(variable.at, variable.width)
    return without_line(place.diagnostic("SECRET_MISSING", message, hint))


def _is_text(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _not_text(piece: Piece, path: str, leaf: Leaf) -> Diagnostic:
    message = f"`{path}` takes the variable `{piece.variable}`, which is not UTF-8 text"
    return without_line(leaf.scalar.place.diagnostic("CONNECTION_INVALID", message, "set it to UTF-8 text"))


def _real(value: Any, secrets: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        if "$secret" in value:
            return str(value.get("format", "{}")).replace("{}", secrets[value["$secret"]])
        return {key: _real(member, secrets) for key, member in value.items()}
    return [_real(member, secrets) for member in value] if isinstance(value, list) else value
