"""The content of a file to another: in the kernel, which shares blocks where the file system can, and holes stay holes.

A step may leave a file that says it is a terabyte and holds nothing.
"""

from __future__ import annotations

import errno
import os

_CHUNK = 1 << 20
_NOT_HERE = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM)


def copy_content(source: int, target: int) -> None:
    """Between open files; the target is empty. What is appended meanwhile is not copied."""
    size = os.fstat(source).st_size
    os.ftruncate(target, size)
    position = 0
    while position < size:
        try:
            position = os.lseek(source, position, os.SEEK_DATA)
        except OSError as problem:
            if problem.errno == errno.ENXIO:
                return  # nothing but a hole to the end
            raise
        end = min(os.lseek(source, position, os.SEEK_HOLE), size)
        if not _copied_in_kernel(source, target, position, end):
            _copy(source, target, position, end)
        position = end


def _copied_in_kernel(source: int, target: int, position: int, end: int) -> bool:
    try:
        while position < end:
            copied = os.copy_file_range(source, target, end - position, position, position)
            if copied == 0:
                break  # it was cut meanwhile
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
