"""Compare text: lines changed, added or removed."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from pathlib import Path

from whyrun.artifacts.compare.result import CompareSettings, Comparison, Findings, Unreadable, phrase, shortened

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
