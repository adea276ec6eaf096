"""How far the log of a run that ended without a word may be believed.

Lines and the bytes that they speak of reach the disk in any order until a sync puts them there. So a power cut may
leave a line and not its bytes. All that was synced is there: the lock says how far that was (`synced`), or something
earlier, if its own file was not written any more. What follows counts up to the first line that speaks of bytes which
are gone; from there on it is as if the power had gone a moment sooner.

That bytes are gone shows that they were never synced only where this run has made them: a run removes damaged ones
(`drop_damaged`), and those of earlier runs were synced before it began.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET

from whyrun.artifacts.hashing import file_sha256
from whyrun.artifacts.store import Store
from whyrun.errors import WhyrunError
from whyrun.ids import output_of
from whyrun.log import events as ev
from whyrun.log.journal import RUN_NAME, damaged, read_raw_lines
from whyrun.log.outcomes import RunOutcome
from whyrun.log.runs import RunRef

_HASH = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Survived:
    outcome: RunOutcome
    last: ev.AnyEvent | None
    size: int  # bytes of the log


def survived(run: RunRef, store: Store, synced: int) -> Survived:
    """`synced`: the `seq` of an event that was synced with all before it."""
    outcome, last, size, whole = RunOutcome(), None, 0, True
    for event, line in zip(run.events(), read_raw_lines(run.events_path), strict=True):
        # Read to its end in any case: LOG_DAMAGED is found before anything is touched.
        whole = whole and (event.seq <= synced or _is_borne_out(event, run, store))
        if whole:
            outcome.add(event)
            last = event
            size += len(line) + 1
    return Survived(outcome, last, size)


def _is_borne_out(event: ev.AnyEvent, run: RunRef, store: Store) -> bool:
    """Whether the bytes that an event speaks of are there."""
    match event:
        case ev.CfgMaterialized():
            return _has_file(f"{run.path}/{event.path}", event.sha256)
        case ev.ArtifactAvailable():
            sha256 = _hash(event.sha256, event, run)
            if event.value is UNSET and RUN_NAME.fullmatch(event.reused_from or ""):
                return True  # made by an earlier run, whose own line stands in any case
            # A leaf, or a small value: the event itself holds it, and one that others made may never have had a blob.
            holds_itself = event.value is not UNSET or output_of(event.artifact) is None
            # If there is one all the same, it is right, or it was torn before it was synced.
            nowhere = holds_itself and not store.has(sha256)
            return nowhere or _has_blob(store, sha256, event.type)
        case ev.StepStart() | ev.StepSkipped():
            lists = [members for members in (event.bindings or {}).values() if isinstance(members, dict)]
            blobs = [_hash(members["blob"], event, run) for members in lists if "blob" in members]
            return all(_has_blob(store, blob) for blob in blobs)
        case ev.FileDisplaced():  # not synced yet: then what it speaks of still stands where it stood
            return _has_blob(store, _hash(event.sha256, event, run))
        case _:
            return True  # speaks of no bytes, or of some that were synced before it was written


def _hash(text: Any, event: ev.AnyEvent, run: RunRef) -> str:
    """A power cut leaves lines as they were written, or not at all: what is no hash, somebody has put there."""
    if not isinstance(text, str) or _HASH.fullmatch(text) is None:
        raise damaged(run.events_path, event.seq, f"`{str(text)[:80]}` is no hash")
    return text


def _has_file(path: str, sha256: str) -> bool:
    try:
        return file_sha256(path) == sha256
    except (OSError, ValueError):  # a ValueError: no file can be called so
        return False


def _has_blob(store: Store, sha256: str, type_: str = "file") -> bool:
    try:
        store.check(sha256)
        if type_ == "directory":
            for file in store.read_tree(sha256).files:
                store.check(file.sha256)
    except (WhyrunError, OSError):
        return False
    return True
