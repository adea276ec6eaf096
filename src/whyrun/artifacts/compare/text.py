"""Compare text and JSON: lines or values changed, added or removed."""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
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

_ALIGNED = 1000  # lines on either side that are aligned; the time grows with their product
_LINE = 80  # characters of a line that are shown


def compare_text(old: Path, new: Path, settings: CompareSettings) -> Comparison:
    del settings
    before, after = read_text(old, "before"), read_text(new, "now")
    findings = Findings()
    if _lines(before) == _lines(after) and before != after:
        findings.add("line ends", _line_ends(before, after))
        return findings.result("line ends differ")
    if before == after:  # only the byte order mark differs, which decoding removes
        findings.add("mark", f"byte order mark: {_mark(old)} → {_mark(new)}")
        return findings.result("byte order mark differs")
    _compare_lines(before.split("\n"), after.split("\n"), findings)
    parts = [(findings.counts.get(kind, 0), kind) for kind in ("changed", "added", "removed")]
    return findings.result(phrase("line", parts))


def read_text(path: Path, which: str) -> str:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise Unreadable(f"the version {which} is not UTF-8 (byte {problem.start:,})") from None
    if "\0" in text:
        raise Unreadable(f"the version {which} is not text")
    return text


def _mark(path: Path) -> str:
    with path.open("rb") as file:
        return "there" if file.read(len(BOM_UTF8)) == BOM_UTF8 else "none"


def _lines(text: str) -> list[str]:
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _line_ends(before: str, after: str) -> str:
    def kind(text: str) -> str:
        last = "" if text.endswith("\n") else ", none at the end"
        return f"{text.count(chr(13) + chr(10)):,} CRLF of {text.count(chr(10)):,}{last}"

    return f"line ends: {kind(before)} → {kind(after)}"


def _compare_lines(old: Sequence[str], new: Sequence[str], findings: Findings) -> None:
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    before, after = old[start : len(old) - end], new[start : len(new) - end]
    if len(before) > _ALIGNED or len(after) > _ALIGNED:
        _compare_far_apart(before, after, start, findings)
        return
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for kind, a, a_end, b, b_end in matcher.get_opcodes():
        if kind == "equal":
            continue
        paired = min(a_end - a, b_end - b)
        for i in range(paired):
            text = f"line {start + a + i + 1}: {_shown(before[a + i])} → {_shown(after[b + i])}"
            findings.add("changed", text)
        for i in range(b + paired, b_end):
            findings.add("added", f"line {start + i + 1} added: {_shown(after[i])}")
        for i in range(a + paired, a_end):
            findings.add("removed", f"line {start + i + 1} removed: {_shown(before[i])}")


def _compare_far_apart(before: Sequence[str], after: Sequence[str], start: int, findings: Findings) -> None:
    """Too many lines to align: report which are only on one side, without their order."""
    findings.notes.append(f"from line {start + 1} on, too much differs to align the lines: they are only counted")
    gone, come = Counter(before), Counter(after)
    gone, come = gone - come, come - gone
    for line, number in come.items():
        findings.add("added", f"added: {_shown(line)}", number)
    for line, number in gone.items():
        findings.add("removed", f"removed: {_shown(line)}", number)
    if not findings.total:
        findings.add("changed", "the same lines in another order", len(after))


def _shown(line: str) -> str:
    return f"`{shortened(line, _LINE)}`"


# --- compare JSON: values changed, added or removed, each with its path. Key order and spelling do not count ----------


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
            findings.add(kind, f"{path}: {_shown_value(before)} → {_shown_value(after)}")
        else:
            findings.add(kind, f"{path} {kind}: {_shown_value(before if kind == 'removed' else after)}")
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


def _shown_value(value: Any) -> str:
    if isinstance(value, dict | list) and len(value) > SHOWN:
        return f"{{… {len(value):,} keys}}" if isinstance(value, dict) else f"[… {len(value):,} members]"
    return shortened(json.dumps(value, ensure_ascii=False), _VALUE)
