"""Ends the log of a killed run. Only the holder of the lock may do it.

The log of a killed run has no `run_complete`, perhaps half a line at the end, and perhaps steps that started and never
ended. After a power loss its last lines may refer to bytes that are gone (`survived`). The repair truncates
these lines, writes `log_repaired`, a `step_failed` (INTERRUPTED) for each open step and `run_complete`, and then
completes the run folder. If the repair is killed, the next one does the same; after a finished repair nothing is left
to do. If the folder shows that the run had ended (`lost_end`), the log is damaged, and the repair leaves it as it is.

Only the last run is repaired. An earlier run without `run_complete` cannot come from a kill, since every run begins
with a repair, and adding to it would break the chain of the next run. Readers report it as LOG_DAMAGED.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET

from whyrun import disk
from whyrun.artifacts.hashing import file_sha256
from whyrun.artifacts.store import Store
from whyrun.disk import Area
from whyrun.errors import WhyrunError, error
from whyrun.ids import output_of
from whyrun.log import events as ev
from whyrun.log.events import INTERRUPTED_ERROR, INTERRUPTED_TYPE, LogRepaired, RunComplete, RunStart, StepFailed
from whyrun.log.journal import (
    RUN_NAME,
    STATUS_FILE,
    Clock,
    Journal,
    damaged,
    last_event,
    parse_timestamp,
    read_raw_lines,
)
from whyrun.log.lock import RunLock
from whyrun.log.outcomes import RunOutcome, lost_end
from whyrun.log.runs import RunRef, WorkflowState, log_without_start

# --- how far the log can be trusted ------------------------------------------------------------------------------
#
# How far the log of a killed run can be trusted.
#
# Before a sync, lines and the files and blobs that they refer to reach the disk in any order. So a power loss may
# leave a line without its bytes. All lines up to the sync mark (`sync_mark.py`) are complete. Lines after it count
# up to the first one that refers to lost bytes; the rest is dropped, as if the power had failed a moment earlier.
#
# Lost bytes show a missing sync only if this run has made them: a run removes damaged blobs of earlier runs
# (`drop_damaged`), which were synced before it began.
#
# A kept input (`keep_inputs`) is a copy to be shown, which nothing relies on. So its line counts without its bytes,
# and the repair removes torn ones: then the content is not kept, as that of a large file.


_HASH = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Survived:
    outcome: RunOutcome
    last: ev.AnyEvent | None
    size: int  # bytes of the log
    kept_inputs: tuple[str, ...]  # hashes of inputs whose stored copies may be torn


def survived(run: RunRef, store: Store, synced: int) -> Survived:
    """`synced`: the `seq` of an event that was synced with all before it."""
    outcome, last, size, whole = RunOutcome(), None, 0, True
    kept_inputs: list[str] = []
    for event, line in zip(run.events(), read_raw_lines(run.events_path), strict=True):
        # Always read to the end, so that LOG_DAMAGED is raised before anything is changed.
        whole = whole and (event.seq <= synced or _is_borne_out(event, run, store))
        if whole:
            outcome.add(event)
            last = event
            size += len(line) + 1
            if isinstance(event, ev.InputRecorded) and event.seq > synced and event.sha256:
                kept_inputs.append(_hash(event.sha256, event, run))
    return Survived(outcome, last, size, tuple(kept_inputs))


def _is_borne_out(event: ev.AnyEvent, run: RunRef, store: Store) -> bool:
    """Do the files and blobs that an event refers to exist?"""
    match event:
        case ev.CfgMaterialized():
            return _has_file(f"{run.path}/{event.path}", event.sha256)
        case ev.ArtifactAvailable():
            sha256 = _hash(event.sha256, event, run)
            if event.value is UNSET and RUN_NAME.fullmatch(event.reused_from or ""):
                return True  # made and synced by an earlier run
            # The event itself holds leaves and small values; one from a shared store may never have had a blob.
            holds_itself = event.value is not UNSET or output_of(event.artifact) is None
            # If there is a blob, it must be intact: a damaged one was torn before it was synced.
            nowhere = holds_itself and not store.has(sha256)
            return nowhere or _has_blob(store, sha256, event.type)
        case ev.StepStart() | ev.StepSkipped() | ev.ResultKept():
            lists = [members for members in (event.bindings or {}).values() if isinstance(members, dict)]
            blobs = [_hash(members["blob"], event, run) for members in lists if "blob" in members]
            return all(_has_blob(store, blob) for blob in blobs)
        case ev.FileDisplaced():  # without its blob the file was not replaced yet
            return _has_blob(store, _hash(event.sha256, event, run))
        case _:
            return True  # refers to no bytes, or to bytes that were synced before it was written


def _hash(text: Any, event: ev.AnyEvent, run: RunRef) -> str:
    """A power loss never changes a line, so a text that is no hash was put there by hand: LOG_DAMAGED."""
    if not isinstance(text, str) or _HASH.fullmatch(text) is None:
        raise damaged(run.events_path, event.seq, f"`{str(text)[:80]}` is not a hash")
    return text


def _has_file(path: str, sha256: str) -> bool:
    try:
        return file_sha256(path) == sha256
    except (OSError, ValueError):  # ValueError: not a valid file name
        return False


def _has_blob(store: Store, sha256: str, type_: str = "file") -> bool:
    try:
        store.check(sha256)
        if type_ == "directory":
            for file in store.read_tree(sha256).files:
                store.check(file.sha256)
    except (WhyrunError, OSError):
        return False
    return True


# --- the repair --------------------------------------------------------------------------------------------------


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
    for sha256 in left.kept_inputs:
        store.drop_damaged(sha256, "file")
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
