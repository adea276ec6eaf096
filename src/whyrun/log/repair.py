"""Bringing the log of a killed run to an end. Only the holder of the lock may do it.

A run that was killed has no `run_complete`, perhaps half a line at the end, perhaps steps that started and never
ended. The repair writes, over the half line: `log_repaired`, `step_failed` (INTERRUPTED) for each open step, and
`run_complete`; then it has the run folder completed. A kill during the repair leaves a log that the next repair treats
the same way; after a finished one there is nothing left to do.

Only the last run is written to. An earlier one without `run_complete` cannot come from a kill, since every run begins
with a repair; and adding to it would break the chain that the next run continues. Readers treat it as interrupted.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass

from whyrun.log.events import INTERRUPTED_ERROR, INTERRUPTED_TYPE, LogRepaired, RunComplete, RunStart, StepFailed
from whyrun.log.journal import Clock, Journal, last_event, parse_timestamp
from whyrun.log.lock import RunLock
from whyrun.log.outcomes import fold_outcome
from whyrun.log.runs import RunRef, WorkflowState, log_without_start

STATUS_FILE = "status.json"  # the last thing that completing a run folder writes


@dataclass(frozen=True, slots=True)
class RepairReport:
    run: str
    cut_bytes: int
    cut_sha256: str
    interrupted: tuple[str, ...]


def repair(
    state: WorkflowState, lock: RunLock, clock: Clock, complete_folder: Callable[[RunRef], None]
) -> RepairReport | None:
    """Repair what the last run left; None if its log was whole. `complete_folder` writes what run folders lack."""
    if not lock.held:
        raise AssertionError("only the holder of the lock may repair a log")
    report = None
    runs = state.runs()
    for run in runs:
        if not run.events_path.exists() or (last := last_event(run.events_path)) is None:
            raise log_without_start(run)
        if run is runs[-1] and not isinstance(last, RunComplete):
            report = _end_log(run, clock)
            complete_folder(run)
        elif not (run.path / STATUS_FILE).exists():
            complete_folder(run)  # killed after `run_complete`, before its folder was whole
    return report


def _end_log(run: RunRef, clock: Clock) -> RepairReport:
    outcome = fold_outcome(run.events())  # LOG_DAMAGED here: nothing has been touched yet
    last = last_event(run.events_path)
    assert last is not None
    if outcome.start is None:
        raise log_without_start(run)
    offset, tail = _torn_tail(run)
    interrupted = tuple(outcome.open_steps)
    report = RepairReport(run.name, len(tail), hashlib.sha256(tail).hexdigest(), interrupted)
    journal = Journal.resume(run.path, run.name, last.seq, last.chain, offset, clock)
    try:
        journal.append(
            LogRepaired(cut_bytes=report.cut_bytes, cut_sha256=report.cut_sha256, interrupted=list(interrupted))
        )
        for step in interrupted:
            failed = interruption(step, outcome.drivers[step])
            journal.append(failed)
            outcome.add(failed)
        journal.append(
            RunComplete(state="interrupted", counts=outcome.counts(), duration=_duration(outcome.start, last.ts))
        )
        journal.cut()
        journal.sync()
    finally:
        journal.close()
    return report


def interruption(step: str, driver: str) -> StepFailed:
    return StepFailed(
        step_id=step,
        driver=driver,
        error=INTERRUPTED_ERROR,
        error_type=INTERRUPTED_TYPE,
        traceback="",
        duration=0.0,
        status="INTERRUPTED",
        will_retry=False,
    )


def _duration(start: RunStart, last_ts: str) -> float:
    """As far as the log knows: until its last event."""
    return max(0.0, (parse_timestamp(last_ts) - parse_timestamp(start.ts)).total_seconds())


def _torn_tail(run: RunRef) -> tuple[int, bytes]:
    """Where the complete lines end, and what follows."""
    with open(run.events_path, "rb", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        span = 8192
        while True:
            start = max(0, size - span)
            file.seek(start)
            data = file.read(size - start)
            end = data.rfind(b"\n")
            if end != -1 or start == 0:
                return start + end + 1, data[end + 1 :]
            span *= 8
