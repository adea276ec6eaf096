"""The secrets of a run, and its connections ready to use: taken from the environment on the host, before anything runs.

They are values in memory. A step gets those that it refers to, beside its cfg, which names them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from whyrun.connections.marks import MARK, fields_of, marks_in
from whyrun.errors import Diagnostic, InvalidError
from whyrun.graph.graph import Graph, JobTable
from whyrun.planning.plan import Plan
from whyrun.snapshot.connected import connections_of
from whyrun.snapshot.known_inputs import has_secret
from whyrun.snapshot.snapshot import PlanningSnapshot

if TYPE_CHECKING:
    from whyrun.connections.resolve import Ready
    from whyrun.snapshot.world import World

Key = tuple[str, tuple[str, ...]]  # a connection, and which of its fields the action types as secret


@dataclass(frozen=True, slots=True)
class RunSecrets:
    values: Mapping[str, str] = field(default_factory=dict)  # by name, those of connections too
    connections: Mapping[Key, Ready] = field(default_factory=dict)

    def of_step(self, names: Iterable[str]) -> dict[str, str]:
        return {name: self.values[name] for name in names}

    def named_in(self, value: Any) -> Iterator[str]:
        """The secrets of the connections in a planned value."""
        for mark in marks_in(value):
            yield from self.connections[_key(mark)].secrets

    def ready(self, value: Any) -> Any:
        """A planned value with its connections ready to use, secrets as references."""
        if isinstance(value, dict):
            if MARK in value:
                return self.connections[_key(value)].value
            return {key: self.ready(member) for key, member in value.items()}
        return [self.ready(member) for member in value] if isinstance(value, list) else value


NO_SECRETS = RunSecrets()


def needed_secrets(world: World, snapshot: PlanningSnapshot, nodes: Sequence[int]) -> RunSecrets:
    """All that these jobs name; it must be there before anything runs."""
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
            if all(problem.message != known.message for known in problems):  # many jobs may name it
                problems[problem] = None
    connections = _ready_connections(world, graph, nodes)
    for found in connections.values():
        values |= found.secrets
        problems.update(dict.fromkeys(found.problems))
    if problems:
        raise InvalidError(problems)
    return RunSecrets(values, connections)


def missing_secrets(world: World, snapshot: PlanningSnapshot, plan: Plan) -> list[str]:
    """The variables that a run would need and the environment does not have."""
    graph, nodes = snapshot.dependency_graph, [job.node for job in plan.planned if job.reuse is None]
    names = {name for table in _tables(graph, nodes) for name in table.decl.secrets if name not in os.environ}
    return sorted(names.union(*(found.missing for found in _ready_connections(world, graph, nodes).values())))


def _tables(graph: Graph, nodes: Sequence[int]) -> list[JobTable]:
    return list(dict.fromkeys(graph.table_at(node)[0] for node in nodes))


def _ready_connections(world: World, graph: Graph, nodes: Sequence[int]) -> dict[Key, Ready]:
    if not graph.connected:
        return {}
    from whyrun.connections.resolve import find_written, ready

    found: dict[Key, Ready] = {}
    for node in nodes:
        table, position = graph.table_at(node)
        for mark in connections_of(table, position) if table.name in graph.connected else ():
            key = _key(mark)
            if key not in found:
                found[key] = ready(find_written(world.connections, key[0]), key[1], os.environ)
    return found


def _key(mark: Mapping[str, Any]) -> Key:
    return mark[MARK], tuple(name for name, value in fields_of(mark).items() if has_secret(value))
