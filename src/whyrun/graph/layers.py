"""Cycles and topological layers (longest path). Pure.

Jobs that form no cycle are handled as a whole. Jobs in a cycle are handled instance by instance: if `Clip[segment]`
consumes `Clip[segment-1]`, the jobs form a cycle, but the instances do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from whyrun.errors import InvalidError
from whyrun.graph.tables import (
    AlignedArtifact,
    ArtifactAt,
    Column,
    Computed,
    EachTerm,
    Graph,
    Group,
    InputAt,
    JobTable,
    Known,
    Operand,
    SameTerm,
    Term,
    sources_of,
    tables_read,
)


def check_cycles(graph: Graph) -> None:
    """Raise `CYCLE` with the instances of one cycle, if there is one."""
    for component in _components(graph):
        if _circular(graph, component):
            _walk_instances(graph, component, layers=None)


def compute_layers(graph: Graph) -> list[int]:
    """The layer of every node: 0 where nothing is upstream, else one more than the highest upstream."""
    layers = [0] * graph.size
    for component in _components(graph):
        if _circular(graph, component):
            _walk_instances(graph, component, layers)
        else:
            table = graph.tables[component[0]]
            found = _table_layers(graph, table, layers)
            layers[table.base : table.base + len(table)] = [found] * len(table) if isinstance(found, int) else found
    return layers


def _reads(table: JobTable) -> set[int]:
    found = set(table.needs)
    for _, column in table.operand_columns():
        found |= tables_read(column)
    return found


def _circular(graph: Graph, component: Sequence[int]) -> bool:
    return len(component) > 1 or component[0] in _reads(graph.tables[component[0]])


def _components(graph: Graph) -> list[list[int]]:
    """Strongly connected components of the jobs, sources first (Tarjan; jobs are few, but recursion is not safe)."""
    reads = [sorted(_reads(table)) for table in graph.tables]
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    on_stack: set[int] = set()
    stack: list[int] = []
    found: list[list[int]] = []
    for root in range(len(reads)):
        if root in index:
            continue
        work: list[tuple[int, Iterator[int]]] = [(root, iter(reads[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            here, upstream = work[-1]
            for other in upstream:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(reads[other])))
                    break
                if other in on_stack:
                    low[here] = min(low[here], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[here])
                if low[here] == index[here]:
                    component = []
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        component.append(member)
                        if member == here:
                            break
                    found.append(sorted(component))
    return found


# The layers of a table's rows: mostly one for all rows, else one for each.
_Layers = int | list[int]


def _table_layers(graph: Graph, table: JobTable, layers: list[int]) -> _Layers:
    floor = 0
    several: list[list[int]] = []
    for number in table.needs:
        needed = graph.tables[number]
        if len(needed):
            floor = max(floor, 1 + max(layers[needed.base : needed.base + len(needed)]))
    for _, column in table.operand_columns():
        found = _column_layers(graph, column, len(table), layers)
        if isinstance(found, int):
            floor = max(floor, found)
        else:
            several.append(found)
    return [max(floor, *row) for row in zip(*several, strict=True)] if several else floor


def _column_layers(graph: Graph, column: Column, rows: int, layers: list[int]) -> _Layers:
    if isinstance(column, AlignedArtifact):
        base = graph.tables[column.table].base
        found = layers[base : base + rows]
        if rows and found.count(found[0]) == rows:
            return found[0] + 1
        return [layer + 1 for layer in found]
    if isinstance(column, EachTerm) and column.kinds <= {InputAt, Known}:
        return 0
    groups: dict[int, int] = {}

    def layer_of(term: Term | Operand) -> int:
        if isinstance(term, ArtifactAt):
            return layers[graph.node(term)] + 1
        if isinstance(term, Computed):
            return max(map(layer_of, term.operands), default=0)
        if isinstance(term, Group) and id(term) in groups:
            return groups[id(term)]
        layer = max((layers[graph.node(s)] + 1 for s in sources_of(term) if isinstance(s, ArtifactAt)), default=0)
        if isinstance(term, Group):
            groups[id(term)] = layer
        return layer

    if isinstance(column, SameTerm):
        return layer_of(column.term) if rows else 0
    return [layer_of(term) for term in column.terms]


def _walk_instances(graph: Graph, component: Sequence[int], layers: list[int] | None) -> None:
    """Depth-first search over the instances of jobs that form a cycle; fills in `layers` if given.

    Sources outside the component have their layers already. `needs` between the jobs of a component is an edge to
    every instance; it goes through one extra node per job, -1 - table.
    """
    inside = set(component)
    done: dict[int, int] = {}
    open_: dict[int, None] = {}  # insertion-ordered: the path from the root

    def upstream(node: int) -> Iterator[int]:
        if node < 0:
            table = graph.tables[-1 - node]
            yield from range(table.base, table.base + len(table))
            return
        table, _ = graph.table_at(node)
        yield from graph.upstream(node)
        for number in table.needs:
            yield -1 - number

    def is_inside(node: int) -> bool:
        return (-1 - node if node < 0 else graph.table_at(node)[0].number) in inside

    def outside_layer(node: int) -> int:
        if layers is None:
            return 0
        if node >= 0:
            return layers[node]
        table = graph.tables[-1 - node]
        return max(layers[table.base : table.base + len(table)], default=-1)

    for number in component:
        table = graph.tables[number]
        for root in range(table.base, table.base + len(table)):
            if root in done:
                continue
            work: list[_Frame] = [_Frame(root, upstream(root))]
            open_[root] = None
            while work:
                frame = work[-1]
                other = frame.waiting_for if frame.waiting_for is not None else next(frame.rest, None)
                frame.waiting_for = None
                if other is None:
                    # The extra node of `needs` adds no layer: it has the highest layer of its members.
                    done[frame.node] = frame.layer - 1 if frame.node < 0 else frame.layer
                    if layers is not None and frame.node >= 0:
                        layers[frame.node] = frame.layer
                    del open_[frame.node]
                    work.pop()
                elif not is_inside(other):
                    frame.layer = max(frame.layer, outside_layer(other) + 1)
                elif other in done:
                    frame.layer = max(frame.layer, done[other] + 1)
                elif other in open_:
                    raise _cycle(graph, [*open_], other)
                else:
                    frame.waiting_for = other
                    work.append(_Frame(other, upstream(other)))
                    open_[other] = None


class _Frame(msgspec.Struct):
    """A node whose upstream is being visited; `waiting_for` is visited again once it is done."""

    node: int
    rest: Iterator[int]
    layer: int = 0
    waiting_for: int | None = None


def _cycle(graph: Graph, path: Sequence[int], back_to: int) -> InvalidError:
    circle = [n for n in path[path.index(back_to) :] if n >= 0]
    ids = [graph.job_id(n) for n in circle]
    shown = ids if len(ids) <= 8 else [*ids[:7], f"… ({len(ids)} in all)"]
    table, _ = graph.table_at(circle[0])
    message = "these depend on each other in a cycle: " + " ← ".join([*shown, ids[0]])
    hint = "break it: no instance can wait for itself; `[loop-1]` takes the one before"
    return InvalidError([table.decl.place.diagnostic("CYCLE", message, hint)])
