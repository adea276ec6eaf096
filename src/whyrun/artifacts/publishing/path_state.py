"""What stands at a path, as far as can be seen without reading it: enough to tell whether it was written to since.

A folder is looked at with all that is in it: an edit of a file inside moves no time of the folder itself.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from dataclasses import dataclass

from whyrun.artifacts.file_clock import FURTHEST_BEHIND
from whyrun.artifacts.file_systems import is_local
from whyrun.artifacts.settled import is_settled

_behind: dict[int, int] = {}  # by device: how far its clock may be behind ours, in nanoseconds


@dataclass(frozen=True, slots=True)
class Standing:
    status: os.stat_result
    inside: str = ""  # of a folder: one text for the names and time stamps of all that is in it
    settled: bool = False  # whoever writes to it after this look leaves other time stamps

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.status.st_mode)

    def looks_like(self, before: Standing, *, moved: bool = False) -> bool:
        """Nothing tells it from what was seen before. `moved`: it has lost its name since, which moves its ctime."""
        mine, theirs = self.status, before.status
        return (
            (mine.st_ino, mine.st_mode, mine.st_size, mine.st_mtime_ns, self.inside)
            == (theirs.st_ino, theirs.st_mode, theirs.st_size, theirs.st_mtime_ns, before.inside)
        ) and (moved or mine.st_ctime_ns == theirs.st_ctime_ns)


def look_at(path: str) -> Standing | None:
    """None: nothing stands there."""
    now = time.time_ns()
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    now -= _clock_behind(path, status)
    settled = is_settled(status.st_mtime_ns, status.st_ctime_ns, now)
    if not stat.S_ISDIR(status.st_mode):
        return Standing(status, "", settled)
    inside, all_settled = _look_inside(path, now)
    return Standing(status, inside, settled and all_settled)


def look_at_open(descriptor: int) -> Standing:
    """What was opened there, whatever has the name now. It is compared with a look, and none is compared with it."""
    return Standing(os.fstat(descriptor))


def _look_inside(top: str, now: int) -> tuple[str, bool]:
    """A hash, and not a list: a folder may have a million files."""
    hasher = hashlib.sha256()
    settled = True
    folders = [top]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(folder) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
            for entry in entries:
                seen = entry.stat(follow_symlinks=False)
                name = os.fsencode(entry.path[len(top) :])
                told = (name, seen.st_ino, seen.st_mode, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)
                hasher.update(b"%d %r" % (len(name), told))
                settled = settled and is_settled(seen.st_mtime_ns, seen.st_ctime_ns, now)
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
        except (FileNotFoundError, NotADirectoryError):
            return f"written to at {time.time_ns()}", False  # somebody is at it: it looks like nothing else
    return hasher.hexdigest(), settled


def _clock_behind(path: str, status: os.stat_result) -> int:
    """A file server has a clock of its own: see `OtherClocks`."""
    if status.st_dev not in _behind:
        place = os.path.dirname(path) if stat.S_ISLNK(status.st_mode) else path  # it may lead anywhere
        _behind[status.st_dev] = 0 if is_local(place) else FURTHEST_BEHIND
    return _behind[status.st_dev]
