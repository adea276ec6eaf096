"""The lock of a workflow: only its holder may write runs. It is an OS lock, so a dead process never holds it.

The lock file names the holder; that is valid only while the lock is held.

All workflows of a project share one store. A process that writes runs also holds a share of the store's lock; a process
that removes from the store holds it exclusively (`StoreLock`). So `gc` cannot remove a blob that a run has decided to
reuse, or has stored and not recorded yet. The workflow's lock is taken first, then the store's. No process waits for a
lock that is held for long, so there can be no deadlock.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, Self

import msgspec

from whyrun import disk
from whyrun.disk import Area
from whyrun.errors import WhyrunError, error
from whyrun.log.decoding import decoded
from whyrun.log.events import UNREADABLE
from whyrun.log.journal import Clock, Journal, timestamp
from whyrun.log.sync_mark import Synced

if TYPE_CHECKING:
    from whyrun.log.runs import RunRef, WorkflowState

# `holder_and_state` takes the lock for a moment; a run that meets it tries again.
_PATIENCE = 0.25
_PAUSE = 0.01
_SECTOR = 512  # bytes: a disk writes all of a sector or nothing
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Holder(msgspec.Struct, frozen=True, omit_defaults=True):
    pid: int
    host: str
    started: str
    run: str | None = None
    synced: Synced | None = None


class _First(msgspec.Struct):
    """What is read of the first event of a run."""

    ts: str


_first = cache(lambda: msgspec.json.Decoder(_First))
_holder = cache(lambda: msgspec.json.Decoder(Holder))
_held: weakref.WeakSet[RunLock | StoreLock] = weakref.WeakSet()


class RunLock:
    """`with RunLock.of(state, clock) as lock: …`. Raises LOCKED at once if another process has it."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        clock: Clock,
        store_lock: str | os.PathLike[str] | None = None,
        *,
        to_make_room: bool = False,
    ) -> None:
        self.path = os.fspath(path)
        self._to_make_room = to_make_room
        self._store_lock = store_lock
        self._clock = clock
        self._descriptor: int | None = None
        self._share: int | None = None  # in the store's lock
        self._holder: Holder | None = None

    @classmethod
    def of(cls, state: WorkflowState, clock: Clock, *, to_make_room: bool = False) -> RunLock:
        """`to_make_room`: the holder only removes files, so on a full disk it need not write its name into the lock."""
        return cls(state.lock_path, clock, state.store_lock, to_make_room=to_make_room)

    @property
    def held(self) -> bool:
        return self._descriptor is not None

    def __enter__(self) -> Self:
        if self._descriptor is not None:
            raise AssertionError("the lock is taken twice by one run")
        disk.make_folders(Area.LOCK, os.path.dirname(self.path))
        # Close-on-exec: a step that outlives its run must not keep the lock.
        descriptor = disk.open(Area.LOCK, self.path, os.O_RDWR | os.O_CREAT)
        try:
            _acquire(descriptor, fcntl.LOCK_EX, lambda: _locked(self.path, _read(descriptor)))
            if self._store_lock is not None:
                self._share = _share_of(self._store_lock)
            self._descriptor = descriptor
            _held.add(self)
            before = _read(descriptor)
            synced = before.synced if before is not None else None  # kept until the next run: a repair needs it
            if synced is not None and not os.path.exists(f"{os.path.dirname(self.path)}/runs/{synced.run}"):
                # That run is gone, and the next run gets its name, so its sync mark is not valid any more. The lock
                # still names it until then, whatever the lock is held for: `gc` must know of it.
                synced = Synced(synced.run, 0)
            with _unless_disk_full(self._to_make_room):
                self._write_holder(Holder(os.getpid(), os.uname().nodename, timestamp(self._clock()), synced=synced))
        except BaseException:
            self._descriptor = None
            self._leave_store()
            os.close(descriptor)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave_store()
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            # The file stays: removing it would let two processes lock two files of the same name. Its text stays after
            # a failure, because a repair needs the sync mark, and if the lock was not held for a run (a prune), because
            # that repairs nothing. After a run the text names it: if all runs are lost one day, this shows that there
            # was one.
            holder = self._holder
            assert holder is not None
            try:
                if kind is None and holder.run is not None:
                    _write_text(descriptor, msgspec.structs.replace(holder, synced=Synced(holder.run, 0)))
                elif holder.synced is None:
                    disk.cut(Area.LOCK, descriptor, 0)
            finally:
                os.close(descriptor)

    def announce(self, run: str, journal: Journal | None = None) -> None:
        """Record which run the lock is held for, and from now on how far its log is synced."""
        if self._holder is None or self._descriptor is None:
            raise AssertionError("only the holder of a lock may announce a run")
        self._write_holder(msgspec.structs.replace(self._holder, run=run, synced=Synced(run, 1)))
        if journal is not None:
            journal.on_synced = self._note_synced

    def synced_of(self, run: str) -> int:
        """The `seq` up to which that run was synced, as the last holder recorded it; 0 if that is not known."""
        synced = self._holder.synced if self._holder is not None else None
        return synced.seq if synced is not None and synced.run == run else 0

    def _note_synced(self, seq: int, for_good: bool) -> None:
        # Seldom synced itself: after a power loss the mark may be too low, and never too high.
        if self._holder is not None and self._holder.run is not None and self._descriptor is not None:
            self._write_holder(msgspec.structs.replace(self._holder, synced=Synced(self._holder.run, seq)))
            if for_good:
                disk.sync(Area.LOCK, self._descriptor)

    def _write_holder(self, holder: Holder) -> None:
        assert self._descriptor is not None
        self._holder = holder
        _write_text(self._descriptor, holder)

    def _drop_in_child(self) -> None:
        """In a forked child: it shares the lock with its parent and would keep it after the parent's death."""
        self._leave_store()
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _leave_store(self) -> None:
        share, self._share = self._share, None
        if share is not None:
            os.close(share)


class StoreLock:
    """`with StoreLock(state.store_lock, clock, in_use): …`: while it is held, nobody writes runs of any workflow.

    `in_use()` is the error to raise if some process writes runs now.
    """

    def __init__(self, path: str | os.PathLike[str], clock: Clock, in_use: Callable[[], WhyrunError]) -> None:
        self.path = os.fspath(path)
        self._clock = clock
        self._in_use = in_use
        self._descriptor: int | None = None

    def __enter__(self) -> Self:
        descriptor = disk.open(Area.LOCK, self.path, os.O_RDWR | os.O_CREAT)
        try:
            _acquire(descriptor, fcntl.LOCK_EX, self._in_use)
            with _unless_disk_full(True):
                _write_text(descriptor, Holder(os.getpid(), os.uname().nodename, timestamp(self._clock())))
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        _held.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor is not None:
            disk.cut(Area.LOCK, self._descriptor, 0)
        self._drop_in_child()

    def _drop_in_child(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def _acquire(descriptor: int, kind: int, refused: Callable[[], WhyrunError]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise refused() from None
        time.sleep(_PAUSE)


def _share_of(path: str | os.PathLike[str]) -> int:
    """Take a share of the store's lock; returns the descriptor that holds it."""
    descriptor = disk.open(Area.LOCK, path, os.O_RDWR | os.O_CREAT)
    try:
        _acquire(descriptor, fcntl.LOCK_SH, lambda: _being_cleared(os.fspath(path), _read(descriptor)))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextmanager
def _unless_disk_full(allowed: bool) -> Iterator[None]:
    """Write who holds a lock, unless the disk is full: freeing space must not need space. Others then read "another
    process"."""
    try:
        yield
    except OSError as problem:
        if not allowed or problem.errno not in _FULL:
            raise


def _write_text(descriptor: int, holder: Holder) -> None:
    data = msgspec.json.encode(holder)
    # Always of one length: if it grew or shrank, a power loss could leave the new text with the old length, and the
    # sync mark could not be read any more.
    data = data.ljust((len(data) // _SECTOR + 1) * _SECTOR - 1) + b"\n"
    os.lseek(descriptor, 0, os.SEEK_SET)
    disk.write(Area.LOCK, descriptor, data)
    disk.cut(Area.LOCK, descriptor, len(data))


def _drop_all_in_child() -> None:
    for lock in list(_held):
        lock._drop_in_child()


os.register_at_fork(after_in_child=_drop_all_in_child)


def holder(path: str | os.PathLike[str]) -> Holder | None:
    """The holder of the lock; None if there is none (or it has not written its name yet)."""
    return holder_and_state(path)[1]


@contextmanager
def kept_free(path: str | os.PathLike[str]) -> Iterator[bool]:
    """Whether nobody has the lock. If so, nobody takes it in the `with` block, which must be short: whoever wants it
    waits for a moment only. Writes nothing, unlike `RunLock`."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield False  # whoever makes the file takes it at once
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            free = True
        except BlockingIOError:
            free = False
        yield free
    finally:
        os.close(descriptor)


def holder_and_state(path: str | os.PathLike[str]) -> tuple[bool, Holder | None]:
    """Whether some process holds the lock now, and which. Does not wait."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False, None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True, _read(descriptor)
        return False, None
    finally:
        os.close(descriptor)


def running_run(state: WorkflowState) -> str | None:
    """The run that is going on: the one that the holder of the lock names, or has begun and not named yet.

    Readers list the runs first, then ask this, and then read the logs. A run that ends in between has its end in its
    log, and a run that begins in between is not in the list. So no open step is taken for one of a killed run.
    """
    held, holder = holder_and_state(state.lock_path)
    if not held:
        return None
    if holder is not None and holder.run is not None:
        return holder.run
    latest = state.runs()[-1:]
    # A run that began before was killed. The holder repairs it, or holds the lock for something else, such as a prune.
    return latest[0].name if latest and holder is not None and _began(latest[0]) >= holder.started else None


def _began(run: RunRef) -> str:
    """When a run began; empty if its log does not tell, which whoever reads the log reports."""
    try:
        with run.events_path.open("rb") as file:
            return decoded(_first().decode, file.readline()).ts
    except (FileNotFoundError, *UNREADABLE):
        return ""


def running_note(state: WorkflowState) -> str | None:
    """A note for readers of the log that a run is going on. Only reads the lock, not the log."""
    held, holder = holder_and_state(state.lock_path)
    if not held:
        return None
    who = f" (pid {holder.pid})" if holder is not None else ""
    if holder is None or holder.run is None:
        return f"a run is about to start{who}"
    return f"{holder.run} is running{who}, so the answer changes until it ends"


def _read(descriptor: int) -> Holder | None:
    try:
        return decoded(_holder().decode, os.pread(descriptor, 65536, 0))
    except UNREADABLE:
        return None  # taken a moment ago, the name is not written yet


def _being_cleared(path: str, by: Holder | None) -> WhyrunError:
    who = "another process" if by is None else f"process {by.pid} on {by.host} (since {by.started})"
    hint = "wait for `whyrun gc` to end, then try again"
    return error("LOCKED", f"the store is being cleared by {who}", file=path, hint=hint)


def _locked(path: str, by: Holder | None) -> WhyrunError:
    who = "another process"
    hint = "wait for it to end, then try again"
    if by is not None:
        who = f"process {by.pid} on {by.host} (since {by.started}"
        who += f", run {by.run})" if by.run else ")"
        hint = f"wait for it to end, or stop it (`kill -INT {by.pid}` on {by.host}), then try again"
    return error("LOCKED", f"this workflow is being run by {who}", file=path, hint=hint)
