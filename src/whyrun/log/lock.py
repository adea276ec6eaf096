"""The one lock of a workflow: whoever holds it may write runs. An OS lock, so a dead process holds none.

The file says who holds it; what it says counts only while the lock is held.
"""

from __future__ import annotations

import fcntl
import os
import time
import weakref
from types import TracebackType
from typing import Self

import msgspec

from whyrun.errors import WhyrunError, error
from whyrun.log.journal import Clock, timestamp

# `is_held` and `holder` take the lock for a moment themselves; a run that meets one of them tries again.
_PATIENCE = 0.25
_PAUSE = 0.01


class Holder(msgspec.Struct, frozen=True, omit_defaults=True):
    pid: int
    host: str
    started: str
    run: str | None = None


_held: weakref.WeakSet[RunLock] = weakref.WeakSet()


class RunLock:
    """`with RunLock(state.lock_path, clock) as lock: …`. Raises LOCKED at once if another process has it."""

    def __init__(self, path: str | os.PathLike[str], clock: Clock) -> None:
        self.path = os.fspath(path)
        self._clock = clock
        self._descriptor: int | None = None
        self._holder: Holder | None = None

    @property
    def held(self) -> bool:
        return self._descriptor is not None

    def __enter__(self) -> Self:
        if self._descriptor is not None:
            raise AssertionError("the lock is taken twice by one run")
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        # Close-on-exec: a step that outlives its run must not keep the lock.
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            self._acquire(descriptor)
            self._descriptor = descriptor
            _held.add(self)
            self._tell(Holder(os.getpid(), os.uname().nodename, timestamp(self._clock())))
        except BaseException:
            self._descriptor = None
            os.close(descriptor)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            # The file stays: removing it would let two processes lock two files of the same name.
            os.ftruncate(descriptor, 0)
            os.close(descriptor)

    def announce(self, run: str) -> None:
        """Say which run the lock is held for."""
        if self._holder is None or self._descriptor is None:
            raise AssertionError("only the holder of a lock may announce a run")
        self._tell(msgspec.structs.replace(self._holder, run=run))

    def _acquire(self, descriptor: int) -> None:
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise _locked(self.path, _read(descriptor)) from None
            time.sleep(_PAUSE)

    def _tell(self, holder: Holder) -> None:
        assert self._descriptor is not None
        self._holder = holder
        data = msgspec.json.encode(holder) + b"\n"
        os.pwrite(self._descriptor, data, 0)
        os.ftruncate(self._descriptor, len(data))

    def _drop_in_child(self) -> None:
        """A forked child shares the lock with its parent, and would keep it after the parent's death."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


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
        return msgspec.json.decode(os.pread(descriptor, 65536, 0), type=Holder)
    except msgspec.DecodeError:
        return None  # locked this very moment, and not yet said by whom


def _locked(path: str, by: Holder | None) -> WhyrunError:
    who = "another process"
    hint = "wait for it to end, then try again"
    if by is not None:
        who = f"process {by.pid} on {by.host} (since {by.started}"
        who += f", run {by.run})" if by.run else ")"
        hint = f"wait for it to end, or stop it (`kill -INT {by.pid}` on {by.host}), then try again"
    return error("LOCKED", f"this workflow is being run by {who}", file=path, hint=hint)
