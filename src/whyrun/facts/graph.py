"""The jobs of a workflow and what they read from each other, as JSON: `whyrun graph` prints it, the viewer shows it.

One node stands for all instances of a job, or (`instance_facts`) for one of them, with the exact edges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from whyrun.ids import own_name, place_of_texts, split_folder

if TYPE_CHECKING:
    from whyrun.graph.tables import Graph, JobTable
    from whyrun.planning.plan import Plan

Facts = dict[str, Any]
MOST_EDGES = 500_000  # between instances: a fan-in of 1,000 into 1,000 has twice as many


def graph_facts(graph: Graph, plan: Plan) -> Facts:
    """Nodes and edges in the order of the graph; groups are imports, one for each level."""
    from whyrun.graph.layers import compute_layers

    layers, states = compute_layers(graph), _states(graph, plan)
    return {
        "nodes": [_node(table, layers, states[table.number]) for table in graph.tables],
        "edges": [edge for table in graph.tables for edge in _edges(graph, table)],
        "groups": [{"import": name, "jobs": [table.name for table in tables]} for name, tables in _imported(graph)],
        "inputs": list(_inputs(graph)),
    }


def _imported(graph: Graph) -> list[tuple[str, list[JobTable]]]:
    """The jobs of each import."""
    groups: dict[str, list[JobTable]] = {}
    for table in graph.tables:
        if "/" in table.name:
            groups.setdefault(table.name.rpartition("/")[0], []).append(table)
    return sorted(groups.items(), key=lambda group: group[0])


def instance_pattern(table: JobTable) -> str:
    """The pattern that stands for every instance: `Job:Clip[*]`; the ID itself of a job without a loop."""
    return "Job:" + "".join(place_of_texts(table.name, table.levels, ["*"] * len(table.decl.loops)))


def _states(graph: Graph, plan: Plan) -> list[Counter[str]]:
    """By job: how many of its instances are in each state."""
    from whyrun.planning.answers.listing import status_of

    found = [Counter[str]() for _ in graph.tables]
    for job in plan.jobs:
        found[graph.table_at(job.node)[0].number][status_of(job)] += 1
    for table in graph.tables:
        clean = len(table) - found[table.number].total()
        if clean:
            found[table.number]["clean"] = clean
    return found


def _node(table: JobTable, layers: list[int], states: Counter[str]) -> Facts:
    own = layers[table.base : table.base + len(table)]
    folder, _, name = table.name.rpartition("/")
    return {
        "job": table.name,
        "name": name,
        "import": folder,
        "pattern": instance_pattern(table),
        "action": table.decl.uses,
        "loops": list(map(own_name, table.decl.loops)),
        "count": len(table),
        "layers": [min(own), max(own)] if own else None,
        "condition": table.condition.expression.text if table.condition is not None else None,
        "states": dict(sorted(states.items())),
        "outputs": [{"name": output.name, "type": output.type} for output in table.outputs],
    }


def _edges(graph: Graph, table: JobTable) -> Iterator[Facts]:
    """What this job reads from others: `data` through `with:` and `env:`, `condition` through `if:`, and `needs`."""
    from whyrun.graph.tables import tables_read

    found: dict[tuple[int, str], list[str]] = {}
    for slot, column in table.operand_columns():
        for number in sorted(tables_read(column)):
            slots = found.setdefault((number, "condition" if slot is None else "data"), [])
            if slot is not None:
                slots.append(slot.name.removeprefix("."))
    for number in table.needs:
        found[number, "needs"] = []
    for (number, kind), slots in found.items():
        yield {"from": graph.tables[number].name, "to": table.name, "kind": kind, "slots": slots}


def _inputs(graph: Graph) -> Iterator[Facts]:
    """The inputs of the workflow and of its imports, each with the jobs that name it."""
    from whyrun.planning.answers.whatif import naming_jobs

    for id_, value in graph.inputs.items():
        body: Facts = {"id": id_, "type": str(value.type)}
        if value.elements is not None:
            body["elements"] = len(value.elements)
        yield {**body, "read_by": [table.name for table, _ in naming_jobs(graph, id_)]}


# --- by instance -----------------------------------------------------------------------------------------------------


def instance_facts(graph: Graph, plan: Plan) -> Facts:
    """The same with one node an instance, named like its ID without `Job:`. USAGE if there are too many edges."""
    from whyrun.errors import error
    from whyrun.graph.layers import compute_layers
    from whyrun.planning.answers.listing import status_of

    layers, found = compute_layers(graph), {job.node: status_of(job) for job in plan.jobs}
    edges = list(islice((edge for table in graph.tables for edge in _exact_edges(graph, table)), MOST_EDGES + 1))
    if len(edges) > MOST_EDGES:
        raise error("USAGE", f"the instances have more than {MOST_EDGES:,} edges", hint="draw the jobs: `--by job`")
    readers: dict[str, tuple[str, list[str]]] = {}
    for table in graph.tables:
        for position in range(len(table)):
            for id_, type_ in dict.fromkeys(_inputs_read(table, position)):
                readers.setdefault(id_, (type_, []))[1].append(table.path(position))
    groups: dict[str, list[str]] = {}
    for table in graph.tables:
        for position in range(len(table) if "/" in table.name else 0):
            path = table.path(position)
            groups.setdefault(split_folder(path)[0].removesuffix("/"), []).append(path)
    return {
        "nodes": [
            _instance(table, position, layers[table.base + position], found.get(table.base + position, "clean"))
            for table in graph.tables
            for position in range(len(table))
        ],
        "edges": edges,
        "groups": [{"import": name, "jobs": groups[name]} for name in sorted(groups)],
        "inputs": [{"id": id_, "type": type_, "read_by": names} for id_, (type_, names) in readers.items()],
    }


def _instance(table: JobTable, position: int, layer: int, state: str) -> Facts:
    folder, name = split_folder(table.path(position))
    return {
        "job": table.path(position),
        "name": name,
        "import": folder.removesuffix("/"),
        "pattern": table.job_id(position),
        "action": table.decl.uses,
        "loops": [],
        "count": 1,
        "layers": [layer, layer],
        "condition": table.condition.expression.text if table.condition is not None else None,
        "states": {state: 1},
        "outputs": [{"name": output.name, "type": output.type} for output in table.outputs],
    }


def _exact_edges(graph: Graph, table: JobTable) -> Iterator[Facts]:
    from whyrun.graph.tables import ArtifactAt, sources_of

    for position in range(len(table)):
        found: dict[tuple[int, str], dict[str, None]] = {}
        for slot, column in table.operand_columns():
            for source in sources_of(column.at(position)):
                if isinstance(source, ArtifactAt):
                    slots = found.setdefault((graph.node(source), "condition" if slot is None else "data"), {})
                    if slot is not None:
                        slots[slot.name.removeprefix(".")] = None
        for number in table.needs:
            needed = graph.tables[number]
            found.update(((needed.base + row, "needs"), {}) for row in range(len(needed)))
        for (node, kind), slots in found.items():
            name = graph.job_id(node).removeprefix("Job:")
            yield {"from": name, "to": table.path(position), "kind": kind, "slots": list(slots)}


def _inputs_read(table: JobTable, position: int) -> Iterator[tuple[str, str]]:
    """The inputs, or elements of inputs, that an instance reads, with their types."""
    from whyrun.graph.tables import InputAt, sources_of

    for _, column in table.operand_columns():
        for source in sources_of(column.at(position)):
            if isinstance(source, InputAt):
                yield source.id, str(source.value.type)
