"""What stands under the name of a blob may be put there by many at once, and is taken away by one alone.

Who takes damaged bytes away knows what it has read, and the system can only remove a name, whatever that stands for by
then. Another process may have put the right bytes there meanwhile, perhaps the only copy of what its log speaks of. So
nobody puts anything in the place of what stands under a name between the last look at it and its removal:
`store/lock`, which is shared by all who do, and held for two calls by who removes. (To move the name aside first, and
to put it back where it was another, would need no lock. But others would miss the blob for that moment, and a kill
would leave it without its name.)

`gc` needs none of this: nobody puts anything while it removes (`StoreLock`).
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


def putting(root: str) -> AbstractContextManager[None]:
    """While a blob of this store gets a name that another has. A free name needs none: who is about to remove has seen
    something there, and is the only one who may take it away."""
    return _locked(root, fcntl.LOCK_SH)


def remove_if_damaged(blob: str, sha256: str) -> bool:
    """Remove what has other bytes than its name says. True: it had, and they do not stand there any more.

    FileNotFoundError where there is nothing.
    """
    descriptor = os.open(blob, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if descriptor_sha256(descriptor) == sha256:
            return False
        # It is open, so no other file can be taken for it: its number is not given again.
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
    """Waits for it: nobody holds it for longer than a rename takes."""
    descriptor = _open_lock(root)
    try:
        fcntl.flock(descriptor, kind)
        try:
            yield
        finally:
            # Closing is not enough: a process that was forked meanwhile has the descriptor, too.
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
