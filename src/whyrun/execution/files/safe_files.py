"""Reads and copies files that a step left, safely: follows no link, opens no special file, reads no more than a limit.

A step's files are not trusted, and processes that it left running may still change them.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

from whyrun.execution.files.tree_removal import DEEPEST, LONGEST, make_readable

# --- copying -----------------------------------------------------------------------------------------------------
#
# Copies the content of files in the kernel, which shares blocks if the file system can, and keeps holes.
#
# A step may leave a file whose size is a terabyte and that holds nothing.


_CHUNK = 1 << 20
_NOT_HERE = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM)


def copy_content(source: int, target: int) -> None:
    """Copy between open files. The target is empty. Data appended meanwhile is not copied."""
    os.ftruncate(target, os.fstat(source).st_size)
    for start, end in parts(source):
        if not _copied_in_kernel(source, target, start, end):
            _copy(source, target, start, end)


def parts(source: int, position: int = 0) -> Iterator[tuple[int, int]]:
    """The ranges of an open file that hold data, from a position on."""
    size = os.fstat(source).st_size
    while position < size:
        try:
            start = os.lseek(source, position, os.SEEK_DATA)
        except OSError as problem:
            if problem.errno == errno.ENXIO:
                return  # a hole up to the end
            raise
        position = min(os.lseek(source, start, os.SEEK_HOLE), size)
        yield start, position


class _Part:
    """A range of an open file, with the one method that a copy needs."""

    def __init__(self, source: int, start: int, end: int) -> None:
        self._source, self._position, self._end = source, start, end

    def read(self, size: int, /) -> bytes:
        data = os.pread(self._source, min(size, self._end - self._position), self._position)
        self._position += len(data)
        return data


def _part(source: BinaryIO, start: int, end: int) -> BinaryIO:
    return cast(BinaryIO, _Part(source.fileno(), start, end))


def file_parts(source: BinaryIO) -> Iterator[BinaryIO]:
    """The data ranges of a file, each as a file that can be read once."""
    for start, end in parts(source.fileno()):
        yield _part(source, start, end)


def copy_as_it_is(source: BinaryIO, target: BinaryIO) -> None:
    while piece := source.read(_CHUNK):
        target.write(piece)


def append(source: BinaryIO, target: BinaryIO, copy: Callable[[BinaryIO, BinaryIO], object] = copy_as_it_is) -> None:
    """Append a file to another at its current position, which is its end. `copy` gets each data range as a file."""
    position = 0
    for start, end in parts(source.fileno()):
        target.seek(start - position, os.SEEK_CUR)
        copy(_part(source, start, end), target)
        position = end
    target.seek(os.fstat(source.fileno()).st_size - position, os.SEEK_CUR)
    target.truncate()


def _copied_in_kernel(source: int, target: int, position: int, end: int) -> bool:
    try:
        while position < end:
            copied = os.copy_file_range(source, target, end - position, position, position)
            if copied == 0:
                break  # the file was truncated meanwhile
            position += copied
    except OSError as problem:
        if problem.errno not in _NOT_HERE:
            raise
        return False
    return True


def _copy(source: int, target: int, position: int, end: int) -> None:
    while position < end:
        data = os.pread(source, min(_CHUNK, end - position), position)
        if not data:
            return
        position += os.pwrite(target, data, position)


# --- reading -----------------------------------------------------------------------------------------------------


# Missing, or a link, socket or device: in all these cases there is nothing to read.
_NOTHING = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.ENODEV)

# A little more than `tree_removal` keeps: it names what it leaves out, so some of that has to arrive.
_DEEPEST, _LONGEST = DEEPEST + 4, LONGEST + 320


class FileTooLarge(Exception):
    """A file has more bytes than the reader may take into memory."""


def open_below(root: Path, path: str, flags: int = 0) -> int | None:
    """Open a regular file or folder part by part, so that no link leads out of `root`; None if there is none."""
    parts = path.split("/")
    if not {"", ".", ".."}.isdisjoint(parts):
        return None
    folder = os.open(root, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    for number, part in enumerate(parts, 1):
        try:
            inner = _open_at(folder, part, flags if number == len(parts) else os.O_DIRECTORY)
        finally:
            os.close(folder)
        if inner is None:
            return None
        folder = inner
    return folder


def _open_at(folder: int, name: str, flags: int) -> int | None:
    # Non-blocking: opening a named pipe would wait for a writer.
    flags |= os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        try:
            opened = os.open(name, flags, dir_fd=folder)
        except PermissionError:
            make_readable(name, folder)
            opened = os.open(name, flags, dir_fd=folder)
    except OSError as problem:
        if problem.errno in _NOTHING:
            return None
        raise
    mode = os.fstat(opened).st_mode
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return opened
    os.close(opened)
    return None


def read_below(root: Path, path: str, limit: int) -> bytes:
    """The content of a file; empty if there is none. Raises `FileTooLarge`."""
    descriptor = open_below(root, path)
    if descriptor is None:
        return b""
    try:
        status = os.fstat(descriptor)
        data = b"" if status.st_size > limit else _read(descriptor, limit + 1)  # one more: the file may be growing
    finally:
        os.close(descriptor)
    if max(status.st_size, len(data)) > limit:
        raise too_large(path, limit)
    return data


def head_below(root: Path, path: str, size: int) -> bytes:
    """The first bytes of a file; empty if there is none."""
    descriptor = open_below(root, path)
    if descriptor is None:
        return b""
    try:
        return _read(descriptor, size)
    finally:
        os.close(descriptor)


def _read(descriptor: int, size: int) -> bytes:
    pieces = []
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        while size and (piece := os.read(descriptor, min(_CHUNK, size))):
            pieces.append(piece)
            size -= len(piece)
    return b"".join(pieces)


def too_large(path: str, limit: int) -> FileTooLarge:
    return FileTooLarge(f"the worker left too much in `{path}`: more than {limit} bytes")


def tail_below(root: Path, path: str, size: int) -> bytes:
    """The last bytes of a file; empty if there is none."""
    descriptor = open_below(root, path)
    if descriptor is None:
        return b""
    try:
        status = os.fstat(descriptor)
        return b"" if stat.S_ISDIR(status.st_mode) else os.pread(descriptor, size, max(0, status.st_size - size))
    finally:
        os.close(descriptor)


def fetch_below(root: Path, path: str, target: Path) -> bool:
    """Copy a file; False if there is none."""
    descriptor = open_below(root, path)
    if descriptor is None:
        return False
    try:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            return False
        with open(target, "wb") as copy:
            copy_content(descriptor, copy.fileno())
    finally:
        os.close(descriptor)
    return True


def fetch_tree_below(root: Path, path: str, target: Path) -> bool:
    """Copy a folder, links as links; False if there is none."""
    folder = open_below(root, path, os.O_DIRECTORY)
    if folder is None:
        return False
    try:
        _copy_from(folder, target, 1, 0)
    finally:
        os.close(folder)
    return True


def is_copied(depth: int, length: int) -> bool:
    """Whether an entry at this depth, with a path of this length, is copied."""
    return depth <= _DEEPEST and length <= _LONGEST


def _copy_from(folder: int, target: Path, depth: int, length: int) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for name in os.listdir(folder):
        reached = length + len(os.fsencode(name)) + 1
        if not is_copied(depth, reached):
            continue
        try:
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        except FileNotFoundError:
            continue  # removed meanwhile
        if stat.S_ISLNK(mode):
            os.symlink(os.readlink(name, dir_fd=folder), target / name)
            continue
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            continue
        inner = _open_at(folder, name, 0)
        if inner is None:
            continue
        try:
            if stat.S_ISDIR(os.fstat(inner).st_mode):
                _copy_from(inner, target / name, depth + 1, reached)
            else:
                with open(target / name, "wb") as copy:
                    copy_content(inner, copy.fileno())
        finally:
            os.close(inner)
