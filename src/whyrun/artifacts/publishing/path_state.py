"""The state of a path without reading its content: enough to see whether it was changed since.

The state of a folder includes all files in it, because an edit of a file does not change the times of the folder.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from dataclasses import dataclass

from whyrun.artifacts.stat_cache.file_times import clock_skew, is_settled

_skews: dict[int, int] = {}  # by device: how far its clock may be behind ours, in nanoseconds


@dataclass(frozen=True, slots=True)
class PathState:
    status: os.stat_result
    inside: str = ""  # of a folder: a hash of the names and time stamps of all files in it
    settled: bool = False  # a write after this look changes the time stamps

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.status.st_mode)

    def looks_like(self, before: PathState, *, moved: bool = False) -> bool:
        """Whether nothing has changed. `moved`: it was renamed since, which changes its ctime."""
        mine, theirs = self.status, before.status
        return (
            (mine.st_ino, mine.st_mode, mine.st_size, mine.st_mtime_ns, self.inside)
            == (theirs.st_ino, theirs.st_mode, theirs.st_size, theirs.st_mtime_ns, before.inside)
        ) and (moved or mine.st_ctime_ns == theirs.st_ctime_ns)


def look_at(path: str) -> PathState | None:
    """The state of a path; None if it does not exist."""
    now = time.time_ns()
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    now -= _skew_at(path, status)
    settled = is_settled(status.st_mtime_ns, status.st_ctime_ns, now)
    if not stat.S_ISDIR(status.st_mode):
        return PathState(status, "", settled)
    inside, all_settled = _look_inside(path, now)
    return PathState(status, inside, settled and all_settled)


def look_at_open(descriptor: int) -> PathState:
    """The state of an open file, which may have lost its name."""
    return PathState(os.fstat(descriptor))


def _look_inside(top: str, now: int) -> tuple[str, bool]:
    """(hash of all names and time stamps, whether all are settled). A hash, because there may be a million files."""
    hasher = hashlib.sha256()
    settled = True
    folders = [top]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(folder) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                name = os.fsencode(entry.path[len(top) :])
                facts = (name, status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
                hasher.update(b"%d %r" % (len(name), facts))
                settled = settled and is_settled(status.st_mtime_ns, status.st_ctime_ns, now)
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
        except (FileNotFoundError, NotADirectoryError):
            return f"written to at {time.time_ns()}", False  # it is being changed: equal to no other state
    return hasher.hexdigest(), settled


def _skew_at(path: str, status: os.stat_result) -> int:
    """How far the clock of this file system may be behind: see `file_times.py`."""
    if status.st_dev not in _skews:
        # The target of a symlink may be on another file system.
        folder = os.path.dirname(path) if stat.S_ISLNK(status.st_mode) else path
        _skews[status.st_dev] = clock_skew(folder)
    return _skews[status.st_dev]
