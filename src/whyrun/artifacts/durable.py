"""Atomic writes, checksums of derived files, and the removal of damaged blobs."""

from __future__ import annotations

import fcntl
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import count

from whyrun import disk
from whyrun.artifacts.hashing import descriptor_sha256
from whyrun.disk import Area

_numbers = count()


def write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes to a pipe, a socket or a file outside the state. `os.write` may write only a part."""
    written = os.write(descriptor, data)
    if written < len(data):
        view = memoryview(data)
        while written < len(data):
            written += os.write(descriptor, view[written:])


def clear_up(failed: BaseException, clear: Callable[[], None]) -> None:
    """Clean up after a failure. If that fails as well, add a note; the first error stays the one that is raised."""
    try:
        clear()
    except OSError as second:
        failed.add_note(f"cleaning up failed as well: {second}")


def temp_name() -> str:
    """A unique file name, also after a crash of this process."""
    return f"tmp-{os.getpid()}-{os.urandom(4).hex()}-{next(_numbers)}"


def atomic_write(path: str | os.PathLike[str], data: bytes, area: Area, sync: bool = False, mode: int = 0o666) -> None:
    """Replace a file: readers see its old content or all of `data`. With `sync`, also after a power cut."""
    folder, _ = os.path.split(os.fspath(path))
    temp = os.path.join(folder, f".{temp_name()}")
    try:
        descriptor = disk.open(area, temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except OSError as problem:
        problem.filename = os.fspath(path)  # more useful in a message than the temporary name
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


def write_output(path: str | os.PathLike[str], data: bytes, mode: int = 0o666) -> None:
    """Write a file that the user names for output. A link is followed. A file is replaced at once; a device or pipe
    gets the bytes and stays what it is."""
    try:
        kind = os.stat(path).st_mode
    except FileNotFoundError:
        kind = stat.S_IFREG
    if stat.S_ISREG(kind) or stat.S_ISDIR(kind):
        atomic_write(os.path.realpath(path), data, Area.SAVED, mode=mode)
        return
    descriptor = disk.open(Area.SAVED, path, os.O_WRONLY)
    try:
        disk.write(Area.SAVED, descriptor, data)
    finally:
        os.close(descriptor)


def remove_half_written(folder: str | os.PathLike[str], before: float) -> None:
    """Remove files that a killed `atomic_write` left before this time. A newer one may still be in use."""
    try:
        with os.scandir(folder) as entries:
            old = [e.path for e in entries if e.name.startswith(".tmp-") and e.stat().st_mtime < before]
    except FileNotFoundError:
        return
    for path in old:
        discard_file(Area.INDEX, path)


def discard_file(area: Area, path: str) -> None:
    """Remove a file after a failure, ignoring errors. A later run removes what is left."""
    with suppress(OSError):
        disk.unlink(area, path)


def with_checksum(*parts: bytes) -> bytes:
    """Derived data with a checksum in front: see `checked`."""
    checksum = 0
    for part in parts:
        checksum = zlib.crc32(part, checksum)
    return b"".join([checksum.to_bytes(4, "big"), *parts])


def checked(data: bytes) -> memoryview:
    """The data without its checksum; ValueError if it does not match. Against accidents, not against malice."""
    body = memoryview(data)[4:]
    if data[:4] != zlib.crc32(body).to_bytes(4, "big"):
        raise ValueError("the checksum does not match")
    return body


# --- removes a damaged blob without ever removing a good one that another process puts in its place -------------------
# A process that removes a damaged blob has read it, but `unlink` removes whatever has the name by then: perhaps good
# bytes that another process has just put there, the only copy. So replacing a blob takes a shared lock on `store/lock`,
# and removing one takes it exclusively, from the last look at the file to its removal. (Renaming the blob first, and
# back if it was another one, needs no lock. But other processes would miss the blob for a moment, and a kill would lose
# its name.)
#
# `gc` does not need this lock: nothing is put into the store while it removes (`StoreLock`).


_LOCK = "lock"


def replacing_blob(root: str) -> AbstractContextManager[None]:
    """Hold this lock while a blob takes a name that exists already. A new name needs no lock: a process that is about
    to remove a blob has seen an existing one."""
    return _locked(root, fcntl.LOCK_SH)


def remove_if_damaged(blob: str, sha256: str) -> bool:
    """Remove a blob whose bytes do not match its hash. True: it was damaged, and these bytes are gone.

    FileNotFoundError if there is no blob.
    """
    descriptor = os.open(blob, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if descriptor_sha256(descriptor) == sha256:
            return False
        # The file is open, so its inode number cannot be reused, and the comparison is safe.
        with _locked(os.path.dirname(os.path.dirname(blob)), fcntl.LOCK_EX):
            if _is_same(descriptor, blob):
                disk.unlink(Area.STORE, blob)
    finally:
        os.close(descriptor)
    return True


def _is_same(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False  # another process has removed it


@contextmanager
def _locked(root: str, kind: int) -> Iterator[None]:
    """Wait for the lock: it is never held for longer than a rename takes."""
    descriptor = _open_lock(root)
    try:
        fcntl.flock(descriptor, kind)
        try:
            yield
        finally:
            # Closing is not enough: a process forked meanwhile has the descriptor, too.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


def _open_lock(root: str) -> int:
    path = os.path.join(root, _LOCK)
    try:
        return disk.open(Area.STORE, path, os.O_RDWR | os.O_CREAT)
    except FileNotFoundError:
        disk.make_folders(Area.STORE, root)
        return disk.open(Area.STORE, path, os.O_RDWR | os.O_CREAT)
