"""Which planned step may start next. Pure: facts in, nodes out; no clock, no process, no file.

A step waits at gates: one for each planned instance that it reads, one for each fan-in (shared by all who read that
fan-in, so that N × M stays N + M), one for each job that it `needs`. A gate opens when everything behind it has ended,
in whatever way; what that end means for the step is for `consume` to say. A step with an undecided `first(…)` may be
ready before all its gates are open, so it is looked at whenever one opens.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from whyrun.graph.graph import AlignedArtifact, ArtifactAt, Computed, FirstOf, Graph, Group, JobTable, Operand, Term
from whyrun.planning.plan import Plan

Wants = tuple[tuple[str, Fraction], ...]  # limited resources, and how much of them


@dataclass(slots=True)
class _Gate:
    unended: int = 0
    waiting: list[int] = field(default_factory=list)


class Scheduler:
    """Tells the order. Ready steps come by layer and node, those of a dataset plan as they are written: the same order
    every time."""

    def __init__(self, graph: Graph, plan: Plan, limits: Mapping[str, float], *, gated: bool = True) -> None:
        """Not `gated`: no step waits for another, since each reads what there is already."""
        self.graph = graph
        self.limits = {name: _exact(limit) for name, limit in limits.items()}
        self.used = dict.fromkeys(limits, Fraction(0))
        self.layer = {job.node: job.layer for job in plan.planned}
        self._order = _written_order(graph) or self.layer
        self.remaining: dict[int, int] = {}  # closed gates
        self.eager: set[int] = set()
        self._gates_of: dict[int, list[_Gate]] = {}  # node → the gates that it stands behind
        self._needs: dict[int, _Gate] = {}  # by table
        self._groups: dict[int, _Gate] = {}  # by id of the group
        self._nodes: dict[int, _Gate] = {}
        # By what a step asks for: steps that ask for the same fit together or not at all, so a thousand that wait for a
        # resource are not looked through for each one that starts.
        self._wants = [
            tuple((name, _exact(amount)) for name, amount in table.decl.resources.items() if name in limits)
            for table in graph.tables
        ]
        self._any_wants = any(self._wants)
        # Nodes in their order, as one number each: tuples take three times as long to compare.
        self._ready: dict[Wants, list[int]] = {}
        self._queued: set[int] = set()
        # Whose steps wait for nobody: each of them would be looked through for nothing.
        self._gateless = {t.number for t in graph.tables if t.number not in graph.readers and not t.needs}
        self._over = bytearray(graph.size)  # by node: started or ended, so gates that open later do not bring it back
        for node in self.layer:
            if gated:
                self._wait(node)
            else:
                self.remaining[node] = 0
        for node, remaining in self.remaining.items():
            if remaining == 0:
                self._push(node)

    # -- building --

    def _wait(self, node: int) -> None:
        table, position = self.graph.table_at(node)
        if table.number in self._gateless:
            self.remaining[node] = 0
            return
        gates: dict[int, _Gate] = {}
        for _, column in table.operand_columns():
            if isinstance(column, AlignedArtifact):
                self._node_gate(self.graph.tables[column.table].base + position, gates)
            else:
                self._term_gates(node, column.at(position), gates)
        for number in table.needs:
            gate = self._needs.get(number)
            if gate is None:
                needed = self.graph.tables[number]
                gate = self._needs[number] = self._gate(range(needed.base, needed.base + len(needed)))
            gates[id(gate)] = gate
        closed = [gate for gate in gates.values() if gate.unended]
        for gate in closed:
            gate.waiting.append(node)
        self.remaining[node] = len(closed)

    def _term_gates(self, node: int, term: Term | Operand, gates: dict[int, _Gate]) -> None:
        if isinstance(term, ArtifactAt):
            self._node_gate(self.graph.node(term), gates)
        elif isinstance(term, Group):
            gate = self._groups.get(id(term))
            if gate is None:
                members = {self.graph.node(m) for m in term.members if isinstance(m, ArtifactAt)}
                gate = self._groups[id(term)] = self._gate(sorted(members))
            gates[id(gate)] = gate
        elif isinstance(term, FirstOf):
            self.eager.add(node)
            for candidate in term.candidates:
                self._term_gates(node, candidate, gates)
        elif isinstance(term, Computed):
            for operand in term.operands:
                self._term_gates(node, operand, gates)

    def _node_gate(self, node: int, gates: dict[int, _Gate]) -> None:
        if node not in self.layer:
            return  # it is not in the plan: what it made is known
        gate = self._nodes.get(node)
        if gate is None:
            gate = self._nodes[node] = self._gate((node,))
        gates[id(gate)] = gate

    def _gate(self, nodes: Sequence[int]) -> _Gate:
        gate = _Gate()
        for node in nodes:
            if node in self.layer:
                gate.unended += 1
                self._gates_of.setdefault(node, []).append(gate)
        return gate

    def _push(self, node: int) -> None:
        if node not in self._queued:
            self._queued.add(node)
            heapq.heappush(self._ready.setdefault(self._wants_of(node), []), self._order[node] * self.graph.size + node)

    def _wants_of(self, node: int) -> Wants:
        return self._wants[self.graph.table_at(node)[0].number] if self._any_wants else ()

    # -- running --

    def take(self) -> int | None:
        """The next step to look at, within the limits of resources; None if there is none now."""
        first: list[int] | None = None
        for wants, ready in self._ready.items():
            if ready and (first is None or ready[0] < first[0]) and self._fits(wants):
                first = ready
        if first is None:
            return None
        found = heapq.heappop(first) % self.graph.size
        self._queued.discard(found)
        return found

    def _fits(self, wants: Wants) -> bool:
        return not wants or all(self.used[name] + amount <= self.limits[name] for name, amount in wants)

    def awaits_needs(self, table: JobTable) -> bool:
        """Is something that the job `needs` still to end? A step with an undecided `first` may be looked at before."""
        return any(number in self._needs and self._needs[number].unended for number in table.needs)

    def occupy(self, node: int) -> None:
        """It was started: its resources are in use until it ends."""
        self._over[node] = True
        for name, amount in self._wants_of(node):
            self.used[name] += amount

    def release(self, node: int) -> None:
        for name, amount in self._wants_of(node):
            self.used[name] -= amount

    def is_awaited(self, node: int) -> bool:
        """Does any step of the plan wait for this one?"""
        return node in self._gates_of

    def again(self, node: int) -> None:
        """Look at it once more: a retry."""
        self._push(node)

    def ended(self, node: int) -> None:
        """A step has ended, in whatever way: open its gates."""
        self._over[node] = True
        for gate in self._gates_of.get(node, ()):
            gate.unended -= 1
            if gate.unended:
                continue
            for waiting in gate.waiting:
                self.remaining[waiting] -= 1
                if not self._over[waiting] and (self.remaining[waiting] == 0 or waiting in self.eager):
                    self._push(waiting)


def _exact(amount: float) -> Fraction:
    """As it was written. 0.1 + 0.2 + 0.3 and then less all three is not 0 in floats, and a step that wants the whole
    would never start."""
    return Fraction(amount) if isinstance(amount, int) else Fraction(str(amount))


def _written_order(graph: Graph) -> Mapping[int, int]:
    """By node, where its step stands in a dataset plan; nothing for a workflow file, whose order means nothing."""
    composition = graph.workflow.composition
    if composition is None or composition.manifest is None:
        return {}
    written = {name: position for position, name in enumerate(graph.workflow.jobs)}
    return {table.base: written[table.name] for table in graph.tables}
