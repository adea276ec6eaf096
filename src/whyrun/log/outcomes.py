"""How one run and each of its steps ended, folded from their events. Pure.

The status file, the counts in `run_complete` and the repair use the same fold, so that they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from whyrun.errors import Exit
from whyrun.ids import output_of
from whyrun.log import events as ev
from whyrun.log.events import StepFailed

Outcome = Literal["open", "completed", "failed", "timed_out", "interrupted", "skipped", "blocked"]
_FAILURES: dict[str, Outcome] = {"FAILED": "failed", "TIMED_OUT": "timed_out", "INTERRUPTED": "interrupted"}
_SILENT = (ev.ArtifactAvailable, ev.CfgMaterialized)  # half of all events, and they do not change an outcome
COUNTED: tuple[Outcome, ...] = ("completed", "failed", "timed_out", "interrupted", "skipped", "blocked")
LOST_END_HINT = (
    "restore `events.jsonl` from a copy; without one, delete the run's `status.json`: the run then counts as "
    "interrupted where its log ends now, and what followed runs again"
)


class RunOutcome(msgspec.Struct):
    """The state of the fold. `steps` has the latest outcome of each step, in the order in which the steps appeared."""

    start: ev.RunStart | None = None
    end: ev.RunComplete | None = None
    planned: int | None = None
    last_ts: str = ""
    steps: dict[str, Outcome] = msgspec.field(default_factory=dict)
    failures: dict[str, ev.StepFailed] = msgspec.field(default_factory=dict)  # the latest of each failed step
    drivers: dict[str, str] = msgspec.field(default_factory=dict)  # of started steps
    differences: list[ev.Comparison] = msgspec.field(default_factory=list)  # in the order of the log
    unplanned: ev.StepBlocked | None = None  # the first loop whose instances could not be planned

    @property
    def open_steps(self) -> list[str]:
        return [step for step, outcome in self.steps.items() if outcome == "open"]

    def counts(self) -> dict[str, int]:
        """As in `run_complete`: the number of steps by outcome; every outcome is listed."""
        return count_outcomes(self.steps)

    def add(self, event: ev.Event) -> None:
        self.last_ts = event.ts
        if type(event) in _SILENT:
            return
        match event:
            case ev.StepStart():
                self.steps[event.step_id] = "open"
                self.drivers[event.step_id] = event.driver
            case ev.StepComplete():
                self.steps[event.step_id] = "completed"
                self.failures.pop(event.step_id, None)
            case ev.StepFailed():
                self.steps[event.step_id] = _FAILURES[event.status]
                self.failures[event.step_id] = event
            case ev.StepSkipped():
                self.steps[event.step_id] = "skipped"
            case ev.StepBlocked():
                self.steps[event.step_id] = "blocked"
                if event.problem is not None and self.unplanned is None:
                    self.unplanned = event
            case ev.ResultKept():
                self.steps[event.step_id] = "completed"
            case ev.ArtifactAdopted() if output_of(event.artifact) is not None:  # the events of its leaves come first
                self.steps[event.step_id] = "completed"
            case ev.Comparison() if event.status == "DIFFERENT":
                self.differences.append(event)
            case ev.PlanComputed():
                self.planned = event.planned + (self.planned or 0)  # a stage adds to the first plan
            case ev.RunStart():
                self.start = event
            case ev.RunComplete():
                self.end = event
            case _:
                pass  # does not change an outcome


def fold_outcome(events: Iterable[ev.Event]) -> RunOutcome:
    outcome = RunOutcome()
    for event in events:
        outcome.add(event)
    return outcome


def count_outcomes(steps: Mapping[str, Outcome]) -> dict[str, int]:
    counts: dict[str, int] = dict.fromkeys(COUNTED, 0)
    for outcome in steps.values():
        if outcome != "open":
            counts[outcome] += 1
    return counts


class LostEnd(msgspec.Struct, frozen=True):
    what: str
    hint: str


def lost_end(*, ended: bool, has_status: bool, is_last: bool) -> LostEnd | None:
    """The message for a log whose end was cut off after its run had ended; None if nothing shows that.

    `ended`: the log has a `run_complete`. `has_status`: there was a `status.json` before the log was read. It is
    written last and atomically, when the end of the log is on disk, so no kill and no power loss leaves it beside a
    log without an end. `is_last`: no later run began; a later run would have repaired the log first.
    """
    if ended:
        return None
    if not is_last:
        what = "the log has no `run_complete`, although a later run began: its end was cut off"
        return LostEnd(what, ev.DAMAGE_HINT)
    if not has_status:
        return None
    after = "although `status.json`, which is written after it, exists"
    return LostEnd(f"the log has no `run_complete`, {after}: its end was cut off", LOST_END_HINT)


# --- status.json: how a run ended ------------------------------------------------------------------------------------


_EXIT = {"succeeded": Exit.OK, "failed": Exit.FAILED, "interrupted": Exit.INTERRUPTED}


def status_of(outcome: RunOutcome, backend: str | None = None) -> dict[str, Any]:
    """The status of one run. A log without `run_complete` belongs to an interrupted run."""
    state = outcome.end.state if outcome.end is not None else "interrupted"
    exit_code = outcome.end.exit_code if outcome.end is not None else None
    counts = outcome.counts()
    still_open = len(outcome.open_steps)  # none after a repair
    return {
        "ok": state == "succeeded",
        "state": state,
        "exit_code": int(_EXIT[state]) if exit_code is None else exit_code,
        # Runs without a plan (adopt, decide, compare) have as many steps as their events name.
        "steps_total": outcome.planned if outcome.planned is not None else len(outcome.steps),
        "steps_completed": counts["completed"],
        "steps_failed": counts["failed"] + counts["timed_out"],
        "steps_skipped": counts["skipped"],
        "steps_blocked": counts["blocked"],
        "steps_interrupted": counts["interrupted"] + still_open,
        "started": outcome.start.ts if outcome.start is not None else None,
        "ended": outcome.end.ts if outcome.end is not None else outcome.last_ts or None,
        "backend": backend if backend is not None else (outcome.start.backend if outcome.start is not None else None),
        "error": error_of(outcome),
    }


def error_of(outcome: RunOutcome) -> str | None:
    """The first failure in one line. In a comparison, a difference counts as a failure."""
    if outcome.end is not None and outcome.end.error is not None:
        return outcome.end.error
    failure = _first_failure(outcome)
    if failure is not None:
        return f"{failure.step_id}: {failure.error_type}: {failure.error}"
    if outcome.unplanned is not None:
        return f"{outcome.unplanned.step_id}: {outcome.unplanned.problem}"
    difference = outcome.differences[0] if outcome.differences else None
    return f"{difference.artifact}: DIFFERENT: {difference.summary}" if difference is not None else None


def _first_failure(outcome: RunOutcome) -> StepFailed | None:
    """The earliest final failure. A step's own failure comes before an interruption."""
    failures = sorted(outcome.failures.values(), key=lambda failure: failure.seq)
    own = [failure for failure in failures if failure.status != "INTERRUPTED"]
    return next(iter(own or failures), None)
