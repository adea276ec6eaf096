"""`whyrun gc`: find the blobs that are no longer needed, and remove them.

A blob is needed if its hash is in the log of a kept run, of any workflow of the state folder: artifacts, their inputs,
snapshots, long lists, and files that were saved before they were overwritten. Of pruned runs, the files of the user are
needed: saved or adopted ones, as their tombstones name them. A needed folder needs its files.

Nothing is removed while a run writes (`StoreLock`), nor if anything is damaged that says what is needed: a missing run
(`lost_last_run`, `lost_all_runs`), a damaged log (`check_log`), a damaged folder manifest or long list
(`stored_folder_files`, `check_long_lists`). A kill in between leaves a part of the unneeded blobs, and nothing else.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from whyrun import disk
from whyrun.artifacts.store import Store
from whyrun.disk import Area
from whyrun.errors import WhyrunError, error
from whyrun.evidence.referenced_blobs import (
    IndirectReferences,
    check_long_lists,
    referenced_hashes,
    stored_blobs,
    stored_folder_files,
)
from whyrun.evidence.verify.lines import LineCheck, check_end, tombstone_problem
from whyrun.evidence.verify.report import VerifyProblem
from whyrun.log import events as ev
from whyrun.log.journal import EVENTS_FILE, FIRST_CHAIN, RUN_NAME, STATUS_FILE, Clock, read_blocks
from whyrun.log.lock import RunLock, StoreLock, holder_and_state, running_run
from whyrun.log.outcomes import RunOutcome
from whyrun.log.runs import ENVIRONMENTS, STORE_LOCK, RunRef, WorkflowState, all_runs_lost, log_without_start
from whyrun.log.tombstones import Tombstone, remove_pruned_folders
from whyrun.workflow.fields import RESERVED_WORKFLOW_NAMES

# Folders in `.whyrun/tmp`: scratch of steps, runs that are being removed, and runs that are being created.
_TEMPORARY = re.compile(r"\.scratch\Z|\.pruned\Z|-r[0-9]+\Z")


@dataclass(frozen=True, slots=True)
class Blobs:
    count: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class WorkflowNeeds:
    """The blobs that the kept runs of one workflow refer to. Blobs shared by workflows count for each of them."""

    workflow: str
    runs: int
    pruned: int
    blobs: int


@dataclass(frozen=True, slots=True)
class UnneededBlob:
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class GcReport:
    removed: Blobs  # or to be removed
    kept: Blobs
    workflows: tuple[WorkflowNeeds, ...]
    displaced: int  # of the kept blobs, those that only tombstones name
    running: tuple[str, ...]  # workflows with a current run: blobs that it has not recorded yet count as unneeded
    deleted: bool
    blobs: tuple[UnneededBlob, ...] = ()  # removed, or to be removed, sorted by hash

    def to_json(self) -> dict[str, Any]:
        fields = asdict(self)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}


def collectable(state_dir: Path) -> GcReport:
    """What `collect` would remove. Nothing is written."""
    return _Sweep(state_dir).report(deleted=False)


def collect(state_dir: Path, clock: Clock) -> GcReport:
    """Remove the unneeded blobs. LOCKED while a run of any workflow is going on."""
    if not state_dir.is_dir():
        return collectable(state_dir)
    _finish_prunings(state_dir, clock)
    with StoreLock(state_dir / STORE_LOCK, clock, lambda: _in_use(state_dir)):
        sweep = _Sweep(state_dir)
        report = sweep.report(deleted=True)
        for blob in sweep.garbage:
            disk.unlink(Area.GC, sweep.store.path(blob.sha256))
        sweep.store.remove_leftovers(clock().timestamp())
    return report


def workflows_of(state_dir: Path) -> list[WorkflowState]:
    """Every workflow with state here, by name; also folders with invalid names, which a user may have renamed."""
    try:
        names = sorted(entry.name for entry in os.scandir(state_dir) if entry.is_dir())
    except FileNotFoundError:
        return []
    states = [WorkflowState(state_dir, name) for name in names if name not in RESERVED_WORKFLOW_NAMES]
    return [state for state in states if state.runs_dir.is_dir() or state.lost_all_runs()]


def _check_nothing_else(state_dir: Path, states: Iterable[WorkflowState]) -> None:
    """LOG_DAMAGED if there is a run folder elsewhere: it may need any blob, and its log is not read."""
    store, tmp, environments = (str(state_dir / name) for name in ("store", "tmp", ENVIRONMENTS))
    runs_folders = {str(state.runs_dir) for state in states}
    seen: set[str] = set()
    for here, folders, files in os.walk(state_dir, onerror=_unless_gone, followlinks=True):
        real = os.path.realpath(here)
        if real in seen:  # a link back to a folder above
            folders.clear()
            continue
        seen.add(real)
        if EVENTS_FILE in files:
            what = f"`{os.path.relpath(here, state_dir)}` is a run folder outside every workflow; it may need any blob"
            hint = "put it back, or move it out of the state folder with a copy of the store"
            raise error("LOG_DAMAGED", what, file=here, hint=hint)
        if here in runs_folders:
            folders[:] = [name for name in folders if RUN_NAME.fullmatch(name) is None]
        elif here == tmp:
            folders[:] = [name for name in folders if _TEMPORARY.search(name) is None]
        folders[:] = [name for name in folders if os.path.join(here, name) not in (store, environments)]


def _unless_gone(problem: OSError) -> None:
    """An unreadable folder may have a run in it. A folder that vanished had none: nothing else removes runs now."""
    if not isinstance(problem, FileNotFoundError):
        raise problem


def _finish_prunings(state_dir: Path, clock: Clock) -> None:
    """Remove what a killed `prune` left. Each workflow's lock is taken before the store's."""
    for state in workflows_of(state_dir):
        if state.pruned_folders.exists() or state.folders_of_pruned():
            with RunLock.of(state, clock, to_make_room=True):
                remove_pruned_folders(state)


class _Sweep:
    def __init__(self, state_dir: Path) -> None:
        states = workflows_of(state_dir)
        _check_nothing_else(state_dir, states)
        # Asked before the logs are read: a run that ends in between is only reported as running.
        self.running = tuple(state.workflow for state in states if running_run(state) is not None)
        self.store = Store(state_dir / "store")
        needed: set[str] = set()
        self.workflows = []
        users_files: set[str] = set()
        for state in states:
            runs, stones = state.checked_runs_and_tombstones()
            if state.lost_all_runs():
                raise all_runs_lost(state)
            state.check_last_run()
            check_log(state, runs, stones, state.workflow in self.running)
            indirect = IndirectReferences()
            own = set(referenced_hashes((run.path for run in runs), self.store, indirect))
            check_long_lists(indirect.lists, self.store)
            own |= self._in_folders(own, indirect.folders)
            users_files |= {sha for stone in stones for sha in stone.of_the_user}
            needed |= own
            self.workflows.append(WorkflowNeeds(state.workflow, len(runs), len(stones), self._count_stored(own)))
        users_files |= self._in_folders(users_files, users_files)
        self.displaced = self._count_stored(users_files - needed)
        needed |= users_files
        self.garbage: list[UnneededBlob] = []
        self.kept = [0, 0]
        for sha, _, size in stored_blobs(self.store.root):
            if sha in needed:
                self.kept[0] += 1
                self.kept[1] += size
            else:
                self.garbage.append(UnneededBlob(sha, size))

    def report(self, *, deleted: bool) -> GcReport:
        removed = Blobs(len(self.garbage), sum(blob.size for blob in self.garbage))
        return GcReport(
            removed, Blobs(*self.kept), tuple(self.workflows), self.displaced, self.running, deleted,
            tuple(self.garbage),
        )  # fmt: skip

    def _count_stored(self, hashes: Iterable[str]) -> int:
        return sum(map(self.store.has, hashes))

    def _in_folders(self, hashes: Iterable[str], folders: Container[str]) -> set[str]:
        """The files in these folders. `folders`: hashes that are known to be folders, or may be."""
        return {
            file.sha256 for sha in hashes for file in stored_folder_files(sha, self.store, may_be_one=sha in folders)
        }


def _in_use(state_dir: Path) -> WhyrunError:
    for state in workflows_of(state_dir):
        held, by = holder_and_state(state.lock_path)
        if held:
            who = "another process" if by is None else f"process {by.pid} on {by.host} (since {by.started})"
            run = f" ({by.run})" if by is not None and by.run is not None else ""
            what = f"`{state.workflow}`{run} is being run by {who}, and may need any blob"
            return error("LOCKED", what, file=str(state.lock_path), hint="wait for it to end, then try again")
    hint = "wait for it to end, then try again"
    return error("LOCKED", "another process uses the store", file=str(state_dir / STORE_LOCK), hint=hint)


# --- Is the log complete? Lines, chain and ends are checked as in verify, before anything is removed -----------------


def check_log(state: WorkflowState, runs: Sequence[RunRef], stones: Sequence[Tombstone], running: bool) -> None:
    """LOG_DAMAGED if anything in the log was changed or is lost. Streamed: no events are kept.

    `running`: the last run may be going on, so its log need not have an end.
    """
    chain: str | None = FIRST_CHAIN
    before = "an empty log"
    all_runs: list[RunRef | Tombstone] = sorted([*runs, *stones], key=lambda one: one.number)
    line = 0
    for run in all_runs:
        if isinstance(run, Tombstone):
            line += 1
            stones_file = str(state.tombstones_path)
            problem = tombstone_problem(run.run, run.previous_chain, stones_file, line, chain, before)
            if problem is not None:
                raise _refused(problem)
            chain, before = run.chain, run.run
        elif run is runs[-1]:
            _check_last(run, chain, before, running)
        else:
            chain, before = _check_closed(run, chain, before), run.name


def _check_closed(run: RunRef, chain: str | None, before: str) -> str | None:
    """Check a run that is not the last, and return the last link of its chain."""
    log, outcome, repaired, torn = _read(run, chain, before)
    _check_end(log, outcome, repaired, torn, is_last=False)
    return log.chain


def _check_last(run: RunRef, chain: str | None, before: str, running: bool) -> None:
    # Checked before the log is read: a run that ends meanwhile writes its status last.
    has_status = (run.path / STATUS_FILE).exists()
    log, outcome, repaired, torn = _read(run, chain, before)
    if has_status or not running:
        _check_end(log, outcome, repaired, torn, is_last=True, has_status=has_status)


def _check_end(
    log: LineCheck, outcome: RunOutcome, repaired: bool, torn: int, *, is_last: bool, has_status: bool = False
) -> None:
    ended = outcome.end is not None
    end = check_end(log, torn, ended=ended, repaired=repaired, is_last=is_last, has_status=has_status)
    if end.problem is not None:
        raise _refused(end.problem)


def _read(run: RunRef, chain: str | None, before: str) -> tuple[LineCheck, RunOutcome, bool, int]:
    """(checked lines, outcome, whether a repair wrote some of them, bytes after the last line)."""
    log = LineCheck(str(run.events_path), run.name, chain, before, _refuse)
    outcome, repaired, size = RunOutcome(), False, 0
    try:
        for block in read_blocks(run.events_path):
            size += len(block)
            for event in log.feed(block)[0]:
                outcome.add(event)
                repaired = repaired or type(event) is ev.LogRepaired
        torn = os.stat(run.events_path).st_size - size
    except FileNotFoundError:
        raise log_without_start(run) from None
    if not log.lines:
        raise log_without_start(run)
    return log, outcome, repaired, torn


def _refuse(problem: VerifyProblem) -> None:
    raise _refused(problem)


def _refused(problem: VerifyProblem) -> WhyrunError:
    subject = " ".join(word for word in (problem.event, problem.subject) if word is not None)
    what = problem.what + (f" ({subject})" if subject else "")
    return error("LOG_DAMAGED", what, file=problem.file, line=problem.line, hint=problem.hint or ev.DAMAGE_HINT)
