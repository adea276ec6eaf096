"""Private copies of a step's inputs: what a step writes there changes nobody's files, and no name leads to them.

Where the file system can share blocks, files of any size are cloned. Elsewhere only small files are copied, and a
larger one is a link to the original, or a read-only view of it: writing gigabytes before a step would cost more than
most steps.
"""

from __future__ import annotations

import fcntl
import os
import stat

from whyrun.artifacts.durable import write_all
from whyrun.artifacts.hashing import is_program, walk_tree
from whyrun.disk import FICLONE
from whyrun.execution.files.input_views import ReadOnlyViews

LARGEST_FILE = 1 << 20  # bytes
LARGEST_STEP = 64 << 20  # bytes of all copies of one step
_BLOCK = 4096  # every file counts for at least as much: many tiny files take time, too
_CHUNK = 1 << 20


class PrivateCopies:
    """Puts inputs at the paths where a step finds them."""

    def __init__(self, views: ReadOnlyViews | None = None) -> None:
        """`views`: what stands where a file is neither cloned nor copied; None: a link."""
        self._views = views
        self._left = LARGEST_STEP
        self._cannot_clone: set[int] = set()  # devices of originals: another try would only take time

    def begin(self) -> None:
        """Begin another step: its copies have the whole limit."""
        self._left = LARGEST_STEP

    def end(self) -> None:
        """After a step, before its folders are emptied."""
        if self._views is not None:
            self._views.remove()

    def put(self, source: str, target: str) -> None:
        """Put a file or folder at a path that does not exist yet, as a private copy or as a link."""
        descriptor = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            if stat.S_ISDIR(status.st_mode):
                self._put_folder(source, target)
            elif self._takes(_cost(status.st_size)):
                self._put_file(descriptor, status, source, target)
            else:
                self._show(source, target)
        finally:
            os.close(descriptor)

    def _put_folder(self, source: str, target: str) -> None:
        """A folder of its own, in which only large files are links. A link as a whole if it exceeds the limit."""
        files, empty = walk_tree(source)
        if not self._takes(sum(_cost(os.stat(file.location).st_size) for file in files) + _BLOCK * len(empty)):
            self._show(source, target)
            return
        os.mkdir(target)
        for folder in sorted({*empty, *(os.path.dirname(file.path) for file in files)}):
            os.makedirs(f"{target}/{folder}", exist_ok=True)
        for file in files:
            descriptor = os.open(file.location, os.O_RDONLY | os.O_CLOEXEC)
            try:
                self._put_file(descriptor, os.fstat(descriptor), file.location, f"{target}/{file.path}")
            finally:
                os.close(descriptor)

    def _put_file(self, descriptor: int, status: os.stat_result, source: str, target: str) -> None:
        is_large = status.st_size > LARGEST_FILE
        data = os.read(descriptor, 4 if is_large else status.st_size + 1)
        has_bit = bool(status.st_mode & stat.S_IXUSR)
        can_run = has_bit or is_program(data)
        mode = 0o777 if can_run else 0o666  # the umask applies
        if is_large:
            if self._cloned(descriptor, status.st_dev, target, mode):
                return
            if can_run == has_bit:
                self._show(source, target)
                return
            # Else a program out of the store, which a step can start only if the mode says so: a copy has a mode.
        copy = _new_file(target, mode)
        try:
            while data:
                write_all(copy, data)
                data = os.read(descriptor, _CHUNK)
        finally:
            os.close(copy)

    def _cloned(self, source: int, device: int, target: str, mode: int) -> bool:
        if device in self._cannot_clone:
            return False
        copy = _new_file(target, mode)
        try:
            fcntl.ioctl(copy, FICLONE, source)
        except OSError:
            self._cannot_clone.add(device)
            os.unlink(target)
            return False
        finally:
            os.close(copy)
        return True

    def _show(self, source: str, target: str) -> None:
        if self._views is not None:
            self._views.put(source, target)
        else:
            os.symlink(os.path.abspath(source), target)

    def _takes(self, cost: int) -> bool:
        if cost > self._left:
            return False
        self._left -= cost
        return True


def _cost(size: int) -> int:
    """What a file takes of the limit. One above the largest is cloned or linked, so it takes no bytes."""
    return max(size, _BLOCK) if size <= LARGEST_FILE else _BLOCK


def _new_file(path: str, mode: int) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
