"""How far the log of a run was on the disk for certain, as its lock says. What of that is gone, or torn, is damage.

The lock is written after the sync of which it speaks. It is synced itself only where somebody relies on what was synced
(a remembered request, a file of the user's that is written over). So it may say less than is there, though never less
than was relied on; and never more.
"""

from __future__ import annotations

import os

import msgspec

from whyrun.log.decoding import decoded
from whyrun.log.events import UNREADABLE

LOCK_FILE = "lock"


class Synced(msgspec.Struct, frozen=True):
    """How far the log of a run, and the bytes that it speaks of, are on disk for certain."""

    run: str
    seq: int


class _Told(msgspec.Struct, frozen=True):
    synced: Synced | None = None


_decoder = msgspec.json.Decoder(_Told)


def lines_synced(log: str | os.PathLike[str]) -> int:
    """How many lines of this log (`…/runs/r0001/events.jsonl`) were synced for certain; 0 where nobody can say.

    Ask before reading the log: a run that goes on may sync more while it is read.
    """
    folder = os.path.dirname(os.path.abspath(log))
    told = last_synced(f"{os.path.dirname(os.path.dirname(folder))}/{LOCK_FILE}")
    return told.seq if told is not None and told.run == os.path.basename(folder) else 0


def last_synced(lock: str | os.PathLike[str]) -> Synced | None:
    """What the lock says of the last run; nothing is synced for certain after one that ended well."""
    try:
        with open(lock, "rb", buffering=0) as file:
            data = file.read()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None  # a log outside of any state
    try:
        return decoded(_decoder.decode, data).synced if data else None
    except UNREADABLE:
        return None  # a power cut has torn it
