"""Removes a damaged blob without ever removing a good one that another process puts in its place.

A process that removes a damaged blob has read it, but `unlink` removes whatever has the name by then: perhaps good
bytes that another process has just put there, the only copy. So replacing a blob takes a shared lock on `store/lock`,
and removing one takes it exclusively, from the last look at the file to its removal. (Renaming the blob first, and back
if it was another one, needs no lock. But other processes would miss the blob for a moment, and a kill would lose its
name.)

`gc` does not need this lock: nothing is put into the store while it removes (`StoreLock`).
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from whyrun import disk
from whyrun.artifacts.hashing import descriptor_sha256
from whyrun.disk import Area

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
