"""Bytes: how many, and where they part."""

from __future__ import annotations

import os
from pathlib import Path

from whyrun.artifacts.compare.result import IDENTICAL, CompareSettings, Comparison

_CHUNK = 1 << 16


def compare_bytes(old: Path, new: Path, settings: CompareSettings) -> Comparison:
    del settings  # bytes are the same or not
    position = first_difference(old, new)
    if position is None:
        return IDENTICAL
    was, now = os.path.getsize(old), os.path.getsize(new)
    size = f"{was:,} bytes" if was == now else f"{was:,} → {now:,} bytes"
    return Comparison(False, f"{size}, different from byte {position:,}", _around(old, new, position))


def first_difference(old: Path, new: Path) -> int | None:
    """The offset of the first byte that differs; None if there is none."""
    offset = 0
    with old.open("rb") as a, new.open("rb") as b:
        while True:
            left, right = a.read(_CHUNK), b.read(_CHUNK)
            if left != right:
                shorter = min(len(left), len(right))
                return offset + next((i for i in range(shorter) if left[i] != right[i]), shorter)
            if not left:
                return None
            offset += len(left)


def _around(old: Path, new: Path, position: int) -> tuple[str, ...]:
    shown = []
    for word, path in (("before", old), ("now", new)):
        with path.open("rb") as file:
            file.seek(position)
            found = file.read(8)
        shown.append(f"byte {position:,} {word}: {found.hex(' ') or 'the end'}")
    return tuple(shown)
