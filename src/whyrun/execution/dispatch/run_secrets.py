"""The secrets and connections of a run, resolved from the host's environment before any step starts.

Their values are only in memory. A step's cfg names its secrets; their values are sent beside it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from whyrun.connections.planned_value import MARK, connections_in, fields_of
from whyrun.errors import Diagnostic, InvalidError
from whyrun.graph.tables import Graph, JobTable
from whyrun.planning.plan import Plan
from whyrun.snapshot.actions.connections import connections_of
from whyrun.snapshot.actions.known_inputs import has_secret
from whyrun.snapshot.snapshot import PlanningSnapshot

if TYPE_CHECKING:
    from whyrun.connections.resolve import Ready
    from whyrun.project import Project

Key = tuple[str, tuple[str, ...]]  # a connection, and those of its fields that the action declares as secret


@dataclass(frozen=True, slots=True)
class RunSecrets:
    values: Mapping[str, str] = field(default_factory=dict)  # by name, with those of connections
    connections: Mapping[Key, Ready] = field(default_factory=dict)

    def of_step(self, names: Iterable[str]) -> dict[str, str]:
        return {name: self.values[name] for name in names}

    def named_in(self, value: Any) -> Iterator[str]:
        """The names of the secrets in the connections of a planned value."""
        for mark in connections_in(value):
            yield from self.connections[_key(mark)].secrets

    def ready(self, value: Any) -> Any:
        """A planned value with its connections resolved; secrets stay references."""
        if isinstance(value, dict):
            if MARK in value:
                return self.connections[_key(value)].value
            return {key: self.ready(member) for key, member in value.items()}
        return [self.ready(member) for member in value] if isinstance(value, list) else value


def needed_secrets(project: Project, snapshot: PlanningSnapshot, nodes: Sequence[int]) -> RunSecrets:
    """The secrets and connections that these jobs name. Missing ones are reported together, before any step starts."""
    graph = snapshot.dependency_graph
    values: dict[str, str] = {}
    problems: dict[Diagnostic, None] = {}
    for table in _tables(graph, nodes):
        for name in table.decl.secrets:
            value = os.environ.get(name)
            if value is not None:
                values[name] = value
                continue
            place = table.decl.places.get("secrets", table.decl.place)
            hint = f"`export {name}=…` before `whyrun run`; `whyrun plan` does not need it"
            problem = place.diagnostic("SECRET_MISSING", f"the secret `{name}` is not in the environment", hint)
            if all(
                problem.message != known.message for known in problems
            ):  # report it once, although many jobs may name it
                problems[problem] = None
    connections = _ready_connections(project, graph, nodes)
    for connection in connections.values():
        values |= connection.secrets
        problems.update(dict.fromkeys(connection.problems))
    if problems:
        raise InvalidError(problems)
    return RunSecrets(values, connections)


def missing_secrets(project: Project, snapshot: PlanningSnapshot, plan: Plan) -> list[str]:
    """The environment variables that a run would need and that are not set."""
    graph, nodes = snapshot.dependency_graph, [job.node for job in plan.planned if job.reuse is None]
    names = {name for table in _tables(graph, nodes) for name in table.decl.secrets if name not in os.environ}
    return sorted(
        names.union(*(connection.missing for connection in _ready_connections(project, graph, nodes).values()))
    )


def _tables(graph: Graph, nodes: Sequence[int]) -> list[JobTable]:
    return list(dict.fromkeys(graph.table_at(node)[0] for node in nodes))


def _ready_connections(project: Project, graph: Graph, nodes: Sequence[int]) -> dict[Key, Ready]:
    if not graph.connected:
        return {}
    from whyrun.connections.resolve import find_written, ready

    connections: dict[Key, Ready] = {}
    for node in nodes:
        table, position = graph.table_at(node)
        for mark in connections_of(table, position) if table.name in graph.connected else ():
            key = _key(mark)
            if key not in connections:
                connections[key] = ready(find_written(project.connections, key[0]), key[1], os.environ)
    return connections


def _key(mark: Mapping[str, Any]) -> Key:
    return mark[MARK], tuple(name for name, value in fields_of(mark).items() if has_secret(value))


def known_secrets(project: Project, graph: Graph) -> dict[str, str]:
    """The values of all secrets of a workflow that the environment has now. Missing ones are left out."""
    names = {name for table in graph.tables for name in table.decl.secrets if name in os.environ}
    values = {name: os.environ[name] for name in names}
    for connection in _ready_connections(project, graph, range(graph.size)).values():
        values |= connection.secrets
    return values
