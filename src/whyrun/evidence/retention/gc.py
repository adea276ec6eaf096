"""What of the store nobody needs any more, and removing it.

Needed is every blob whose hash stands in the log of a run that is kept, of any workflow of the state folder: what runs
made and adopted, what they were made from, their snapshots, long lists, and files of the user's that were saved before
they were written over. Of pruned runs, what is the user's own: saved or adopted, as their tombstones name it. Of
folders also what is in them.

Nothing is removed while anybody writes runs (`StoreLock`), nor where a run is missing, be it the last
(`lost_last_run`), or all are (`lost_all_runs`), or a log is damaged in its lines, their order, chain or end
(`check_log`), or the manifest of a folder or a long list (`files_of_folder`, `check_lists`): nobody could say what that
needed. A kill in the middle leaves fewer blobs that nobody needs, and nothing else.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from whyrun import disk
from whyrun.artifacts.store import Store
from whyrun.disk import Area
from whyrun.errors import WhyrunError, error
from whyrun.evidence.run_list import running_run
from whyrun.evidence.spoken_blobs import Naming, check_lists, files_of_folder, hashes_of_runs, stored_blobs
from whyrun.evidence.whole_log import check_log
from whyrun.log.journal import EVENTS_FILE, RUN_NAME, Clock
from whyrun.log.lock import RunLock, StoreLock, holder_and_state
from whyrun.log.pruned_folders import remove_pruned_folders
from whyrun.log.runs import STORE_LOCK, WorkflowState, all_runs_lost
from whyrun.workflow.fields import RESERVED_WORKFLOW_NAMES

# Of `.whyrun/tmp`: what steps write to, runs that are taken apart, and runs that are not there yet.
_IN_THE_MAKING = re.compile(r"\.scratch\Z|\.pruned\Z|-r[0-9]+\Z")


@dataclass(frozen=True, slots=True)
class Blobs:
    count: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class WorkflowNeeds:
    """What the kept runs of one workflow speak of. Workflows may share blobs: each counts them for itself."""

    workflow: str
    runs: int
    pruned: int
    blobs: int


@dataclass(frozen=True, slots=True)
class GoneBlob:
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class Clearing:
    removed: Blobs  # or would be
    kept: Blobs
    workflows: tuple[WorkflowNeeds, ...]
    displaced: int  # of those that are kept: files of the user's that only tombstones name
    running: tuple[str, ...]  # workflows with a run that is going on: what it has not recorded yet counts as not needed
    deleted: bool
    blobs: tuple[GoneBlob, ...] = ()  # those that are removed, or would be, in the order of their hashes

    def to_json(self) -> dict[str, Any]:
        told = asdict(self)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in told.items()}


def collectable(state_dir: Path) -> Clearing:
    """What would go. Nothing is written."""
    return _Sweep(state_dir).clearing(deleted=False)


def collect(state_dir: Path, clock: Clock) -> Clearing:
    """Remove what nobody needs. LOCKED while a run of any workflow is going on."""
    if not state_dir.is_dir():
        return collectable(state_dir)
    _finish_prunings(state_dir, clock)
    with StoreLock(state_dir / STORE_LOCK, clock, lambda: _in_use(state_dir)):
        sweep = _Sweep(state_dir)
        found = sweep.clearing(deleted=True)
        for blob in sweep.garbage:
            disk.unlink(Area.GC, sweep.store.path(blob.sha256))
        sweep.store.remove_leftovers(clock().timestamp())
    return found


def workflows_of(state_dir: Path) -> list[WorkflowState]:
    """Every workflow that has state here, by name. Also under a name that none can have: somebody put it aside."""
    try:
        names = sorted(entry.name for entry in os.scandir(state_dir) if entry.is_dir())
    except FileNotFoundError:
        return []
    states = [WorkflowState(state_dir, name) for name in names if name not in RESERVED_WORKFLOW_NAMES]
    return [state for state in states if state.runs_dir.is_dir() or state.lost_all_runs()]


def _check_nothing_else(state_dir: Path, states: Iterable[WorkflowState]) -> None:
    """Runs that were put anywhere else may need any blob, and nobody would find them there."""
    store, tmp = str(state_dir / "store"), str(state_dir / "tmp")
    places_of_runs = {str(state.runs_dir) for state in states}
    seen: set[str] = set()
    for place, folders, files in os.walk(state_dir, onerror=_unless_gone, followlinks=True):
        real = os.path.realpath(place)
        if real in seen:  # a link that leads back
            folders.clear()
            continue
        seen.add(real)
        if EVENTS_FILE in files:
            what = f"`{os.path.relpath(place, state_dir)}` is a run where no workflow has one; it may need any blob"
            hint = "put it back, or move it out of the state folder with a copy of the store"
            raise error("LOG_DAMAGED", what, file=place, hint=hint)
        if place in places_of_runs:
            folders[:] = [name for name in folders if RUN_NAME.fullmatch(name) is None]
        elif place == tmp:
            folders[:] = [name for name in folders if _IN_THE_MAKING.search(name) is None]
        folders[:] = [name for name in folders if os.path.join(place, name) != store]


def _unless_gone(problem: OSError) -> None:
    """Who cannot look into a folder does not know what is in it. One that is gone had no run: those are not removed."""
    if not isinstance(problem, FileNotFoundError):
        raise problem


def _finish_prunings(state_dir: Path, clock: Clock) -> None:
    """What a killed prune left; each under its own lock, which goes before the store's."""
    for state in workflows_of(state_dir):
        if state.pruned_folders.exists() or state.folders_of_pruned():
            with RunLock.of(state, clock, to_make_room=True):
                remove_pruned_folders(state)


class _Sweep:
    def __init__(self, state_dir: Path) -> None:
        states = workflows_of(state_dir)
        _check_nothing_else(state_dir, states)
        # Looked at before the logs: a run that ends in between is only told of as running.
        self.running = tuple(state.workflow for state in states if running_run(state) is not None)
        self.store = Store(state_dir / "store")
        needed: set[str] = set()
        self.workflows = []
        of_tombstones: set[str] = set()
        for state in states:
            runs, stones = state.whole_log()
            if state.lost_all_runs():
                raise all_runs_lost(state)
            state.check_last_run()
            check_log(state, runs, stones, state.workflow in self.running)
            naming = Naming()
            own = set(hashes_of_runs((run.path for run in runs), self.store, naming))
            check_lists(naming.lists, self.store)
            own |= self._in_folders(own, naming.folders)
            of_tombstones |= {sha for stone in stones for sha in stone.of_the_user}
            needed |= own
            self.workflows.append(WorkflowNeeds(state.workflow, len(runs), len(stones), self._there(own)))
        of_tombstones |= self._in_folders(of_tombstones, of_tombstones)
        self.displaced = self._there(of_tombstones - needed)
        needed |= of_tombstones
        self.garbage: list[GoneBlob] = []
        self.kept = [0, 0]
        for sha, _, size in stored_blobs(self.store.root):
            if sha in needed:
                self.kept[0] += 1
                self.kept[1] += size
            else:
                self.garbage.append(GoneBlob(sha, size))

    def clearing(self, *, deleted: bool) -> Clearing:
        removed = Blobs(len(self.garbage), sum(blob.size for blob in self.garbage))
        return Clearing(
            removed, Blobs(*self.kept), tuple(self.workflows), self.displaced, self.running, deleted,
            tuple(self.garbage),
        )  # fmt: skip

    def _there(self, hashes: Iterable[str]) -> int:
        return sum(map(self.store.has, hashes))

    def _in_folders(self, hashes: Iterable[str], folders: Container[str]) -> set[str]:
        """`folders`: those of them that are folders, or may be."""
        files = (files_of_folder(sha, self.store, may_be_one=sha in folders) for sha in hashes)
        return {file.sha256 for found in files for file in found}


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
