"""The jobs of a workflow and what they read from each other, as JSON: `whyrun graph` prints it, the viewer shows it.

One node stands for all instances of a job. The exact edges of single instances are those of `lineage`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whyrun.graph.tables import Graph, JobTable
    from whyrun.planning.plan import Plan

Facts = dict[str, Any]


def graph_facts(graph: Graph, plan: Plan) -> Facts:
    """Nodes and edges in the order of the graph; groups are imports, one for each level."""
    from whyrun.graph.layers import compute_layers

    layers, states = compute_layers(graph), _states(graph, plan)
    groups: dict[str, list[str]] = {}
    for table in graph.tables:
        if "/" in table.name:
            groups.setdefault(table.name.rpartition("/")[0], []).append(table.name)
    return {
        "nodes": [_node(table, layers, states[table.number]) for table in graph.tables],
        "edges": [edge for table in graph.tables for edge in _edges(graph, table)],
        "groups": [{"import": name, "jobs": jobs} for name, jobs in sorted(groups.items())],
        "inputs": list(_inputs(graph)),
    }


def instance_pattern(table: JobTable) -> str:
    """The pattern that stands for every instance: `Job:Clip[*]`; the ID itself of a job without a loop."""
    return f"Job:{table.name}" + "[*]" * len(table.decl.loops)


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
        "loops": list(table.decl.loops),
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
