"""The one lock of a workflow: whoever holds it may write runs. An OS lock, so a dead process holds none.

The file says who holds it; what it says counts only while the lock is held.

All workflows of a project share one store. Whoever writes runs also holds the store's lock, together with others;
whoever removes from the store holds it alone (`StoreLock`). So nothing that a run has decided to reuse, or has stored
and not recorded yet, is taken away under it. Order: the workflow's lock, then the store's. Nobody waits for a lock that
is held for long, so there is no circle to wait in.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

import msgspec

from whyrun import disk
from whyrun.disk import Area
from whyrun.errors import WhyrunError, error
from whyrun.log.decoding import decoded
from whyrun.log.events import UNREADABLE
from whyrun.log.journal import Clock, Journal, timestamp
from whyrun.log.synced import Synced

if TYPE_CHECKING:
    from whyrun.log.runs import WorkflowState

# `is_held` and `holder` take the lock for a moment themselves; a run that meets one of them tries again.
_PATIENCE = 0.25
_PAUSE = 0.01
_SECTOR = 512  # bytes: a disk writes them all, or none
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Holder(msgspec.Struct, frozen=True, omit_defaults=True):
    pid: int
    host: str
    started: str
    run: str | None = None
    synced: Synced | None = None


_holder = msgspec.json.Decoder(Holder)
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
        """`to_make_room`: the holder only removes, so on a full disk it may stay unsaid who that is."""
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
            synced = before.synced if before is not None else None  # kept until the next run: a repair wants it
            if synced is not None and not os.path.exists(f"{os.path.dirname(self.path)}/runs/{synced.run}"):
                # It is gone, and the next run will have its name: how far it was synced is no word on that one. That
                # there was one stays said until then, whatever the lock is held for: `gc` must know.
                synced = Synced(synced.run, 0)
            with _may_stay_unsaid(self._to_make_room):
                self._tell(Holder(os.getpid(), os.uname().nodename, timestamp(self._clock()), synced=synced))
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
            # The file stays: removing it would let two processes lock two files of the same name. What it says stays
            # after a failure: the log may have no end, and whoever repairs it wants to know how far it was synced. And
            # it stays where the lock was held for something else than a run (a prune), which repairs nothing. After a
            # run it says that there was one: should all of them be gone one day, nothing else may tell of them.
            holder = self._holder
            assert holder is not None
            try:
                if kind is None and holder.run is not None:
                    _say(descriptor, msgspec.structs.replace(holder, synced=Synced(holder.run, 0)))
                elif holder.synced is None:
                    disk.cut(Area.LOCK, descriptor, 0)
            finally:
                os.close(descriptor)

    def announce(self, run: str, journal: Journal | None = None) -> None:
        """Say which run the lock is held for, and from here on how far its log is synced."""
        if self._holder is None or self._descriptor is None:
            raise AssertionError("only the holder of a lock may announce a run")
        self._tell(msgspec.structs.replace(self._holder, run=run, synced=Synced(run, 1)))
        if journal is not None:
            journal.on_synced = self._note_synced

    def synced_of(self, run: str) -> int:
        """The `seq` up to which the last holder knew that run to be synced; 0 where nobody can say."""
        synced = self._holder.synced if self._holder is not None else None
        return synced.seq if synced is not None and synced.run == run else 0

    def _note_synced(self, seq: int, for_good: bool) -> None:
        # Seldom synced itself: after a power cut it may say less than it could, and never more.
        if self._holder is not None and self._holder.run is not None and self._descriptor is not None:
            self._tell(msgspec.structs.replace(self._holder, synced=Synced(self._holder.run, seq)))
            if for_good:
                disk.sync(Area.LOCK, self._descriptor)

    def _tell(self, holder: Holder) -> None:
        assert self._descriptor is not None
        self._holder = holder
        _say(self._descriptor, holder)

    def _drop_in_child(self) -> None:
        """A forked child shares the lock with its parent, and would keep it after the parent's death."""
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

    `in_use()` is the error for who comes while somebody does.
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
            with _may_stay_unsaid(True):
                _say(descriptor, Holder(os.getpid(), os.uname().nodename, timestamp(self._clock())))
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
    """A share in the store's lock: the descriptor that holds it."""
    descriptor = disk.open(Area.LOCK, path, os.O_RDWR | os.O_CREAT)
    try:
        _acquire(descriptor, fcntl.LOCK_SH, lambda: _being_cleared(os.fspath(path), _read(descriptor)))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextmanager
def _may_stay_unsaid(allowed: bool) -> Iterator[None]:
    """Who holds a lock, where the disk has no room for that: the lock holds without it, and others read "another
    process". Making room must not need room."""
    try:
        yield
    except OSError as problem:
        if not allowed or problem.errno not in _FULL:
            raise


def _say(descriptor: int, holder: Holder) -> None:
    data = msgspec.json.encode(holder)
    # Always of one length: where it grew or shrank, a power cut could leave the new text in the old length, and what
    # was synced before could not be read any more.
    data = data.ljust((len(data) // _SECTOR + 1) * _SECTOR - 1) + b"\n"
    os.lseek(descriptor, 0, os.SEEK_SET)
    disk.write(Area.LOCK, descriptor, data)
    disk.cut(Area.LOCK, descriptor, len(data))


def _drop_all_in_child() -> None:
    for lock in list(_held):
        lock._drop_in_child()


os.register_at_fork(after_in_child=_drop_all_in_child)


def is_held(path: str | os.PathLike[str]) -> bool:
    """Whether some process holds the lock now. Does not wait."""
    return holder_and_state(path)[0]


def holder(path: str | os.PathLike[str]) -> Holder | None:
    """Who holds the lock now; None if nobody does (or they have not said yet)."""
    return holder_and_state(path)[1]


def holder_and_state(path: str | os.PathLike[str]) -> tuple[bool, Holder | None]:
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


def _read(descriptor: int) -> Holder | None:
    try:
        return decoded(_holder.decode, os.pread(descriptor, 65536, 0))
    except UNREADABLE:
        return None  # locked this very moment, and not yet said by whom


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
