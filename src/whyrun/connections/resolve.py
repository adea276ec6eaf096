"""Reads `connections.yaml` and resolves `@family.alias`: as written for plans, with values for steps.

A plan uses the text of the file with its `${VAR}`, so that it is the same on every machine. The host reads the values
when a run begins. Secret values are replaced by references and sent separately.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from whyrun.connections.planned_value import MARK
from whyrun.connections.text import Piece, Text, TextProblem, Variable, parse_text, pieces
from whyrun.errors import Diagnostic, did_you_mean
from whyrun.workflow.fields import NAME, Fields
from whyrun.workflow.model import Place
from whyrun.workflow.nodes import ListNode, MapNode, Node, Problems, Scalar, kind_of
from whyrun.workflow.yaml_source import read_source, read_yaml

# --- reads `connections.yaml`: families, their aliases and the fields of each, with their positions in the file -------
#     connections:
#       mysql:
#         primary: {default: true, host: db.example.org, user: etl, password: "${MYSQL_PASSWORD}"}
#
# Messages about this file never show its lines: a line may contain a password.


FILE_NAME = "connections.yaml"
DEFAULT = "default"  # the only key of an alias that is not a field
PORT_HINT = "a port is a number from 1 to 65535"

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")  # of families and aliases


@dataclass(frozen=True, slots=True)
class Leaf:
    """One value: a text with its variables, a number, a boolean or null. `plain`: the scalar as the file spells it."""

    value: Text | int | float | bool | None
    plain: str
    scalar: Scalar

    def place_of(self, at: int, width: int) -> Place:
        return self.scalar.locate(at, width)


Value = Leaf | Mapping[str, "Value"] | tuple["Value", ...]


@dataclass(frozen=True, slots=True)
class WrittenConnection:
    """One alias of one family, as the file has it."""

    family: str
    alias: str
    default: bool
    fields: Mapping[str, Value]
    place: Place

    @property
    def reference(self) -> str:
        return f"@{self.family}.{self.alias}"

    def leaves(self) -> Iterator[tuple[str, Leaf]]:
        """Every value by its path: `host`, `ssl.ca`, `hosts[0]`."""
        yield from _leaves(self.fields, "")


@dataclass(frozen=True, slots=True)
class Connections:
    """The whole file, its problems, and whether it exists."""

    families: Mapping[str, Mapping[str, WrittenConnection]] = field(default_factory=dict)
    problems: tuple[Diagnostic, ...] = ()
    exists: bool = True

    def __iter__(self) -> Iterator[WrittenConnection]:
        for aliases in self.families.values():
            yield from aliases.values()


def load_connections(project: Path) -> Connections:
    """The connections of a project; none if it has no such file."""
    path = project / FILE_NAME
    try:
        text = read_source(path)
    except FileNotFoundError:
        return Connections(exists=False)
    except UnicodeDecodeError:
        hint = "save the file as UTF-8"
        return Connections(problems=(Diagnostic("YAML_SYNTAX", "it is not UTF-8 text", file=FILE_NAME, hint=hint),))
    except OSError as problem:
        message = f"`{FILE_NAME}` cannot be read: {problem.strerror}"
        return Connections(problems=(Diagnostic("FILE_MISSING", message, file=FILE_NAME),))
    return parse_connections(text)


def parse_connections(text: str) -> Connections:
    problems = Problems()
    root = read_yaml(text, FILE_NAME, problems)
    families = _Reader(problems).families(root) if root is not None else {}
    return Connections(families, tuple(map(without_line, problems)))


def without_line(diagnostic: Diagnostic) -> Diagnostic:
    """The diagnostic without any text of the file, which may be a password."""
    hint = "check quotes, colons and indentation there" if diagnostic.code == "YAML_SYNTAX" else diagnostic.hint
    return replace(diagnostic, source_line=None, hint=hint)


def _leaves(value: Value, path: str) -> Iterator[tuple[str, Leaf]]:
    if isinstance(value, Leaf):
        yield path, value
    elif isinstance(value, tuple):
        for index, member in enumerate(value):
            yield from _leaves(member, f"{path}[{index}]")
    else:
        for key, member in value.items():
            yield from _leaves(member, f"{path}.{key}" if path else key)


class _Reader:
    def __init__(self, problems: Problems) -> None:
        self.problems = problems
        self.fields = Fields(problems)

    def families(self, root: Node) -> dict[str, dict[str, WrittenConnection]]:
        hint = "write `connections:` and, below it, a family such as `mysql:`"
        if isinstance(root, Scalar) and root.value is None:
            return {}  # an empty file has no connections
        top = self.fields.as_map(root, f"`{FILE_NAME}`", hint)
        if top is None:
            return {}
        entries = self.fields.known_keys(top, ["connections"], f"`{FILE_NAME}`")
        if "connections" not in entries:
            self.problems.add(top.place, "MISSING_KEY", f"`{FILE_NAME}` has no `connections:`", hint)
            return {}
        node = entries["connections"]
        if isinstance(node, Scalar) and node.value is None:
            return {}
        entries_by_family = self.fields.as_map(node, "`connections:`", hint)
        families = {}
        for key, value in entries_by_family.entries if entries_by_family is not None else ():
            if self.name(key, "a family"):
                families[key.value] = self.aliases(key.value, value)
        return families

    def aliases(self, family: str, node: Node) -> dict[str, WrittenConnection]:
        hint = "write the name of a connection below it, such as `primary:`, and its fields below that"
        entries = self.fields.as_map(node, f"the family `{family}`", hint)
        aliases: dict[str, WrittenConnection] = {}
        for key, value in entries.entries if entries is not None else ():
            if not self.name(key, "a connection"):
                continue
            connection = self.connection(family, key, value)
            if connection is None:
                continue
            earlier = next((other for other in aliases.values() if other.default and connection.default), None)
            if earlier is not None:
                message = f"`{earlier.reference}` in line {earlier.place.line} is already the default of its family"
                self.problems.add(key.place, "CONNECTION_INVALID", message, "keep `default: true` in one of them")
            aliases[key.value] = connection
        return aliases

    def connection(self, family: str, key: Scalar, node: Node) -> WrittenConnection | None:
        what = f"the connection `@{family}.{key.value}`"
        entries = self.fields.as_map(node, what, "write its fields: `host:`, `user:`, `password:` …")
        if entries is None:
            return None
        default = False
        values: dict[str, Value] = {}
        for name, value in entries.entries:
            if name.value == DEFAULT:
                default = self.fields.boolean(value, "`default:`") or False
            elif self.field_name(name):
                values[name.value] = self.value(value)
                if name.value == "port":
                    self.check_port(value)
        return WrittenConnection(family, key.value, default, values, key.place)

    def value(self, node: Node) -> Value:
        if isinstance(node, MapNode):
            return {key.value: self.value(value) for key, value in node.entries if self.field_name(key)}
        if isinstance(node, ListNode):
            return tuple(map(self.value, node.items))
        assert isinstance(node, Scalar)
        if not isinstance(node.value, str):
            return Leaf(node.value, node.text, node)
        try:
            return Leaf(parse_text(node.value), node.text, node)
        except TextProblem as wrong:
            place = node.locate(wrong.at, wrong.width)
            self.problems.add(place, "CONNECTION_INVALID", str(wrong), wrong.hint)
            return Leaf(None, "", node)

    def check_port(self, node: Node) -> None:
        value = node.value if isinstance(node, Scalar) else None
        if isinstance(value, str) and "$" in value:
            return  # checked when the variable has a value
        if as_port(value) is None:
            self.problems.add(node.place, "CONNECTION_INVALID", f"`port:` is {kind_of(node)}", PORT_HINT)

    def name(self, key: Scalar, what: str) -> bool:
        if _NAME.fullmatch(key.value):
            return True
        hint = "use letters, digits, `_` and `-`, beginning with a letter"
        self.problems.add(key.place, "NAME_INVALID", f"`{key.value}` cannot be the name of {what}", hint)
        return False

    def field_name(self, key: Scalar) -> bool:
        if NAME.fullmatch(key.value):
            return True
        hint = "use letters, digits and `_`, not beginning with a digit"
        self.problems.add(key.place, "NAME_INVALID", f"`{key.value}` cannot be the name of a field", hint)
        return False


def as_port(value: object) -> int | None:
    """A port number, from a number or a text of digits; None if it is neither."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value) if len(value) <= 5 else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 65536 else None


# --- resolving a reference --------------------------------------------------------------------------------------------


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
