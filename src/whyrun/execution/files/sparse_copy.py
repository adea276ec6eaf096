"""Copies the content of files in the kernel, which shares blocks if the file system can, and keeps holes.

A step may leave a file whose size is a terabyte and that holds nothing.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from typing import BinaryIO, cast

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


def append(
    source: BinaryIO, target: BinaryIO, copy: Callable[[BinaryIO, BinaryIO], object] = shutil.copyfileobj
) -> None:
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
