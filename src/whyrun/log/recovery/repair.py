"""Ends the log of a killed run. Only the holder of the lock may do it.

The log of a killed run has no `run_complete`, perhaps half a line at the end, and perhaps steps that started and never
ended. After a power loss its last lines may refer to bytes that are gone (`surviving_prefix`). The repair truncates
these lines, writes `log_repaired`, a `step_failed` (INTERRUPTED) for each open step and `run_complete`, and then
completes the run folder. If the repair is killed, the next one does the same; after a finished repair nothing is left
to do. If the folder shows that the run had ended (`lost_end`), the log is damaged, and the repair leaves it as it is.

Only the last run is repaired. An earlier run without `run_complete` cannot come from a kill, since every run begins
with a repair, and adding to it would break the chain of the next run. Readers report it as LOG_DAMAGED.
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
from whyrun.log.recovery.surviving_prefix import survived
from whyrun.log.runs import RunRef, WorkflowState, log_without_start

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
    """Repair the last run; None if its log was complete. `complete_folder` writes the missing files of a run folder."""
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
        complete_folder(run)  # killed after `run_complete`, before its folder was complete
    return report


def _end_log(run: RunRef, store: Store, synced: int, clock: Clock, has_status: bool) -> RepairReport | None:
    """None if the log has its end."""
    left = survived(run, store, synced)  # raises LOG_DAMAGED before anything is changed
    outcome, last = left.outcome, left.last
    if last is None or outcome.start is None:
        raise log_without_start(run)
    lost = lost_end(ended=outcome.end is not None, has_status=has_status, is_last=True)
    if lost is not None:  # a repair would destroy the evidence of the damage
        raise error("LOG_DAMAGED", lost.what, file=str(run.events_path), line=last.seq, hint=lost.hint)
    tail = _tail(run, left.size)
    if outcome.end is not None and not tail:
        return None
    interrupted = tuple(outcome.open_steps)
    report = RepairReport(run.name, len(tail), hashlib.sha256(tail).hexdigest(), interrupted)
    if tail:
        # Truncate and sync first: if new lines overwrote the tail, a power loss could leave a mix of both. If the
        # repair itself is killed now, this line in the debug log tells what was cut off.
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
    """Until the last event of the log."""
    return max(0.0, (parse_timestamp(last_ts) - parse_timestamp(start.ts)).total_seconds())


def _tail(run: RunRef, size: int) -> bytes:
    """The bytes after the lines that are kept."""
    with open(run.events_path, "rb", buffering=0) as file:
        file.seek(size)
        return file.read()
