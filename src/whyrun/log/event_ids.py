"""The canonical IDs that stand in events: an ID that does not parse makes the line LOG_DAMAGED."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from whyrun.errors import WhyrunError
from whyrun.ids import Kind, parse_id, parse_id_of
from whyrun.log.events import Event
from whyrun.log.journal import damaged

_ID_FIELDS: tuple[tuple[str, Kind | None], ...] = (
    ("step_id", "Job"),
    ("artifact", "Artifact"),
    ("id", "Input"),
    ("from_step", "Job"),
)
_LIST_FIELDS = ("because", "interrupted")  # lists of steps

# Most IDs are names with whole-number indices; these need no parsing (20 times faster).
_SEGMENT = r"[A-Za-z_][A-Za-z0-9_-]*(?:\[(?:0|[1-9][0-9]*)\])*"
_PLAIN = re.compile(rf"(Input|Job|Artifact):(?:[A-Za-z_][A-Za-z0-9_-]*/)*{_SEGMENT}(?:\.{_SEGMENT})*")


def check_ids(event: Event, path: str | os.PathLike[str]) -> None:
    """Raise LOG_DAMAGED (of the file `path`) unless every ID in the event is canonical and of its kind."""
    for text, kind in ids_of(event):
        try:
            _check(text, kind)
        except WhyrunError as wrong:
            raise damaged(path, event.seq, wrong.diagnostics[0].message) from None


def ids_of(event: Event) -> Iterator[tuple[str, Kind | None]]:
    """Every ID that stands in the event, with the kind it must have (None: any)."""
    for name, kind in _ID_FIELDS:
        text = getattr(event, name, None)
        if text is not None:
            yield text, kind
    for name in _LIST_FIELDS:
        for text in getattr(event, name, ()):
            yield text, "Job"
    bindings: dict[str, Any] | None = getattr(event, "bindings", None)
    if bindings:
        for members in bindings.values():
            if isinstance(members, list):  # a wide one is checked when its blob is read
                for member in members:
                    yield (member.get("id", "") if isinstance(member, dict) else str(member)), None
    condition_inputs: dict[str, Any] | None = getattr(event, "inputs", None)
    if condition_inputs:
        for text in condition_inputs:
            yield text, None


@lru_cache(maxsize=1 << 16)
def _check(text: str, kind: Kind | None) -> None:
    plain = _PLAIN.fullmatch(text)
    if plain is not None and (kind is None or plain.group(1) == kind):
        return
    if kind is None:
        parse_id(text)
    else:
        parse_id_of(kind, text)
