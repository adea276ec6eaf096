"""Which planned step may start next, and which failed step is tried again when. Pure: times are arguments.

A step waits at gates: one for each planned instance that it reads, one for each fan-in (shared by all readers of that
fan-in, so that N × M stays N + M), one for each job that it `needs`. A gate opens when all steps behind it have ended,
successful or not; `consume` decides what that means for the waiting step. A step with an undecided `first(…)` may be
ready before all its gates are open, so it is examined whenever one opens.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, NamedTuple, get_args

from whyrun.execution.run.rates import Rates, Wants, asked_to_wait
from whyrun.graph.tables import AlignedArtifact, ArtifactAt, Computed, FirstOf, Graph, Group, JobTable, Operand, Term
from whyrun.planning.plan import Plan

# --- the states of a planned step during a run, and the one table of transitions between them. Pure -------------------
# Something happens to a step (`StepEvent`), the table names its next state, and any other change is an error. The
# runner reports what happened; the scheduler carries out what follows from the new state: it queues a step that waits,
# counts the resources of one that is at the backend, and opens the gates behind one that has ended.


StepState = Literal[
    "waiting",  # for its sources, for resources, or for room at the backend
    "asking",  # for the answer of the shared store
    "submitted",  # to the backend; no worker has begun it
    "running",
    "retrying",  # an attempt failed; the next one waits for its backoff
    "publishing",  # its outputs are recorded; its published files are not in place yet
    "completed",
    "reused",
    "inactive",
    "not_comparable",
    "held",  # back by the budget
    "blocked",
    "failed",
    "timed_out",
    "interrupted",
]
StepEvent = Literal[
    "deactivate",
    "exclude",
    "hold",
    "block",
    "reuse",
    "ask",
    "answer",
    "submit",
    "withdraw",
    "begin",
    "finish",
    "complete",
    "retry",
    "backoff_over",
    "fail",
    "time_out",
    "interrupt",
]

TRANSITIONS: Mapping[tuple[StepState, StepEvent], StepState] = {
    # Decided without executing it.
    ("waiting", "deactivate"): "inactive",
    ("waiting", "exclude"): "not_comparable",
    ("waiting", "hold"): "held",
    ("waiting", "block"): "blocked",
    ("waiting", "reuse"): "reused",
    ("waiting", "ask"): "asking",
    ("asking", "answer"): "waiting",
    # Failed before it started: a parameter has no value, its code was edited, or a reused file cannot be published.
    ("waiting", "fail"): "failed",
    ("submitted", "fail"): "failed",
    # Executed.
    ("waiting", "submit"): "submitted",
    ("submitted", "begin"): "running",
    ("running", "finish"): "publishing",
    ("publishing", "complete"): "completed",
    ("publishing", "fail"): "failed",
    # An attempt failed.
    ("running", "fail"): "failed",
    ("running", "time_out"): "timed_out",
    ("running", "interrupt"): "interrupted",
    ("running", "retry"): "retrying",
    ("retrying", "backoff_over"): "waiting",
    # A cost leaves too little of the budget for a queued step, or the run stops.
    ("submitted", "withdraw"): "waiting",
    # The run stops. A step whose retry does not start any more ends as its last attempt did.
    ("retrying", "fail"): "failed",
    ("retrying", "time_out"): "timed_out",
    ("waiting", "time_out"): "timed_out",
}
FAILURES: Mapping[str, StepEvent] = {"FAILED": "fail", "TIMED_OUT": "time_out", "INTERRUPTED": "interrupt"}

# How steps end that count as such; of a comparison, more.
COUNTED: tuple[StepState, ...] = (
    "completed", "reused", "inactive", "held", "failed", "timed_out", "interrupted", "blocked",
)  # fmt: skip
STATES: tuple[StepState, ...] = get_args(StepState)
# No transition leaves these.
ENDED: frozenset[StepState] = frozenset(STATES) - {before for before, _ in TRANSITIONS}
SUCCEEDED: frozenset[StepState] = frozenset({"completed", "reused"})
FAILED: frozenset[StepState] = frozenset({"failed", "timed_out", "interrupted", "blocked", "held"})
# The backend has the step, so its resources are in use.
AT_BACKEND: frozenset[StepState] = frozenset({"submitted", "running"})


class ForbiddenTransition(Exception):
    """An error of Whyrun itself: the table has no transition for this event in this state."""


class Transition(NamedTuple):
    before: StepState
    after: StepState


class StepStates:
    """The state of each planned step, by node, and how many steps are in which state."""

    def __init__(self, nodes: Iterable[int], known: Mapping[int, StepState] | None = None) -> None:
        """`known`: the states of those that are not waiting."""
        self._states: dict[int, StepState] = {**dict.fromkeys(nodes, "waiting"), **(known or {})}
        self.totals: dict[StepState, int] = {**dict.fromkeys(STATES, 0), **Counter(self._states.values())}
        self.ended = sum(self.totals[state] for state in ENDED)  # steps

    def __getitem__(self, node: int) -> StepState:
        return self._states[node]

    def __contains__(self, node: object) -> bool:
        return node in self._states

    def __len__(self) -> int:
        return len(self._states)

    def items(self) -> Iterable[tuple[int, StepState]]:
        return self._states.items()

    def has_ended(self, node: int) -> bool:
        return self._states.get(node) in ENDED

    def has_failed(self, node: int) -> bool:
        """Whether its dependents are blocked."""
        return self._states.get(node) in FAILED

    def move(self, node: int, event: StepEvent) -> Transition:
        before = self._states[node]
        after = TRANSITIONS.get((before, event))
        if after is None:
            raise ForbiddenTransition(f"step {node} is {before}, which does not allow `{event}`")
        self._states[node] = after
        self.totals[before] -= 1
        self.totals[after] += 1
        if after in ENDED:
            self.ended += 1
        return Transition(before, after)


# --- which step is next -----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Gate:
    unended: int = 0
    waiting: list[int] = field(default_factory=list)


class Scheduler:
    """Queues the steps and moves their states. The order is always the same: ready steps come by layer and node, those
    of a dataset plan in the order of its file."""

    def __init__(
        self,
        graph: Graph,
        plan: Plan,
        limits: Mapping[str, float],
        rates: Rates,
        *,
        gated: bool = True,
        states: Mapping[int, StepState] | None = None,
    ) -> None:
        """Without `gated` no step waits for another, because each reads recorded results. `states`: of the steps that
        an earlier scheduler of the run has moved, before a stage made more of them known."""
        self.graph, self.rates = graph, rates
        self.limits = {name: _exact(limit) for name, limit in limits.items()}
        self.used = dict.fromkeys(limits, Fraction(0))
        self.open = {job.node for job in plan.open}  # entries `[?]`: they end once it is known what they stand for
        self.layer = {job.node: job.layer for job in plan.jobs if job.state == "planned" or job.node in self.open}
        self.states = StepStates(self.layer, states)
        self._order = _written_order(graph) or self.layer
        self.remaining: dict[int, int] = {}  # closed gates
        self.eager: set[int] = set()
        self._gates_of: dict[int, list[_Gate]] = {}  # node → the gates that its end may open
        self._needs: dict[int, _Gate] = {}  # by table
        self._groups: dict[int, _Gate] = {}  # by id of the group
        self._nodes: dict[int, _Gate] = {}
        # Ready steps are queued by their resources: steps with the same demand either all fit or all do not, so a
        # thousand steps that wait for a resource are not searched each time one starts.
        self._wants = [
            tuple(
                (name, _exact(amount))
                for name, amount in table.decl.resources.items()
                if name in limits or name in rates
            )
            for table in graph.tables
        ]
        self._any_wants = any(self._wants)
        for node, state in self.states.items() if states and self._any_wants else ():
            for name, amount in self._wants_of(node) if state in AT_BACKEND else ():
                if name in self.used:
                    self.used[name] += amount
        # Each entry is order and node in one number: tuples take three times as long to compare.
        self._ready: dict[Wants, list[int]] = {}
        self._queued: set[int] = set()
        # Jobs whose steps wait for no other step: no gates are built for them.
        self._gateless = {t.number for t in graph.tables if t.number not in graph.readers and not t.needs}
        for node in self.layer:
            if gated:
                self._wait(node)
            else:
                self.remaining[node] = 0
        for node, remaining in self.remaining.items():
            if self.states[node] == "waiting" and (remaining == 0 or (states and node in self.eager)):
                self._push(node)

    # -- building --

    def _wait(self, node: int) -> None:
        table, position = self.graph.table_at(node)
        if table.number in self._gateless:
            self.remaining[node] = 0
            return
        gates: dict[int, _Gate] = {}
        is_open = position in table.open_rows
        for _, column in table.gates if is_open else table.operand_columns():
            if isinstance(column, AlignedArtifact):
                self._node_gate(self.graph.tables[column.table].base + position, gates)
            else:
                self._term_gates(node, column.at(position), gates)
        for number in table.needs if not is_open else ():
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
            return  # not in the plan: its result is recorded
        gate = self._nodes.get(node)
        if gate is None:
            gate = self._nodes[node] = self._gate((node,))
        gates[id(gate)] = gate

    def _gate(self, nodes: Sequence[int]) -> _Gate:
        gate = _Gate()
        for node in nodes:
            if node in self.layer:
                gate.unended += not self.states.has_ended(node)
                self._gates_of.setdefault(node, []).append(gate)
        return gate

    def _push(self, node: int) -> None:
        if node not in self._queued:
            self._queued.add(node)
            heapq.heappush(self._ready.setdefault(self._wants_of(node), []), self._order[node] * self.graph.size + node)

    def _wants_of(self, node: int) -> Wants:
        if not self._any_wants or node in self.open:
            return ()
        return self._wants[self.graph.table_at(node)[0].number]

    # -- running --

    def take(self) -> int | None:
        """The next step to examine, within the limits of resources; None if no step can start now."""
        first: list[int] | None = None
        for wants, ready in self._ready.items():
            if ready and (first is None or ready[0] < first[0]) and self._fits(wants) and self.rates.fit(wants):
                first = ready
        if first is None:
            return None
        node = heapq.heappop(first) % self.graph.size
        self._queued.discard(node)
        return node

    def _fits(self, wants: Wants) -> bool:
        limits = self.limits
        return not wants or all(self.used[name] + amount <= limits[name] for name, amount in wants if name in limits)

    @property
    def awaits_rate(self) -> bool:
        """While no step is at the backend: whether one that is ready waits for its rate."""
        return bool(self.rates) and any(self._ready.values())

    def throttle(self, node: int, seconds: float, note: Callable[[str], None]) -> None:
        """A service has asked a step to wait: all steps that use its resource wait."""
        for name in self.rates.close(self._wants_of(node), seconds):
            note(asked_to_wait(name, seconds))

    def awaits_needs(self, table: JobTable) -> bool:
        """Whether a step that the job `needs` has not ended. A step with an undecided `first` is examined before."""
        return any(number in self._needs and self._needs[number].unended for number in table.needs)

    def is_awaited(self, node: int) -> bool:
        """Whether another step of the plan waits for this one, or one that is not known yet may read its results."""
        return node in self._gates_of or bool(self.open)

    def move(self, node: int, event: StepEvent) -> None:
        """Change the state of a step, and do what follows from it."""
        before, after = self.states.move(node, event)
        wants = self._wants_of(node)
        if wants:
            self._count(node, wants, before, after)
        if after == "waiting":
            self._push(node)
        elif after in ENDED:
            self._open_gates(node)

    def _count(self, node: int, wants: Wants, before: StepState, after: StepState) -> None:
        """Count what a step takes of limited resources and of rates, and what it gives back."""
        if (after in AT_BACKEND) is not (before in AT_BACKEND):
            sign = 1 if after in AT_BACKEND else -1
            for name, amount in wants:
                if name in self.limits:
                    self.used[name] += sign * amount
        if after == "submitted":
            self.rates.take(node, wants)
        elif before == "submitted":
            (self.rates.begin if after == "running" else self.rates.give_back)(node, wants)

    def _open_gates(self, node: int) -> None:
        for gate in self._gates_of.get(node, ()):
            gate.unended -= 1
            if gate.unended:
                continue
            for waiting in gate.waiting:
                self.remaining[waiting] -= 1
                # An eager step may have started or ended before this gate opened.
                if self.states[waiting] == "waiting" and (self.remaining[waiting] == 0 or waiting in self.eager):
                    self._push(waiting)


class Retries:
    """How often each step was attempted, and which failed steps wait for their backoff."""

    def __init__(self) -> None:
        self.attempts: dict[int, int] = {}  # node → attempts that were submitted
        self._delayed: list[tuple[float, int]] = []  # when the backoff is over, node
        self._last_failure: dict[int, StepEvent] = {}  # node → how its latest failed attempt ended

    def __bool__(self) -> bool:
        return bool(self._delayed)

    def delay(self, node: int, status: str, until: float) -> None:
        heapq.heappush(self._delayed, (until, node))
        self._last_failure[node] = FAILURES[status]

    def last_failure(self, node: int) -> StepEvent | None:
        """How its latest failed attempt ended."""
        return self._last_failure.get(node)

    def due(self, now: float) -> Iterator[int]:
        while self._delayed and self._delayed[0][0] <= now:
            yield heapq.heappop(self._delayed)[1]

    def seconds_left(self, now: float) -> float:
        return max(0.0, self._delayed[0][0] - now)

    def cancel(self) -> None:
        self._delayed.clear()

    def renumber(self, moved: Callable[[int], int]) -> None:
        """The nodes have other numbers from now on."""
        self.attempts = {moved(node): number for node, number in self.attempts.items()}
        self._delayed = [(until, moved(node)) for until, node in self._delayed]
        heapq.heapify(self._delayed)
        self._last_failure = {moved(node): event for node, event in self._last_failure.items()}

    def not_retried(self, states: StepStates) -> Iterator[tuple[int, StepEvent]]:
        """Steps whose retry was cancelled because the run stops; their last failure is how they ended."""
        for node, event in self._last_failure.items():
            if states[node] in ("retrying", "waiting"):
                yield node, event


def _exact(amount: float) -> Fraction:
    """The decimal number as written. With floats, 0.1 + 0.2 + 0.3 minus all three is not 0, and a step that needs the
    whole resource would never start."""
    return Fraction(amount) if isinstance(amount, int) else Fraction(str(amount))


def _written_order(graph: Graph) -> Mapping[int, int]:
    """Node → position of its step in a dataset plan; empty for a workflow file, where the order has no meaning."""
    composition = graph.workflow.composition
    if composition is None or composition.manifest is None:
        return {}
    written = {name: position for position, name in enumerate(graph.workflow.jobs)}
    return {table.base: written[table.name] for table in graph.tables}
