"""The time, as the file system tells it by which files get their time stamps.

A file server has a clock of its own. Where it is behind ours, a file that was written this moment looks old, and its
time stamps would be trusted although the next write may leave the same ones (within one tick, which is a second or two
on some file systems). Where it is ahead, files look young for longer, and are only read once more than needed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from whyrun import disk
from whyrun.artifacts.durable import discard_file, temp_name
from whyrun.artifacts.file_systems import is_local
from whyrun.disk import Area


class FileClock:
    """`clock()`: now, in nanoseconds, never later than the file system of `folder` would say.

    Asked for the first time, it makes a file there to see which time that gets, and removes it again. A folder that is
    not there, or cannot be written to, tells nothing: then it is our own clock.
    """

    def __init__(self, folder: str | os.PathLike[str], now: Callable[[], int] = time.time_ns) -> None:
        self._folder = os.fspath(folder) or "."
        self._now = now
        self._behind: int | None = None

    def __call__(self) -> int:
        if self._behind is None:
            self._behind = max(0, self._measured())
        return self._now() - self._behind

    def _measured(self) -> int:
        path = os.path.join(self._folder, f".{temp_name()}")
        try:
            descriptor = disk.open(Area.STAT_CACHE, path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        except OSError:
            return 0
        try:
            # Our clock is read last: the time that all this took makes the other one seem further behind, never less.
            return -os.fstat(descriptor).st_ctime_ns + self._now()
        finally:
            os.close(descriptor)
            discard_file(Area.STAT_CACHE, path)


FURTHEST_BEHIND = 300 * 1_000_000_000  # nanoseconds: file servers that ask who one is refuse clocks that differ by more


class OtherClocks:
    """How far the clocks of other file systems than that of `folder` may be behind the one that it has.

    No file is made there to see it: those are folders of users. One that this kernel alone writes to has this kernel's
    clock. Of any other, such as a file server, it is only assumed that it is not further behind than any would be that
    is looked after: files there look old only after five minutes, and are read again each time until then.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = os.path.abspath(folder)
        self._behind: dict[int, int] = {}  # by device

    def behind(self, path: str | os.PathLike[str], device: int) -> int:
        """`device`: that of the file at `path`. Nanoseconds."""
        if not self._behind:
            self._behind[_device_of(self._folder)] = 0
        if device not in self._behind:
            self._behind[device] = 0 if is_local(os.fspath(path)) else FURTHEST_BEHIND
        return self._behind[device]


def _device_of(folder: str) -> int:
    """Also of one that is still to be made: its device is that of the folder above it."""
    try:
        return os.stat(folder).st_dev
    except OSError:
        above = os.path.dirname(folder)
        return _device_of(above) if above != folder else 0
