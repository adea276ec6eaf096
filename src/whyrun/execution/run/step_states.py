"""The states of a planned step during a run, and the one table of transitions between them. Pure.

Something happens to a step (`StepEvent`), the table names its next state, and any other change is an error. The runner
reports what happened; the scheduler carries out what follows from the new state: it queues a step that waits, counts
the resources of one that is at the backend, and opens the gates behind one that has ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, get_args

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
    # The run stops. A step whose retry does not start any more ends as its last attempt did.
    ("submitted", "withdraw"): "waiting",
    ("retrying", "fail"): "failed",
    ("retrying", "time_out"): "timed_out",
    ("waiting", "time_out"): "timed_out",
}
FAILURES: Mapping[str, StepEvent] = {"FAILED": "fail", "TIMED_OUT": "time_out", "INTERRUPTED": "interrupt"}

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

    def __init__(self, nodes: Iterable[int]) -> None:
        self._states: dict[int, StepState] = dict.fromkeys(nodes, "waiting")
        self.totals: dict[StepState, int] = dict.fromkeys(STATES, 0)
        self.totals["waiting"] = len(self._states)
        self.ended = 0  # steps

    def __getitem__(self, node: int) -> StepState:
        return self._states[node]

    def __contains__(self, node: int) -> bool:
        return node in self._states

    def __len__(self) -> int:
        return len(self._states)

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
