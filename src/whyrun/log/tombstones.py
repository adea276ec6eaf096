"""Tombstones of pruned runs: `.whyrun/<workflow>/pruned.jsonl`, one JSON object per run, in the order of the runs.

The folder of a pruned run is gone. Its number stays taken, and its `previous_chain` and `chain` continue the chain. The
tombstone keeps all that later plans still read: the inputs that the run recorded (later runs record only changes), the
users' files that it saved before it replaced them, the versions that it adopted, and the sites where it published and
no kept run does.

The file is replaced as a whole, so runs that are pruned together are pruned all or none. A run with a tombstone counts
as pruned even if a kill has left its folder: readers skip it, and the next holder of the lock removes it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from whyrun import disk
from whyrun.artifacts.durable import atomic_write
from whyrun.disk import Area
from whyrun.errors import WhyrunError, error
from whyrun.log.decoding import decoded
from whyrun.log.events import UNREADABLE
from whyrun.log.journal import RUN_NAME

if TYPE_CHECKING:
    from whyrun.log.runs import WorkflowState

_DIGEST_KEY = b',"digest":"'
_DIGEST_TAIL = len(_DIGEST_KEY) + 64 + len(b'"}\n')
_TAG = b"tombstone/v1\n"
_LONGEST_NAME = 255  # bytes of a folder's name


class CarriedInput(msgspec.Struct, frozen=True, omit_defaults=True):
    """An `input_recorded` of the run. An empty hash: the input was gone by then."""

    id: str
    sha256: str
    size: int | None = None
    value: Any = msgspec.UNSET


class Displaced(msgspec.Struct, frozen=True, omit_defaults=True):
    """A `file_displaced` of the run: a user's file, whose only copy may be the blob."""

    path: str
    sha256: str
    section: str | None = None


class Adopted(msgspec.Struct, frozen=True):
    """An `artifact_adopted` of the run: a user's own version, which no job can make again."""

    artifact: str
    sha256: str
    type: str


class PublishedSite(msgspec.Struct, frozen=True):
    """A site where the run published and no kept run does, with the last content that it published."""

    artifact: str
    site: str
    sha256: str


class Tombstone(msgspec.Struct, frozen=True, kw_only=True):
    run: str
    mode: Literal["run", "compare", "adopt", "decide"]
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
        """Hashes of content that no job can make again: `gc` keeps it forever."""
        hashes = {one.sha256 for one in self.displaced} | {one.sha256 for one in self.adopted}
        if self.mode == "adopt":  # older tombstones have no `adopted`, and list only published versions
            hashes |= {one.sha256 for one in self.published}
        return hashes

    @property
    def number(self) -> int:
        return int(self.run[1:])


_encode = msgspec.json.Encoder().encode


@cache  # made late: it takes a while, and many commands do not need it
def _decoder() -> msgspec.json.Decoder[Tombstone]:
    return msgspec.json.Decoder(Tombstone)


def read_tombstones(path: str | os.PathLike[str]) -> list[Tombstone]:
    """All tombstones of a workflow, in the order of their runs; LOG_DAMAGED if the file was changed."""
    return [stone for stone, _ in _read(path)]


def add_tombstones(path: str | os.PathLike[str], stones: Iterable[Tombstone]) -> None:
    """Add tombstones and sync: when this returns, these runs count as pruned, whatever happens to their folders."""
    # Existing lines stay byte for byte: a newer version may have written fields that this one does not know.
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
            stone = decoded(_decoder().decode, line)
        except UNREADABLE as wrong:
            raise _damaged(path, number, f"this line is not a tombstone: {wrong}") from None
        if line[-_DIGEST_TAIL:] != _digest_tail(line[:-_DIGEST_TAIL]):
            raise _damaged(path, number, f"the tombstone of `{stone.run[:40]}` was changed (`digest`)")
        if not _is_run_name(stone.run) or (found and found[-1][0].number >= stone.number):
            raise _damaged(path, number, f"the tombstone of `{stone.run[:40]}` is out of order")
        found.append((stone, line))
    return found


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


# --- the folders of pruned runs ----------------------------------------------------------------------------------


def remove_pruned_folders(state: WorkflowState) -> int:
    """Remove the folders of runs that have a tombstone; return their number. Only the holder of the lock may call this.

    This also finishes a prune that was killed. A folder is renamed before its files are deleted, so that a concurrent
    reader finds all of the run or nothing.
    """
    trash = state.pruned_folders
    _remove_tree(trash)
    for half_written in state.folder.glob(".tmp-*"):  # of a tombstone file that was never renamed into place
        disk.unlink(Area.PRUNE, half_written)
    names = state.folders_of_pruned()
    if not names:
        return 0
    disk.make_folders(Area.PRUNE, trash)
    for name in names:
        disk.rename(Area.PRUNE, state.runs_dir / name, trash / name)
    disk.sync_folder(Area.PRUNE, state.runs_dir)
    _remove_tree(trash)
    return len(names)


def _remove_tree(folder: Path) -> None:
    if not folder.exists():
        return
    # A failed step may have left folders without read or write permission in its scratch folder.
    for parent, names, _ in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            if not os.path.islink(path) and not os.access(path, os.R_OK | os.W_OK | os.X_OK):
                os.chmod(path, 0o700)
    disk.remove(Area.PRUNE, folder)
