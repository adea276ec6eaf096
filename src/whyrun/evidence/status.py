"""`status.json`: how a run ended, folded from its events alone. Pure."""

from __future__ import annotations

from typing import Any

from whyrun.errors import Exit
from whyrun.log.events import StepFailed
from whyrun.log.outcomes import RunOutcome

_EXIT = {"succeeded": Exit.OK, "failed": Exit.FAILED, "interrupted": Exit.INTERRUPTED}


def status_of(outcome: RunOutcome, backend: str | None = None) -> dict[str, Any]:
    """The status of one run. A log without `run_complete` belongs to an interrupted run."""
    state = outcome.end.state if outcome.end is not None else "interrupted"
    counts = outcome.counts()
    still_open = len(outcome.open_steps)  # none after a repair
    return {
        "ok": state == "succeeded",
        "state": state,
        "exit_code": int(_EXIT[state]),
        # Runs without a plan (adopt, compare) have as many steps as their events name.
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
    difference = outcome.differences[0] if outcome.differences else None
    return f"{difference.artifact}: DIFFERENT: {difference.summary}" if difference is not None else None


def _first_failure(outcome: RunOutcome) -> StepFailed | None:
    """The earliest final failure. A step's own failure comes before an interruption."""
    failures = sorted(outcome.failures.values(), key=lambda failure: failure.seq)
    own = [failure for failure in failures if failure.status != "INTERRUPTED"]
    return next(iter(own or failures), None)
