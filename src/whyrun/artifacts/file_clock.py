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
