"""The table of step states: it is complete, refuses every other change, and real runs use each of its transitions."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import get_args

import pytest
from compare_lab import compare

from project_lab import Lab
from whyrun.execution.run.scheduler import (
    AT_BACKEND,
    ENDED,
    FAILED,
    FAILURES,
    STATES,
    SUCCEEDED,
    TRANSITIONS,
    ForbiddenTransition,
    Retries,
    StepEvent,
    StepState,
    StepStates,
    Transition,
)

Make = Callable[..., Lab]
EVENTS: tuple[StepEvent, ...] = get_args(StepEvent)


def states_in(state: StepState) -> StepStates:
    """One step, brought into a state by the shortest sequence of events."""
    paths: dict[StepState, tuple[StepEvent, ...]] = {"waiting": ()}
    queue: list[StepState] = ["waiting"]
    for before in queue:
        for (start, event), after in TRANSITIONS.items():
            if start == before and after not in paths:
                paths[after] = (*paths[before], event)
                queue.append(after)
    states = StepStates([7])
    for event in paths[state]:
        states.move(7, event)
    assert states[7] == state
    return states


# --- the table ---------------------------------------------------------------------------------------------------


def test_every_state_can_be_reached_and_every_event_has_a_transition() -> None:
    for state in STATES:
        states_in(state)
    assert {event for _, event in TRANSITIONS} == set(EVENTS)


def test_the_groups_of_states() -> None:
    assert {
        "completed", "reused", "inactive", "not_comparable", "held", "blocked", "failed", "timed_out", "interrupted",
    } == ENDED  # fmt: skip
    assert SUCCEEDED | FAILED | {"inactive", "not_comparable"} == ENDED
    assert not SUCCEEDED & FAILED
    assert {"submitted", "running"} == AT_BACKEND
    assert set(FAILURES.values()) == {"fail", "time_out", "interrupt"}


@pytest.mark.parametrize("state", STATES)
def test_a_step_moves_by_the_table_and_refuses_every_other_event(state: StepState) -> None:
    for event in EVENTS:
        states = states_in(state)
        after = TRANSITIONS.get((state, event))
        if after is None:
            with pytest.raises(ForbiddenTransition, match=f"^step 7 is {state}, which does not allow `{event}`$"):
                states.move(7, event)
            after = state
        else:
            assert states.move(7, event) == Transition(state, after)
        assert states[7] == after
        assert {name: number for name, number in states.totals.items() if number} == {after: 1}
        assert (states.ended, states.has_ended(7)) == (int(after in ENDED), after in ENDED)
        assert states.has_failed(7) == (after in FAILED)


def test_a_step_that_is_not_planned_has_no_state() -> None:
    states = StepStates([7, 8])
    assert (len(states), 7 in states, 9 in states, states.has_ended(9), states.has_failed(9)) == (
        2, True, False, False, False,
    )  # fmt: skip
    with pytest.raises(KeyError):
        states.move(9, "submit")


def test_a_cancelled_retry_ends_as_the_attempt_before_it() -> None:
    """Also where its backoff is over and it waits for a resource, or for the backend to begin it."""
    states, retries = StepStates(range(4)), Retries()
    for node, status in enumerate(("FAILED", "TIMED_OUT", "TIMED_OUT", "FAILED")):
        for event in ("submit", "begin", "retry"):
            states.move(node, event)  # type: ignore[arg-type]  # a literal of the tuple
        retries.delay(node, status, until=float(node))
    assert (list(retries.due(2.0)), bool(retries), retries.seconds_left(2.5)) == ([0, 1, 2], True, 0.5)
    for node in (0, 1, 2):
        states.move(node, "backoff_over")
    for event in ("submit", "withdraw"):
        states.move(1, event)  # type: ignore[arg-type]
    for event in ("submit", "begin", "finish", "complete"):
        states.move(2, event)  # type: ignore[arg-type]
    retries.cancel()
    assert not retries
    assert list(retries.not_retried(states)) == [(0, "fail"), (1, "time_out"), (3, "fail")]


# --- real runs ---------------------------------------------------------------------------------------------------

ENDS = """
    workflow: ends
    inputs: {Topic: {type: string, default: cinema}}
    jobs:
      Make:
        uses: python
        deterministic: true
        with: {call: "steps:make", topic: "${{ inputs.Topic }}"}
        outputs: {N: {type: integer}}
      Use:
        uses: python
        deterministic: true
        with: {call: "steps:make", topic: "${{ jobs.Make.outputs.N }}"}
        outputs: {N: {type: integer}}
      Inactive:
        uses: python
        if: ${{ jobs.Make.outputs.N > 5 }}
        with: {call: "steps:make", topic: never}
        outputs: {N: {type: integer}}
      Unresolved:
        uses: python
        with: {call: "steps:make", topic: "${{ 10 / jobs.Make.outputs.N }}"}
        outputs: {N: {type: integer}}
      Bad:
        uses: python
        with: {call: "steps:bad"}
        outputs: {N: {type: integer}}
      Blocked:
        uses: python
        with: {call: "steps:make", topic: "${{ jobs.Bad.outputs.N }}"}
        outputs: {N: {type: integer}}
      Flaky:
        uses: python
        retries: {max: 1, backoff: 1ms}
        with: {call: "steps:flaky"}
        outputs: {N: {type: integer}}
      Slow:
        uses: python
        timeout: 50ms
        with: {call: "steps:sleep"}
        outputs: {N: {type: integer}}
      Unpublished:
        uses: python
        with: {call: "steps:make", topic: text}
        outputs: {N: {type: integer, path: a-pipe}}
"""
# `Last` fails while both retries wait for their backoff of an hour. Two of `Sleep` have taken their workers, and others
# wait in the queue of the backend. Steps start in the order of their names.
STOPS = """
    workflow: stops
    loops: {n: {count: 9}}
    jobs:
      Bad:
        uses: python
        retries: {max: 1, backoff: 1h}
        with: {call: "steps:bad"}
        outputs: {N: {type: integer}}
      Late:
        uses: python
        timeout: 50ms
        retries: {max: 1, backoff: 1h}
        with: {call: "steps:sleep"}
        outputs: {N: {type: integer}}
      Last:
        uses: python
        with: {call: "steps:last"}
        outputs: {N: {type: integer}}
      Sleep:
        for: [n]
        uses: python
        with: {call: "steps:sleep", n: "${{ n }}"}
        outputs: {N: {type: integer}}
"""
EDITED = """
    workflow: edited
    loops: {n: {count: 3}}
    jobs:
      Edit:
        for: [n]
        uses: python
        with: {call: "steps:edit", n: "${{ n }}"}
        outputs: {N: {type: integer}}
"""
STEPS = """
    import time
    from pathlib import Path

    HERE = Path(__file__).parent

    def make(topic):
        return {"N": 0}

    def bad():
        raise RuntimeError("bad")

    def flaky():
        if not (HERE / "failed").exists():
            (HERE / "failed").touch()
            raise RuntimeError("once")
        return {"N": 1}

    def sleep(n=0):
        time.sleep(3600)

    def last():
        logged, deadline = "", time.monotonic() + 300
        while logged.count('"step_failed"') < 2 or logged.count('"step_start"') < 5:
            assert time.monotonic() < deadline, "the others did not come"
            time.sleep(0.01)
            logged = "".join(path.read_text() for path in HERE.glob(".whyrun/*/runs/*/events.jsonl"))
        raise RuntimeError("last")

    def edit(n):
        if n == 0:
            path = Path(__file__)
            path.write_text(path.read_text().replace('"N": 0', '"N": 2'))
        return {"N": 0}
"""
# Reached only if a retry waits for a resource in the moment in which the run stops: see the test of `Retries` above.
# And with a budget: see `test_budget`.
NOT_REACHED = {("waiting", "time_out"), ("waiting", "hold")}


def test_real_runs_use_every_transition(project: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    used: set[tuple[StepState, StepEvent]] = set()
    move = StepStates.move

    def noted(self: StepStates, node: int, event: StepEvent) -> Transition:
        used.add((self[node], event))
        return move(self, node, event)

    monkeypatch.setattr(StepStates, "move", noted)
    lab = project(ENDS, {"steps.py": STEPS, "whyrun.toml": 'store = "shared"\n'})
    os.mkfifo(lab.root / "a-pipe")  # nothing can be published there
    ran = lab.run()
    assert ran.failed == {
        "Job:Unresolved": ("FAILED", "ExpressionError"),
        "Job:Bad": ("FAILED", "RuntimeError"),
        "Job:Slow": ("TIMED_OUT", "TimedOut"),
        "Job:Unpublished": ("FAILED", "NotPublished"),
    }
    assert (ran.executed, ran.blocked) == (["Job:Flaky", "Job:Make", "Job:Use"], {"Job:Blocked": ["Job:Bad"]})
    assert lab.run(targets=["Job:Make"], sets=["Topic=theatre"]).executed == ["Job:Make"]
    assert lab.run(targets=["Job:Make"]).reused == {"Job:Make": "r0001"}
    assert compare(lab, "Job:Make", sets=("Topic=opera",)).result.counts.not_comparable == 1

    lab = project(STOPS, {"steps.py": STEPS})
    ran = lab.run(jobs=3, fail_fast=True)
    failed = Counter((step.partition("[")[0], kind) for step, (_, kind) in ran.failed.items())
    # The worker of `Last` may take one more step before the backend hears that the run stops.
    sleeping = failed.pop(("Job:Sleep", "Interrupted"))
    assert sleeping in (2, 3)
    assert failed == {("Job:Bad", "RuntimeError"): 1, ("Job:Last", "RuntimeError"): 1, ("Job:Late", "TimedOut"): 1}
    assert ran.result.counts.not_started == 9 - sleeping

    lab = project(EDITED, {"steps.py": STEPS})
    assert lab.run(jobs=1).result.counts.failed == 3
    assert used == set(TRANSITIONS) - NOT_REACHED
