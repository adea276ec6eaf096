"""Compare JSON: values changed, added or removed, each with its path. Key order and spelling do not count."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from whyrun.artifacts.compare.result import (
    SHOWN,
    CompareSettings,
    Comparison,
    Findings,
    Unreadable,
    differs,
    phrase,
    shortened,
)

_PLAIN_KEY = re.compile(r"[^\W\d][\w-]*")
_VALUE = 60  # characters of a value that are shown


def compare_json(old: Path, new: Path, settings: CompareSettings) -> Comparison:
    return compare_values(_read(old, "before"), _read(new, "now"), settings)


def compare_values(old: Any, new: Any, settings: CompareSettings) -> Comparison:
    findings = Findings()
    near = 0
    for path, kind, before, after in _differences(old, new):
        if kind == "changed" and is_number(before) and is_number(after) and settings.same_number(before, after):
            near += differs(before, after)
            continue
        if findings.full:
            findings.add(kind, "")
        elif kind == "changed":
            findings.add(kind, f"{path}: {_shown(before)} → {_shown(after)}")
        else:
            findings.add(kind, f"{path} {kind}: {_shown(before if kind == 'removed' else after)}")
    if near:
        findings.notes.append(settings.near_note(near))
    elif not findings.total:
        findings.notes.append("the values are the same, but written differently")
    parts = [(findings.counts.get(kind, 0), kind) for kind in ("changed", "added", "removed")]
    return findings.result(phrase("value", parts))


def _read(path: Path, which: str) -> Any:
    try:
        return json.loads(path.read_bytes())
    except RecursionError:
        raise Unreadable(f"the version {which} is nested too deeply") from None
    except ValueError as problem:  # not UTF-8, not JSON, or a number with thousands of digits
        raise Unreadable(f"the version {which} is not valid JSON: {problem}") from None


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _differences(old: Any, new: Any) -> Iterator[tuple[str, str, Any, Any]]:
    """(path, kind, before, after) in document order. Uses a stack, because documents may be deep."""
    waiting = [("$", old, new)]
    while waiting:
        path, a, b = waiting.pop()
        if isinstance(a, dict) and isinstance(b, dict):
            for key in a:
                if key not in b:
                    yield _at(path, key), "removed", a[key], None
            for key in b:
                if key not in a:
                    yield _at(path, key), "added", None, b[key]
            waiting.extend((_at(path, key), a[key], b[key]) for key in reversed(a) if key in b)
        elif isinstance(a, list) and isinstance(b, list):
            for i in range(len(b), len(a)):
                yield f"{path}[{i}]", "removed", a[i], None
            for i in range(len(a), len(b)):
                yield f"{path}[{i}]", "added", None, b[i]
            both = min(len(a), len(b))
            waiting.extend((f"{path}[{i}]", a[i], b[i]) for i in reversed(range(both)) if a[i] is not b[i])
        elif is_number(a) and is_number(b):
            if a != b or type(a) is not type(b):
                yield path, "changed", a, b
        elif type(a) is not type(b) or a != b:
            yield path, "changed", a, b


def _at(path: str, key: str) -> str:
    return f"{path}.{key}" if _PLAIN_KEY.fullmatch(key) else f"{path}[{json.dumps(key, ensure_ascii=False)}]"


def _shown(value: Any) -> str:
    if isinstance(value, dict | list) and len(value) > SHOWN:
        return f"{{… {len(value):,} keys}}" if isinstance(value, dict) else f"[… {len(value):,} members]"
    return shortened(json.dumps(value, ensure_ascii=False), _VALUE)
