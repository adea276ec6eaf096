"""Getting bytes onto the disk, and never showing half of a file.

`syncfs` is one call for everything that a run wrote since the last one, which is why many events can share one sync;
an fsync per file would cost more than most steps.
"""

from __future__ import annotations

import os
import zlib
from functools import cache
from itertools import count
from typing import Any

_numbers = count()


@cache
def _syncfs() -> Any:
    """The C function, or None where the system has none. ctypes is imported only by a run."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    function = getattr(libc, "syncfs", None)
    if function is not None:
        function.argtypes = [ctypes.c_int]
        function.restype = ctypes.c_int
    return function


def sync_filesystem(place: int | str | os.PathLike[str]) -> None:
    """Everything written so far to the file system of `place` (an open descriptor or a path) is on disk."""
    if not isinstance(place, int):
        descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
        try:
            sync_filesystem(descriptor)
        finally:
            os.close(descriptor)
        return
    function = _syncfs()
    if function is None:
        os.sync()
        return
    if function(place) != 0:
        import ctypes

        number = ctypes.get_errno()
        raise OSError(number, f"syncfs: {os.strerror(number)}")


def fsync_dir(path: str | os.PathLike[str]) -> None:
    """The names in this folder are on disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """`os.write` may take less than it is given; this takes all, or raises."""
    written = os.write(descriptor, data)
    if written < len(data):
        view = memoryview(data)
        while written < len(data):
            written += os.write(descriptor, view[written:])


def temp_name() -> str:
    """A file name that no other process uses, now or after a crash of this one."""
    return f"tmp-{os.getpid()}-{os.urandom(4).hex()}-{next(_numbers)}"


def atomic_write(path: str | os.PathLike[str], data: bytes, sync: bool = False) -> None:
    """The file has either its old content or all of `data`; with `sync`, also after a power cut."""
    folder, _ = os.path.split(os.fspath(path))
    temp = os.path.join(folder, f".{temp_name()}")
    descriptor = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        try:
            write_all(descriptor, data)
            if sync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temp, path)
    except BaseException:
        os.unlink(temp)
        raise
    if sync:
        fsync_dir(folder or ".")


def with_checksum(data: bytes) -> bytes:
    """Derived data as it is kept in a file, so that a changed byte is noticed: see `checked`."""
    return zlib.crc32(data).to_bytes(4, "big") + data


def checked(data: bytes) -> memoryview:
    """What `with_checksum` was given; ValueError if it is not that any more. Against accidents, not against malice."""
    body = memoryview(data)[4:]
    if data[:4] != zlib.crc32(body).to_bytes(4, "big"):
        raise ValueError("the checksum does not fit")
    return body
