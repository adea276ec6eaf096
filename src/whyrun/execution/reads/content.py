"""The content of what a step read, hashed after the step.

Whatever changed since the step began is `unknown`: nobody can tell which content the step read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterator
from typing import Literal, NamedTuple

from msgspec.structs import replace

from whyrun.artifacts.hashing import file_sha256
from whyrun.artifacts.stat_cache.rows import is_settled
from whyrun.execution.protocol.messages import SeenRead
from whyrun.execution.reads.glimpses import Sighted
from whyrun.log.reads import counted_names

# --- replaced ---------------------------------------------------------------------------------------------------------
# Did a path lead elsewhere before? A link that was switched while a step ran, or a folder that was renamed into place.
#
# The files behind them have not changed, so their own times tell nothing.


class Replaced:
    """Since one moment, apart from what the step itself wrote."""

    def __init__(self, root: str, began: int, written: Collection[str]) -> None:
        self._root, self._began = root, began
        # What the step wrote, and the folders above.
        self._own = {above for path in written for above in (path, *_above(path))}
        self._known: dict[str, bool] = {"": False, ".": False}

    def is_at(self, path: str) -> bool:
        """`path`: in the project, relative to it."""
        known = self._known.get(path)
        if known is None:
            self._known[path] = False  # a link may lead to itself
            known = self._known[path] = self.is_at(os.path.dirname(path)) or self._is_new(path)
        return known

    def _is_new(self, path: str) -> bool:
        try:
            status = os.lstat(f"{self._root}/{path}")
        except OSError:
            return False
        if stat.S_ISDIR(status.st_mode):
            # A new entry in a folder changes both times, a new name of the folder only one.
            return status.st_mtime_ns < self._began <= status.st_ctime_ns and path not in self._own
        if not stat.S_ISLNK(status.st_mode):
            return False
        if status.st_ctime_ns >= self._began and path not in self._own:
            return True
        target = os.path.normpath(os.path.join(self._root, os.path.dirname(path), os.readlink(f"{self._root}/{path}")))
        return target.startswith(f"{self._root}/") and self.is_at(target[len(self._root) + 1 :])


def _above(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[: end + 1]) for end in range(len(parts))]


# --- content ----------------------------------------------------------------------------------------------------------


_Signature = tuple[int, ...]


class _Last(NamedTuple):
    """The step before."""

    sighted: tuple[Sighted, Sighted]
    files: dict[str, _Signature]
    found: list[SeenRead]


class ReadContent:
    """Of one worker, which hashes a file that many steps read once."""

    def __init__(self, project: str, clock: Callable[[], int], *, live: bool) -> None:
        """`clock`: now, in nanoseconds, never later than the clock of the project's file system. `live`: the project is
        the user's own, in which stays what a step writes; else it is a copy."""
        self._root, self._clock, self._live = project.rstrip("/"), clock, live
        self.copy: str | None = None  # of the project, in which the present step works, and nobody else
        self._known: dict[str, tuple[_Signature, str]] = {}
        self._settled: dict[str, _Signature] = {}  # the files of the present step whose signature proves their content
        self._last: _Last | None = None
        self._since: dict[str, int] = {}  # what this process read → when the first step began that had read it

    def stays_read(self, sighted: Sighted, began: int) -> None:
        """By this process itself: later steps in it count as readers, with the content that it had then."""
        for path in (*sighted.opened, *sighted.listed):
            self._since.setdefault(path, began)

    def of(self, python: Sighted, strace: Sighted, began: int) -> list[SeenRead]:
        """`began`: when the step began, by the same clock."""
        if (
            self.copy is None
            and self._last is not None
            and (python, strace) == self._last.sighted
            and self._is_as_before(self._last)
        ):
            return self._last.found
        self._settled.clear()
        updated = {*python.updated, *strace.updated}
        rewritten = {*python.written, *strace.written}
        written = updated | rewritten
        replaced = Replaced(self._root, began, written)
        seen_there = _seen(python) | _seen(strace)
        found: dict[str, SeenRead] = {}
        by: Literal["python", "strace"]
        for by, seen in (("python", python), ("strace", strace)):
            for path in seen.listed:
                if path not in found:
                    _put(found, self._folder(path, self._since.get(path, began), written), by, seen_there, replaced)
            for path in (*seen.opened, *seen.updated):
                if path not in found and path not in rewritten:
                    read = self._file(path, self._since.get(path, began), can_write=path in updated)
                    if read is not None and read.kind == "absent" and path in updated and path in seen_there:
                        continue  # such as the journal of a database
                    _put(found, read, by, seen_there, replaced)
        for path in python.texts:
            if path in found:
                found[path] = replace(found[path], as_text=True)
        reads = [found[path] for path in sorted(found)]
        whole = (
            self.copy is None and len(self._settled) == len(found) and not (python.listed or strace.listed or updated)
        )
        self._last = _Last((python, strace), dict(self._settled), reads) if whole else None
        return reads

    @staticmethod
    def _is_as_before(last: _Last) -> bool:
        """Most steps of a job read the same files, which nobody writes to."""
        try:
            return all(_signature(os.stat(path)) == signature for path, signature in last.files.items())
        except OSError:
            return False

    def _file_in_copy(self, path: str, copy: str, *, can_write: bool) -> SeenRead | None:
        """As the step leaves it: what it wrote itself is no read, and nobody else writes there."""
        try:
            if not os.path.isfile(f"{copy}/{path}"):
                return None if os.path.exists(f"{copy}/{path}") else SeenRead(path, "absent")
            sha256 = file_sha256(f"{copy}/{path}")
            if can_write and sha256 != file_sha256(f"{self._root}/{path}"):
                return None
        except OSError:
            return None
        return SeenRead(path, "file", sha256)

    def _file(self, path: str, began: int, *, can_write: bool) -> SeenRead | None:
        if self.copy is not None:
            return self._file_in_copy(path, self.copy, can_write=can_write)
        location = f"{self._root}/{path}"
        now = self._clock()
        try:
            status = os.stat(location)
            if not stat.S_ISREG(status.st_mode):
                return None  # a folder that was not listed, a pipe or a device
            if status.st_ctime_ns >= began:
                # What opened it to write most likely wrote.
                return None if can_write else SeenRead(path, "unknown")
            signature = _signature(status)
            known = self._known.get(location)
            if known is not None and known[0] == signature:
                self._settled[location] = signature
                return SeenRead(path, "file", known[1])
            sha256 = file_sha256(location)
        except (FileNotFoundError, NotADirectoryError):
            return SeenRead(path, "absent")
        except OSError:
            return None  # the step could not read it either
        if is_settled(status.st_mtime_ns, status.st_ctime_ns, now):
            self._known[location] = signature, sha256
            self._settled[location] = signature
        return SeenRead(path, "file", sha256)

    def _folder(self, path: str, began: int, written: Collection[str]) -> SeenRead | None:
        root = self._root if self.copy is None else self.copy
        location = f"{root}/{path}" if path != "." else root
        try:
            changed_at = os.stat(location).st_ctime_ns
            names = os.listdir(location)
        except FileNotFoundError:
            return SeenRead(path, "absent")
        except NotADirectoryError:
            return self._file(path, began, can_write=False)
        except OSError:
            return None
        own = set(_names_in(path, written))
        # What the step wrote there is there for the next plan, too, which cannot know who wrote it.
        passing = set() if self._live else {name for name in own if _changed_since(f"{location}/{name}", began)}
        counted = counted_names(names, passing)
        if self.copy is not None or changed_at < began:
            return SeenRead(path, "folder", names=counted)
        new = {name for name in names if _changed_since(f"{location}/{name}", began)}
        if not new and not own:
            return SeenRead(path, "unknown")  # something was removed while the step ran
        return SeenRead(path, "folder", names=counted, changed=sorted(new.intersection(counted) - own))


def _signature(status: os.stat_result) -> _Signature:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _seen(sighted: Sighted) -> set[str]:
    """What was there when the step opened or listed it."""
    return {*sighted.opened, *sighted.listed, *sighted.updated}.difference(sighted.missing)


def _put(
    found: dict[str, SeenRead],
    read: SeenRead | None,
    by: Literal["python", "strace"],
    seen: Collection[str],
    replaced: Replaced,
) -> None:
    if read is None:
        return
    if read.path in seen if read.kind == "absent" else replaced.is_at(read.path):
        read = SeenRead(read.path, "unknown")
    found[read.path] = replace(read, by=by)


def _changed_since(location: str, began: int) -> bool:
    try:
        return os.lstat(location).st_ctime_ns >= began
    except OSError:
        return True


def _names_in(folder: str, paths: Collection[str]) -> Iterator[str]:
    start = "" if folder == "." else f"{folder}/"
    return (path[len(start) :].partition("/")[0] for path in paths if path.startswith(start))
