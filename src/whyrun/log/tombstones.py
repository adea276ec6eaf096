"""What is left of a run that was pruned: `.whyrun/<workflow>/pruned.jsonl`, one JSON object a run, in their order.

The folder of the run is gone. Its number stays taken, the chain goes on through `previous_chain` and `chain`, and what
later plans still read of it stands here: the inputs that it recorded (later runs record only what changed since), files
of the user's that it saved before it wrote over them, versions of the user's own that it put in place, and places where
it published and no kept run does.

The file is replaced as a whole, so runs that are pruned together are pruned all or none. A run with a tombstone is
pruned, even where a kill has left its folder: readers pass over it, and the next holder of the lock removes it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import msgspec

from whyrun.artifacts.durable import atomic_write
from whyrun.disk import Area
from whyrun.errors import WhyrunError, error
from whyrun.log.decoding import decoded
from whyrun.log.events import UNREADABLE
from whyrun.log.journal import RUN_NAME

TOMBSTONES_FILE = "pruned.jsonl"

_DIGEST_KEY = b',"digest":"'
_DIGEST_TAIL = len(_DIGEST_KEY) + 64 + len(b'"}\n')
_TAG = b"tombstone/v1\n"
_LONGEST_NAME = 255  # as of a folder


class CarriedInput(msgspec.Struct, frozen=True, omit_defaults=True):
    """An `input_recorded` of the run. Without a hash: the input was gone by then."""

    id: str
    sha256: str
    size: int | None = None
    value: Any = msgspec.UNSET


class Displaced(msgspec.Struct, frozen=True, omit_defaults=True):
    """A `file_displaced` of the run: a file of the user's, whose only copy may be the blob."""

    path: str
    sha256: str
    section: str | None = None


class Adopted(msgspec.Struct, frozen=True):
    """An `artifact_adopted` of the run: a version of the user's own, which no job can make again."""

    artifact: str
    sha256: str
    type: str


class PublishedSite(msgspec.Struct, frozen=True):
    """Where the run published and no kept run does, and the content that it put there last."""

    artifact: str
    site: str
    sha256: str


class Tombstone(msgspec.Struct, frozen=True, kw_only=True):
    run: str
    mode: Literal["run", "compare", "adopt"]
    state: Literal["succeeded", "failed", "interrupted"]
    started: str
    ended: str
    events: int  # the `seq` of its last
    previous_chain: str
    chain: str
    pruned: str  # when
    inputs: list[CarriedInput] = []
    displaced: list[Displaced] = []
    published: list[PublishedSite] = []
    adopted: list[Adopted] = []

    @property
    def of_the_user(self) -> set[str]:
        """Hashes of what no job can make again: `gc` keeps it for ever."""
        hashes = {one.sha256 for one in self.displaced} | {one.sha256 for one in self.adopted}
        if self.mode == "adopt":  # tombstones from before they had `adopted` name it only where it was published
            hashes |= {one.sha256 for one in self.published}
        return hashes

    @property
    def number(self) -> int:
        return int(self.run[1:])


_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(Tombstone)


def read_tombstones(path: str | os.PathLike[str]) -> list[Tombstone]:
    """All of a workflow, in the order of their runs; LOG_DAMAGED where the file is not as it was written."""
    return [stone for stone, _ in _read(path)]


def add_tombstones(path: str | os.PathLike[str], stones: Iterable[Tombstone]) -> None:
    """Synced: when this returns, these runs are pruned too, whatever happens to their folders."""
    # What stands there stays to the byte: a newer version may have said more than is understood here.
    lines = {stone.number: line for stone, line in _read(path)} | {stone.number: _line(stone) for stone in stones}
    atomic_write(path, b"".join(lines[number] for number in sorted(lines)), Area.PRUNE, sync=True)


def _read(path: str | os.PathLike[str]) -> list[tuple[Tombstone, bytes]]:
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        return []
    found: list[tuple[Tombstone, bytes]] = []
    for number, line in enumerate(data.splitlines(keepends=True), 1):
        try:
            stone = decoded(_decoder.decode, line)
        except UNREADABLE as wrong:
            raise _damaged(path, number, f"this line is no tombstone: {wrong}") from None
        if line[-_DIGEST_TAIL:] != _digest_tail(line[:-_DIGEST_TAIL]):
            raise _damaged(path, number, f"the tombstone of `{stone.run[:40]}` is not as it was written (`digest`)")
        if not _is_run_name(stone.run) or (found and found[-1][0].number >= stone.number):
            raise _damaged(path, number, f"the tombstone of `{stone.run[:40]}` stands where it does not belong")
        found.append((stone, line))
    return found


def run_pruned(stone: Tombstone) -> WhyrunError:
    """For who asks for a run that is not there any more."""
    compared = stone.mode == "compare" and stone.state == "failed"
    how = "it was a comparison that found differences, or failed" if compared else f"it had {stone.state}"
    return error(
        "RUN_PRUNED",
        f"`{stone.run}` was pruned on {stone.pruned[:10]} ({how}; {stone.events} events)",
        hint="only its number, chain and recorded inputs are left; `whyrun runs` lists the runs that are kept",
    )


def _is_run_name(text: str) -> bool:
    return len(text) <= _LONGEST_NAME and RUN_NAME.fullmatch(text) is not None


def _line(stone: Tombstone) -> bytes:
    body = _encode(stone)[:-1]
    return body + _digest_tail(body)


def _digest_tail(body: bytes) -> bytes:
    return b'%b%b"}\n' % (_DIGEST_KEY, hashlib.sha256(_TAG + body).hexdigest().encode())


def _damaged(path: str | os.PathLike[str], line: int, what: str) -> WhyrunError:
    hint = "restore the file from a copy: it says which runs were pruned, and what planning still needs of them"
    return error("LOG_DAMAGED", what, file=os.fspath(path), line=line, hint=hint)
