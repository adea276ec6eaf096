"""How far the log of a killed run can be trusted.

Before a sync, lines and the files and blobs that they refer to reach the disk in any order. So a power loss may leave a
line without its bytes. All lines up to the sync mark (`synced`) are complete. Lines after it count up to the first one
that refers to lost bytes; the rest is dropped, as if the power had failed a moment earlier.

Lost bytes show a missing sync only if this run has made them: a run removes damaged blobs of earlier runs
(`drop_damaged`), which were synced before it began.
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
        # Always read to the end, so that LOG_DAMAGED is raised before anything is changed.
        whole = whole and (event.seq <= synced or _is_borne_out(event, run, store))
        if whole:
            outcome.add(event)
            last = event
            size += len(line) + 1
    return Survived(outcome, last, size)


def _is_borne_out(event: ev.AnyEvent, run: RunRef, store: Store) -> bool:
    """Do the files and blobs that an event refers to exist?"""
    match event:
        case ev.CfgMaterialized():
            return _has_file(f"{run.path}/{event.path}", event.sha256)
        case ev.ArtifactAvailable():
            sha256 = _hash(event.sha256, event, run)
            if event.value is UNSET and RUN_NAME.fullmatch(event.reused_from or ""):
                return True  # made and synced by an earlier run
            # The event itself holds leaves and small values; one from a shared store may never have had a blob.
            holds_itself = event.value is not UNSET or output_of(event.artifact) is None
            # If there is a blob, it must be intact: a damaged one was torn before it was synced.
            nowhere = holds_itself and not store.has(sha256)
            return nowhere or _has_blob(store, sha256, event.type)
        case ev.StepStart() | ev.StepSkipped():
            lists = [members for members in (event.bindings or {}).values() if isinstance(members, dict)]
            blobs = [_hash(members["blob"], event, run) for members in lists if "blob" in members]
            return all(_has_blob(store, blob) for blob in blobs)
        case ev.FileDisplaced():  # without its blob the file was not replaced yet
            return _has_blob(store, _hash(event.sha256, event, run))
        case _:
            return True  # refers to no bytes, or to bytes that were synced before it was written


def _hash(text: Any, event: ev.AnyEvent, run: RunRef) -> str:
    """A power loss never changes a line, so a text that is no hash was put there by hand: LOG_DAMAGED."""
    if not isinstance(text, str) or _HASH.fullmatch(text) is None:
        raise damaged(run.events_path, event.seq, f"`{str(text)[:80]}` is no hash")
    return text


def _has_file(path: str, sha256: str) -> bool:
    try:
        return file_sha256(path) == sha256
    except (OSError, ValueError):  # ValueError: not a valid file name
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
