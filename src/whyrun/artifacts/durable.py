"""Files that never show half of their content, and the checksums of derived ones."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from contextlib import suppress
from itertools import count

from whyrun import disk
from whyrun.disk import Area

_numbers = count()


def write_all(descriptor: int, data: bytes) -> None:
    """Into a pipe, a socket, or a file that is no state of ours. `os.write` may take less than it is given."""
    written = os.write(descriptor, data)
    if written < len(data):
        view = memoryview(data)
        while written < len(data):
            written += os.write(descriptor, view[written:])


def clear_up(failed: BaseException, clear: Callable[[], None]) -> None:
    """After a failure. If that fails as well, it is noted, and never told in place of what went wrong first."""
    try:
        clear()
    except OSError as second:
        failed.add_note(f"clearing up failed as well: {second}")


def temp_name() -> str:
    """A file name that no other process uses, now or after a crash of this one."""
    return f"tmp-{os.getpid()}-{os.urandom(4).hex()}-{next(_numbers)}"


def atomic_write(path: str | os.PathLike[str], data: bytes, area: Area, sync: bool = False) -> None:
    """The file has either its old content or all of `data`; with `sync`, also after a power cut."""
    folder, _ = os.path.split(os.fspath(path))
    temp = os.path.join(folder, f".{temp_name()}")
    try:
        descriptor = disk.open(area, temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    except OSError as problem:
        problem.filename = os.fspath(path)  # which means more to whoever reads it
        raise
    try:
        try:
            disk.write(area, descriptor, data)
            if sync:
                disk.sync(area, descriptor)
        finally:
            os.close(descriptor)
        disk.rename(area, temp, path)
    except BaseException:
        discard_file(area, temp)
        raise
    if sync:
        disk.sync_folder(area, folder or ".")


def remove_half_written(folder: str | os.PathLike[str], before: float) -> None:
    """What `atomic_write` left in a folder when it was killed before this time. A newer one may still be written to."""
    try:
        with os.scandir(folder) as entries:
            old = [e.path for e in entries if e.name.startswith(".tmp-") and e.stat().st_mtime < before]
    except FileNotFoundError:
        return
    for path in old:
        discard_file(Area.INDEX, path)


def discard_file(area: Area, path: str) -> None:
    """On the way out of a failure, which nothing here may hide. Litter that stays is removed by a later run."""
    with suppress(OSError):
        disk.unlink(area, path)


def with_checksum(*parts: bytes) -> bytes:
    """Derived data as it is kept in a file, so that a changed byte is noticed: see `checked`."""
    checksum = 0
    for part in parts:
        checksum = zlib.crc32(part, checksum)
    return b"".join([checksum.to_bytes(4, "big"), *parts])


def checked(data: bytes) -> memoryview:
    """What `with_checksum` was given; ValueError if it is not that any more. Against accidents, not against malice."""
    body = memoryview(data)[4:]
    if data[:4] != zlib.crc32(body).to_bytes(4, "big"):
        raise ValueError("the checksum does not fit")
    return body
