"""Bringing the log of a killed run to an end. Only the holder of the lock may do it.

A run that was killed has no `run_complete`, perhaps half a line at the end, perhaps steps that started and never
ended; after a power cut it may have more at its end that does not count (`survival`). The repair cuts off what does not
count and writes `log_repaired`, `step_failed` (INTERRUPTED) for each open step, and
`run_complete`; then it has the run folder completed. A kill during the repair leaves a log that the next repair treats
the same way; after a finished one there is nothing left to do. Where the folder shows that the run had ended
(`lost_end`), it was not killed but damaged, and is left as it is.

Only the last run is written to. An earlier one without `run_complete` cannot come from a kill, since every run begins
with a repair; and adding to it would break the chain that the next run continues. For readers it is LOG_DAMAGED.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from whyrun import disk
from whyrun.artifacts.store import Store
from whyrun.disk import Area
from whyrun.errors import error
from whyrun.log.events import INTERRUPTED_ERROR, INTERRUPTED_TYPE, LogRepaired, RunComplete, RunStart, StepFailed
from whyrun.log.journal import STATUS_FILE, Clock, Journal, last_event, parse_timestamp
from whyrun.log.lock import RunLock
from whyrun.log.outcomes import lost_end
from whyrun.log.runs import RunRef, WorkflowState, log_without_start
from whyrun.log.survival import survived

DEBUG_FILE = "debug.log"


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
        has_status = (run.path / STATUS_FILE).exists()
        if not run.events_path.exists() or (last := last_event(run.events_path)) is None:
            raise log_without_start(run)
        if has_status and (run is not runs[-1] or isinstance(last, RunComplete)):
            continue
        if run is runs[-1]:
            report = _end_log(run, Store(state.store), lock.synced_of(run.name), clock, has_status)
        complete_folder(run)  # killed after `run_complete`, before its folder was whole
    return report


def _end_log(run: RunRef, store: Store, synced: int, clock: Clock, has_status: bool) -> RepairReport | None:
    """None if the log has its end."""
    left = survived(run, store, synced)  # LOG_DAMAGED here: nothing has been touched yet
    outcome, last = left.outcome, left.last
    if last is None or outcome.start is None:
        raise log_without_start(run)
    lost = lost_end(ended=outcome.end is not None, has_status=has_status, is_last=True)
    if lost is not None:  # a repair would take it for a kill, and write over what shows that it was none
        raise error("LOG_DAMAGED", lost.what, file=str(run.events_path), line=last.seq, hint=lost.hint)
    tail = _tail(run, left.size)
    if outcome.end is not None and not tail:
        return None
    interrupted = tuple(outcome.open_steps)
    report = RepairReport(run.name, len(tail), hashlib.sha256(tail).hexdigest(), interrupted)
    if tail:
        # The tail goes first, and for good: what is written over it could reach the disk in part, and what is left of
        # both would be no log any more. Should the repair itself be killed now, this line has what was cut off.
        what = f"the log ended in {len(tail)} bytes that are cut off (sha256 {report.cut_sha256})"
        disk.append_line(Area.RUN, run.path / DEBUG_FILE, what)
    journal = Journal.resume(run.path, run.name, last.seq, last.chain, left.size, clock)
    try:
        if tail:
            journal.cut()
            journal.sync()
        if outcome.end is None:
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


def _tail(run: RunRef, size: int) -> bytes:
    """What follows the lines that count."""
    with open(run.events_path, "rb", buffering=0) as file:
        file.seek(size)
        return file.read()
