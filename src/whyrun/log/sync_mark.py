"""The sync mark: up to which event the log of a run is certainly on disk. It is kept in the lock file.

If a line before the mark is missing or torn, the log is damaged. The mark is written after the sync that it records. It
is synced itself only if something relies on that sync (a remembered request, a user's file that is replaced). So after
a power loss the mark may be too low, but never lower than anything relies on, and never too high.
"""

from __future__ import annotations

import os
from functools import cache

import msgspec

from whyrun.log.decoding import decoded
from whyrun.log.events import UNREADABLE

LOCK_FILE = "lock"


class Synced(msgspec.Struct, frozen=True):
    """Up to this event the log of a run, and all files and blobs that it refers to, are certainly on disk."""

    run: str
    seq: int


class _LockText(msgspec.Struct, frozen=True):
    synced: Synced | None = None


_decoder = cache(lambda: msgspec.json.Decoder(_LockText))


def lines_synced(log: str | os.PathLike[str]) -> int:
    """How many lines of this log (`…/runs/r0001/events.jsonl`) were synced for certain; 0 if that is not known.

    Call this before reading the log: a run in progress may sync more while the log is read.
    """
    folder = os.path.dirname(os.path.abspath(log))
    mark = last_synced(f"{os.path.dirname(os.path.dirname(folder))}/{LOCK_FILE}")
    return mark.seq if mark is not None and mark.run == os.path.basename(folder) else 0


def last_synced(lock: str | os.PathLike[str]) -> Synced | None:
    """The mark of the last run; None if there is none."""
    try:
        with open(lock, "rb", buffering=0) as file:
            data = file.read()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None  # a log outside of any state folder
    try:
        return decoded(_decoder().decode, data).synced if data else None
    except UNREADABLE:
        return None  # torn by a power loss
