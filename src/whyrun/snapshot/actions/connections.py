"""Connections in `with:` blocks: finds them in the graph, and replaces them by their entry in `connections.yaml`.

If an action has typed parameters, those of type `Connection` take one. For other actions (functions, `python`, `shell`)
an entry named `connection`, or with a name that ends in `_connection`, takes one if its value begins with `@`.

The graph holds the entry as written, with its secrets by name, so plans are the same on every machine. The snapshot
records it, and a replay uses the record.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from whyrun.actions.base import CONNECTION_REFERENCE, ConnectionSlot
from whyrun.actions.problem import Problem
from whyrun.artifacts.hashing import canonical_json, value_sha256
from whyrun.connections.planned_value import connections_in, without_names
from whyrun.errors import Diagnostic
from whyrun.graph.tables import Column, Computed, EachTerm, Graph, InputAt, JobTable, Known, SameTerm, Slot, Term
from whyrun.workflow.model import Formatted, JobDecl, Template
from whyrun.workflow.nodes import below

if TYPE_CHECKING:
    from whyrun.actions.description import ActionInfo
    from whyrun.connections.resolve import Connections

Path = tuple[str | int, ...]
Recorded = Mapping[str, Mapping[str, Any]]  # job → slot → {"same": value} or {"values": […], "rows": [which of them]}

_UNTYPED = ConnectionSlot(())
_NO_VALUE = object()  # of a slot that is bound to an artifact, or computed from one


def connect(
    graph: Graph, infos: Mapping[str, ActionInfo], load: Callable[[], Connections]
) -> tuple[Graph, list[Diagnostic]]:
    """The graph with its connections, and what is wrong with them. `load` is asked only where there is any."""
    problems: dict[Diagnostic, None] = {}
    found: dict[str, dict[str, Any]] = {}
    for table in graph.tables:
        info = infos.get(table.name)
        if info is None or not _may_have_any(table.decl, info) or not len(table):
            continue
        for slot in table.slots:
            if slot.area != "with":
                continue
            connecting = _Connecting(table.decl, info, slot, load)
            column = connecting.column()
            problems.update(connecting.problems)
            if column is not None:
                found.setdefault(table.name, {})[slot.name] = column
    return with_connections(graph, found), list(problems)


def with_connections(graph: Graph, found: Recorded) -> Graph:
    """The graph with these connections.

    A slot that holds a connection is a parameter, even if an input names the connection.
    """
    if not found:
        return graph  # the usual case: keeps what the graph and its tables have cached
    tables = tuple(_with_slots(table, found[table.name]) if table.name in found else table for table in graph.tables)
    return replace(graph, tables=tables, connected=found)


def _with_slots(table: JobTable, found: Mapping[str, Any]) -> JobTable:
    slots = tuple(
        replace(slot, binding=False, column=_column(found[slot.name])) if slot.name in found else slot
        for slot in table.slots
    )
    return replace(table, slots=slots)


def connections_of(table: JobTable, position: int) -> Iterator[dict[str, Any]]:
    """The connections that an instance uses, as they are in the plan."""
    for slot in table.slots:
        term = slot.column.at(position)
        if slot.area == "with" and isinstance(term, Known):
            yield from connections_in(term.value)


def _column(recorded: Mapping[str, Any]) -> Column:
    if "same" in recorded:
        return SameTerm(_known(recorded["same"]))
    terms = list(map(_known, recorded["values"]))
    return EachTerm([terms[number] for number in recorded["rows"]])


def _known(value: Any) -> Known:
    return Known(value, value_sha256(without_names(value)))


def _may_have_any(decl: JobDecl, info: ActionInfo) -> bool:
    return bool(info.connections) if info.typed else any(map(_names_any, decl.with_.items()))


def _names_any(entry: tuple[str, Template]) -> bool:
    name, value = entry
    if _is_name(name):
        return True
    if isinstance(value, list):
        return any(_names_any(("", member)) for member in value)
    return isinstance(value, dict) and any(map(_names_any, value.items()))


def _is_name(name: str) -> bool:
    return name == "connection" or name.endswith("_connection")


class _Connecting:
    """One slot of a job: its values with connections filled in, and their problems."""

    def __init__(self, decl: JobDecl, info: ActionInfo, slot: Slot, load: Callable[[], Connections]) -> None:
        self.decl, self.info, self.slot, self.load = decl, info, slot, load
        self.problems: dict[Diagnostic, None] = {}

    def column(self) -> dict[str, Any] | None:
        """The new column of the slot; None if it holds no connection."""
        column = self.slot.column
        if isinstance(column, SameTerm):
            found = [self.term(column.term)]
        elif isinstance(column, EachTerm):
            found = list(map(self.term, column.terms))
        else:
            return None
        if any(value is _NO_VALUE for value in found) or not any(True for _ in connections_in(found)):
            return None
        if isinstance(column, SameTerm):
            return {"same": found[0]}
        numbers: dict[bytes, int] = {}  # many rows share few connections
        rows = [numbers.setdefault(canonical_json(value), len(numbers)) for value in found]
        return {"values": [json.loads(text) for text in numbers], "rows": rows}

    def term(self, term: Term) -> Any:
        if isinstance(term, Known):
            return self.filled_in(term.value, self.slot.path)
        if isinstance(term, InputAt) and not term.value.type.is_path:
            value = term.value.value
            # Without types, only names in the workflow file tell what is a connection, not names in data.
            return self.filled_in(value, self.slot.path) if self.info.typed or isinstance(value, str) else value
        if isinstance(term, Computed):
            self.refuse_computed(term.template, self.slot.path)
        return _NO_VALUE

    def accepted_at(self, path: Path) -> ConnectionSlot | None:
        if self.info.typed:
            return next((slot for slot in self.info.connections if slot.matches(path)), None)
        return _UNTYPED if isinstance(path[-1], str) and _is_name(path[-1]) else None

    def filled_in(self, value: Any, path: Path) -> Any:
        if isinstance(value, dict):
            return {key: self.filled_in(member, (*path, key)) for key, member in value.items()}
        if isinstance(value, list):
            return [self.filled_in(member, (*path, index)) for index, member in enumerate(value)]
        accepted = self.accepted_at(path) if isinstance(value, str) and value.startswith("@") else None
        return value if accepted is None else self.connection(value, accepted, path)

    def connection(self, reference: str, accepted: ConnectionSlot, path: Path) -> Any:
        from whyrun.connections.resolve import (
            FILE_NAME,  # few workflows have connections
            Unresolved,
            find,
            planned,
        )

        if self.info.typed and not CONNECTION_REFERENCE.fullmatch(reference):
            return reference  # reported with its type
        connections = self.load()
        if connections.problems:
            self.problems.update(dict.fromkeys(connections.problems))  # and what it lacks is not known for sure
            return reference
        found = find(connections, reference)
        if isinstance(found, Unresolved):
            self.report(path, found.message, found.hint, found.code)
            return reference
        if accepted.families and found.family not in accepted.families:
            wanted = " or ".join(f"`{family}`" for family in accepted.families)
            message = f"the action `{self.info.name}` takes a connection of the family {wanted}, not `{reference}`"
            fitting = [f"`{one.reference}`" for one in connections if one.family in accepted.families]
            hint = f"write {' or '.join(fitting)}" if fitting else f"add one to `{FILE_NAME}`"
            self.report(path, message, hint, "CONNECTION_INVALID")
            return reference
        missing = [name for name in accepted.required_fields if name not in found.fields]
        if missing:
            names = ", ".join(f"`{name}`" for name in missing)
            message = f"the action `{self.info.name}` needs {names} of `{found.reference}`"
            self.report(path, message, f"add it to the connection, {found.place.source}:{found.place.line}")
        if self.info.name == "shell" and len(path) == 1:
            taken = [name for name in found.fields if f"{path[0]}_{name}" in self.decl.with_]
            for name in taken:
                message = f"`{path[0]}_{name}` is taken: it is the field `{name}` of `{found.reference}`"
                self.report((f"{path[0]}_{name}",), message, "choose another name")
        return planned(found, accepted.secret_fields)

    def refuse_computed(self, template: Template, path: Path) -> None:
        """The connection must be known before anything runs."""
        members: Iterator[tuple[str | int, Template]] = iter(())
        if isinstance(template, dict):
            members = iter(template.items())
        elif isinstance(template, list):
            members = iter(enumerate(template))
        for key, member in members:
            self.refuse_computed(member, (*path, key))
        begins = template.parts[0] if isinstance(template, Formatted) else template
        if isinstance(begins, str) and begins.startswith("@") and self.accepted_at(path) is not None:
            message = "the connection is in a value that is known only after other jobs have run"
            self.report(path, message, "write `@family.alias`, or let an input say it, in an entry of its own")

    def report(self, path: Path, message: str, hint: str | None, code: str = "INVALID_PARAMETER") -> None:
        inner = ""
        for key in path[1:]:
            inner = below(inner, key)
        problem = Problem(str(path[0]), message, hint, code, inner=inner)
        self.problems[problem.diagnostic(self.decl)] = None
