"""The folded log of a workflow, with an index so that ended runs are folded once.

The index is a cache: it may be deleted at any time, and is used only if the log of every run that it covers still has
the same inode, size and times. It covers ended runs only; a run without `run_complete` is folded again each time,
because a repair may still add to it.
"""

from __future__ import annotations

import os
import time
from array import array
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from sys import byteorder
from typing import TYPE_CHECKING

import msgspec

import whyrun
from whyrun import disk
from whyrun.artifacts.durable import atomic_write, checked, with_checksum
from whyrun.artifacts.hashing import bytes_sha256
from whyrun.disk import Area
from whyrun.errors import StateError, error
from whyrun.log.events import check_ids
from whyrun.log.lean_events import line_marks, read_lines, scan
from whyrun.log.lock import running_run
from whyrun.log.outcomes import lost_end
from whyrun.log.runs import RunRef, WorkflowState, log_without_start
from whyrun.snapshot.history.fold import RunFold
from whyrun.snapshot.history.fold_reads import GetBlob, no_blobs
from whyrun.snapshot.index import IndexedSteps, JobBlock, into_blocks
from whyrun.snapshot.observations import Observations
from whyrun.snapshot.records import Attempt, InputRecord, Records, StepRecord, run_name
from whyrun.snapshot.snapshot import Consumed

if TYPE_CHECKING:
    from whyrun.log.tombstones import Tombstone
    from whyrun.snapshot.history.bindings import BindingsReader

VERSION = 22
COMPARING = ("graph", "snapshot")  # packages whose code decides which columns are equal
TICK = 50_000_000  # nanoseconds
MUCH = 1_000_000  # events: after folding so many, use the records of the new index, which need far less memory
WORTH_INDEXING = 2000  # events: folding fewer is faster than writing the index


class _Covered(msgspec.Struct, array_like=True, frozen=True):
    number: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    marks: bytes  # see `line_marks`


class _Index(msgspec.Struct, array_like=True):
    version: int
    byteorder: str  # of its columns of numbers
    runs: list[_Covered]
    blocks: list[JobBlock]
    steps: dict[str, StepRecord]  # records that are in no block
    inputs: dict[str, InputRecord]
    inputs_of: int
    run: int
    seq: int
    pruned: str  # the digest of the tombstones that were folded with its runs
    observations: Observations


class _Memo(msgspec.Struct, array_like=True):
    code: str  # see `_comparing_code`
    digests: dict[str, str]  # by job


class History:
    """Implements `LogReader`.

    `through`: fold only the runs up to that number, for the log as it was then. `without`: tombstones of runs that
    still exist, for the log as it would be if they were pruned. `worth_indexing`: after folding this many events, write
    the index.
    """

    def __init__(
        self,
        state: WorkflowState,
        get_blob: GetBlob,
        *,
        through: int | None = None,
        without: Sequence[Tombstone] = (),
        worth_indexing: int = WORTH_INDEXING,
    ) -> None:
        self.state = state
        self._through, self._without = through, without
        self._list_runs()
        self._get_blob = get_blob
        self._partial = through is not None or bool(without)
        self._worth_indexing = worth_indexing
        self._records: Records | None = None
        self._marks: dict[int, Sequence[int]] = {}  # by number of an indexed run

    def _list_runs(self) -> None:
        runs, stones = self.state.checked_runs_and_tombstones(self._through)
        gone = {stone.number for stone in self._without}
        self._latest = runs[-1:]  # a prune keeps it
        last = self._through
        self.runs = [run for run in runs if run.number not in gone and (last is None or run.number <= last)]
        tombstones = [stone for stone in (*stones, *self._without) if last is None or stone.number <= last]
        self.tombstones = sorted(tombstones, key=lambda stone: stone.number)
        self._by_number = {run.number: run for run in self.runs}
        self._running = running_run(self.state)  # asked after the runs are listed, and before they are read

    @property
    def records(self) -> Records:
        if self._records is None:
            try:
                self._records = self._fold()
            except StateError as refused:
                if refused.diagnostics[0].code != "RUN_PRUNED":
                    raise
                self._list_runs()  # a run was pruned between the listing and the reading
                self._records = self._fold()
        return self._records

    @property
    def running(self) -> str | None:
        """The run that was going on when it was read, if its steps count here."""
        return self._running if self.records.open and self._running == run_name(self.records.run) else None

    @property
    def last_pruned(self) -> int:
        """The number of the latest pruned run that is folded here; 0 if there is none."""
        return self.tombstones[-1].number if self.tombstones else 0

    def check_known(self, step: str) -> None:
        """RUN_PRUNED if a pruned run may have made the latest result of this step.

        That is possible only for the log as it was after an earlier run (`through`).
        """
        record = self.records.steps.get(step)
        if self._through is not None and (0 if record is None else record.latest.run) < self.last_pruned:
            import shlex  # imported late: only this error needs it

            after, pruned = run_name(self._through), run_name(self.last_pruned)
            raise error(
                "RUN_PRUNED",
                f"what `{step}` had made by {after} is not known: a run that may have made it was pruned ({pruned})",
                hint=f"`whyrun history {shlex.quote(step)}` lists what is left, each with the run that made it",
            )

    @cached_property
    def _bindings(self) -> BindingsReader:
        from whyrun.snapshot.history.bindings import BindingsReader  # imported late: only where something changed

        return BindingsReader(self._get_blob)

    def consumed(self, attempts: Iterable[Attempt]) -> Mapping[tuple[int, int], Consumed]:
        wanted: dict[int, set[int]] = {}
        for attempt in attempts:
            wanted.setdefault(attempt.run, set()).add(attempt.seq)
        found: dict[tuple[int, int], Consumed] = {}
        for number, lines in wanted.items():
            path = self._by_number[number].events_path
            for seq, line in read_lines(path, lines, self._marks.get(number, ())).items():
                found[(number, seq)] = self._bindings.read(line, str(path), seq)
        return found

    def last_consumed(self, record: StepRecord | None) -> Consumed | None:
        """What the last success of one instance consumed; None without one."""
        success = record.last_success() if record is not None else None
        return self.consumed([success]).get((success.run, success.seq)) if success is not None else None

    def check_ids(self) -> None:
        for run in self.runs:
            for event in run.events():
                check_ids(event, str(run.events_path))

    # -- folding --

    def _fold(self) -> Records:
        index = None if self._partial else self._load()
        records = Records() if index is None else self._records_of(index)
        done = len(index.runs) if index is not None else 0
        self._marks = {run.number: array("Q", run.marks) for run in index.runs} if index is not None else {}
        ended: dict[int, tuple[int, int] | None] = {}
        fresh = 0
        tombstones = [stone for stone in self.tombstones if stone.number > records.run]
        for run in self.runs[done:]:
            while tombstones and tombstones[0].number < run.number:
                fold_tombstone(records, tombstones.pop(0))
            before = _times(run)
            has_ended, events = fold_run(records, run, self._get_blob)
            fresh += events
            if has_ended:
                ended[run.number] = before
            # By the log alone: plans do not depend on other files in the folder of a run.
            lost = lost_end(ended=has_ended, has_status=False, is_last=run in self._latest)
            if lost is not None:
                raise error("LOG_DAMAGED", lost.what, file=str(run.events_path), line=events, hint=lost.hint)
        for stone in tombstones:
            fold_tombstone(records, stone)
        new = self.runs[done:]
        if len(ended) == len(new) and fresh >= self._worth_indexing and not self._partial and all(map(_is_old, new)):
            covered = [*(index.runs if index is not None else ()), *map(_cover, new)]
            if all(ended[run.number] == _times(run) for run in new):  # else the log was written to while it was read
                saved = self._save(covered, records)
                index = self._load() if saved and fresh >= MUCH else None
                # Another process may have replaced the index meanwhile, with one of fewer runs.
                if index is not None and (index.run, index.seq) == (records.run, records.seq):
                    return self._records_of(index)
        return records

    # -- the memo of compared columns (see `build_planning_snapshot`), which is a cache, too --

    def load_memo(self) -> dict[str, str]:
        try:
            data = (self.state.index_dir / "memo").read_bytes()
            memo = msgspec.msgpack.decode(checked(data), type=_Memo)
        except (OSError, ValueError):
            return {}  # missing, damaged or of another version: it is made again
        return memo.digests if memo.code == _comparing_code() else {}

    def save_memo(self, memo: dict[str, str]) -> None:
        if self.runs and not self._partial:
            self._write("memo", [msgspec.msgpack.encode(_Memo(_comparing_code(), memo))])

    @property
    def _path(self) -> Path:
        return self.state.index_dir / "fold"

    def _load(self) -> _Index | None:
        try:
            data = self._path.read_bytes()
            index = msgspec.msgpack.decode(checked(data), type=_Index)
        except (OSError, ValueError, RecursionError):  # msgspec's errors are ValueErrors
            return None  # missing, damaged or of another version: it is made again
        if (index.version, index.byteorder) != (VERSION, byteorder) or len(index.runs) > len(self.runs):
            return None
        for covered, run in zip(index.runs, self.runs, strict=False):
            if covered.number != run.number or not _is_same(covered, run):
                return None
        return index if index.pruned == self._pruned_before(index.run) else None

    def _pruned_before(self, number: int) -> str:
        return bytes_sha256(msgspec.json.encode([stone for stone in self.tombstones if stone.number < number]))

    def _records_of(self, index: _Index) -> Records:
        covered, get_blob = self.runs[: len(index.runs)], self._get_blob
        steps = IndexedSteps(index.blocks, index.steps, self._read_records, lambda: fold_runs(covered, get_blob).steps)
        return Records(steps, index.inputs, index.inputs_of, index.run, index.seq, observations=index.observations)

    def _read_records(self, first: int, end: int) -> bytes:
        try:
            with (self.state.index_dir / "records").open("rb") as file:
                file.seek(len(with_checksum(b"")) + first)
                return file.read(end - first)
        except OSError:
            return b""

    def _save(self, runs: list[_Covered], records: Records) -> bool:
        if not records.observations.is_whole:
            return False  # a later plan may find the blob
        try:
            return self._saved(runs, records)
        except (OverflowError, ValueError, TypeError, RecursionError):
            # The log of an older version may hold values that the index cannot: integers of more than 64 bits, or
            # deeply nested values. Planning works without the index, only slower.
            return False

    def _saved(self, runs: list[_Covered], records: Records) -> bool:
        blocks, others, parts = into_blocks(records.steps)
        index = _Index(
            VERSION, byteorder, runs, blocks, others, records.inputs, records.inputs_of, records.run, records.seq,
            self._pruned_before(records.run), records.observations,
        )  # fmt: skip
        written = self._write("records", parts)
        del parts  # large, for a million steps
        return written and self._write("fold", [msgspec.msgpack.encode(index)])

    def _write(self, name: str, parts: Sequence[bytes]) -> bool:
        try:
            disk.make_folders(Area.INDEX, self.state.index_dir)
            atomic_write(self.state.index_dir / name, with_checksum(*parts), Area.INDEX)
            return True
        except OSError:
            return False  # no permission, or a read-only or full disk: planning works without the index, only slower


def fold_run(records: Records, run: RunRef, get_blob: GetBlob = no_blobs) -> tuple[bool, int]:
    """Fold one run into the records; returns whether it has ended, and its number of events."""
    fold = RunFold(records, run.number, str(run.events_path), get_blob)
    try:
        for events in scan(run.events_path):
            fold.feed(events)
    except FileNotFoundError:
        raise log_without_start(run) from None
    if not fold.seq:
        raise log_without_start(run)
    fold.finish()
    return fold.complete, fold.seq


def fold_tombstone(records: Records, stone: Tombstone) -> None:
    """Fold the tombstone of a pruned run. It has no steps: a run is pruned only if no step's record needs it."""
    for one in stone.inputs:
        records.inputs[one.id] = InputRecord(one.sha256, () if one.value is msgspec.UNSET else (one.value,))
    if stone.mode != "compare":
        records.inputs_of = stone.number
    records.run, records.seq = stone.number, stone.events


def fold_runs(runs: Sequence[RunRef], get_blob: GetBlob = no_blobs) -> Records:
    records = Records()
    for run in runs:
        fold_run(records, run, get_blob)
    return records


def _is_old(run: RunRef) -> bool:
    """Was its log last written long enough ago that another write would change its time stamps?"""
    return run.status().st_mtime_ns + TICK < time.time_ns()


def _times(run: RunRef) -> tuple[int, int] | None:
    try:
        status = run.status()
    except FileNotFoundError:
        return None
    return status.st_mtime_ns, status.st_ctime_ns


def _cover(run: RunRef) -> _Covered:
    status = run.status()
    return _Covered(
        run.number, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns,
        line_marks(run.events_path).tobytes(),
    )  # fmt: skip


def _is_same(covered: _Covered, run: RunRef) -> bool:
    try:
        status = run.status()
    except FileNotFoundError:
        return False
    return (covered.inode, covered.size, covered.mtime_ns, covered.ctime_ns) == (
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


@cache
def _comparing_code() -> str:
    """Identifies the code that compares columns. A memo of other code is not used: after a mended fault in the
    comparison, it would repeat the wrong skip."""
    package = Path(whyrun.__file__).parent
    found = [whyrun.__version__]
    for name in COMPARING:
        with os.scandir(package / name) as entries:
            files = sorted((entry.name, entry.stat()) for entry in entries if entry.name.endswith(".py"))
        found += [f"{name} {status.st_size} {status.st_mtime_ns}" for name, status in files]
    return "\n".join(found)
