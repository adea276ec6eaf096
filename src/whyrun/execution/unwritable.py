"""A value that an action gave and that JSON cannot hold: where in it, what to do, and how it is not lost."""

from __future__ import annotations

import json
import math
import pprint
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from whyrun.workflow.nodes import below

_DEEPEST = 200
_LARGEST = 50_000_000  # characters of what is written down for people


def why_not_json(value: Any) -> str | None:
    """The first part of it that JSON cannot hold, with its place; None if there is none."""
    return next(_problems(value, "", ()), None)


def why_not_json_text(data: bytes) -> str | None:
    """The same of a file that Python would read, with its NaN and Infinity, and that is not JSON for all that."""
    try:
        return why_not_json(json.loads(data))
    except (ValueError, RecursionError):  # not even that: the decoder says where
        return None


def _problems(value: Any, path: str, within: tuple[int, ...]) -> Iterator[str]:
    it = f"`{path.removeprefix('.')}`" if path else "it"
    if isinstance(value, float) and not math.isfinite(value):
        yield f"{it} is {value}, which JSON does not have: give null (None) instead, or leave it out"
    elif isinstance(value, dict | list | tuple):
        if id(value) in within or len(within) > _DEEPEST:
            yield f"{it} is nested too deeply, or holds itself"
            return
        members: Iterable[tuple[Any, Any]] = value.items() if isinstance(value, dict) else enumerate(value)
        for key, member in members:
            if isinstance(value, dict) and not isinstance(key, str):
                yield f"{it} has the key {key!r:.60}: keys are texts, so give str(key)"
                return
            yield from _problems(member, below(path, key), (*within, id(value)))
    elif value is not None and not isinstance(value, str | int | float | bool):
        kind = f"{type(value).__module__}.{type(value).__name__}".removeprefix("builtins.")
        yield f"{it} is a {kind}: give plain numbers, texts, lists and dicts (numpy and pandas: `.tolist()`, `.item()`)"


def keep_returned(name: str, value: Any, folder: Path) -> str:
    """Write down for people what was returned, among what the step wrote; and say what became of it.

    A step may have computed for hours: that its result cannot be an output is no reason to lose it.
    """
    file = folder / f"{name}.returned.txt"
    try:
        text = pprint.pformat(value, width=120, sort_dicts=False)[:_LARGEST]
        file.write_text(text + "\n", encoding="utf-8", errors="backslashreplace")
    except Exception as problem:  # a `__repr__` of the user's, a full disk: what is wrong with the value is told anyway
        return f"what was returned could not be put down: {type(problem).__name__}: {problem!s:.200}"
    return f"what was returned stands in the step's `scratch/out/{file.name}`"
