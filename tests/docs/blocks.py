"""Fenced blocks of the documentation: found, run and checked.

What a block is comes from its language; a comment right above it may say more:

    <!-- project: then-and-now -->   start in a fresh copy of that example (`empty`: in an empty folder)
    <!-- file: story.py -->          the block is this file of the scratch folder
    <!-- exit: 1 -->                 the last command of a console block ends so
    <!-- refused: CYCLE -->          the workflow is refused with this code
    <!-- fragment -->                a part of a workflow that cannot stand alone: only read as YAML
    <!-- checked: tests/… -->        that test checks it
    <!-- skip: why -->               not checked, and why not
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
_FENCE = re.compile(r"^```(\S*)\s*$")
_DIRECTIVE = re.compile(r"^<!-- ([a-z]+)(?:: (.*?))? -->$")


@dataclass(frozen=True, slots=True)
class Block:
    page: str
    line: int  # of the opening fence, from 1
    language: str
    text: str
    directives: dict[str, str]

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    return [PROJECT / "README.md", PROJECT / "CHANGELOG.md", *sorted((PROJECT / "docs").rglob("*.md"))]


def shown(page: Path) -> str:
    return page.relative_to(PROJECT).as_posix()


def blocks_of(page: Path) -> Iterator[Block]:
    lines = page.read_text(encoding="utf-8").splitlines()
    directives: dict[str, str] = {}
    index = 0
    while index < len(lines):
        line = lines[index]
        opening = _FENCE.match(line)
        if opening:
            end = index + 1
            while lines[end] != "```":
                end += 1
            text = "\n".join(lines[index + 1 : end]) + "\n"
            yield Block(shown(page), index + 1, opening[1], text, directives)
            directives = {}
            index = end + 1
            continue
        said = _DIRECTIVE.match(line)
        if said:
            directives[said[1]] = said[2] or ""
        elif line.strip():
            directives = {}
        index += 1


# --- console blocks ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Exchange:
    """One command of a console block, and what it is said to print."""

    command: str
    output: tuple[str, ...]


def exchanges(text: str) -> list[Exchange]:
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif line.startswith("> ") and not found[-1][1]:
            found[-1] = (found[-1][0] + "\n" + line[2:], [])
        else:
            assert found, f"output before the first command: {line}"
            found[-1][1].append(line)
    return [Exchange(command, tuple(output)) for command, output in found]


_NORMAL = [
    # Estimates come and go with how long a step took.
    (re.compile(r"; saved ~.* by not running the rest again"), ""),
    (re.compile(r"  \(~[^)]*\)$"), ""),
    # Which step took most is another one every time.
    (re.compile(r"^  cpu \S+, peak memory \d\S+ \(Job:\S+\)$"), "  cpu, peak memory"),
    (re.compile(r"^  slowest: (Job:\S+ [\d.]+s(, |$))+$"), "  slowest"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)?"), "DATE"),
    (re.compile(r"\bsha256:[0-9a-f]{64}\b"), "HASH"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "HASH"),
    (re.compile(r"\b[0-9a-f]{4,}…"), "HASH"),
    (re.compile(r"~?\b\d+(\.\d+)? ?(ms|s|m|h)\b( \d+s)?"), "TIME"),
    (re.compile(r"\b\d+(\.\d+)? ?(B|KB|MB|GB|bytes)\b"), "SIZE"),
    (re.compile(r"\bpid \d+"), "pid N"),
    (re.compile(r'"(duration|ts|pid|host|started|ended)":("[^"]*"|[0-9.]+)'), r'"\1":N'),
]


def normal(lines: Iterator[str] | tuple[str, ...] | list[str]) -> list[str]:
    """What must be equal from run to run: no times, hashes, sizes; steps that ended in any order, sorted."""
    found: list[str] = []
    dated: list[str] = []
    for line in lines:
        for pattern, name in _NORMAL:
            line = pattern.sub(name, line)
        line = re.sub(r"  +", "  ", line.rstrip())  # columns move with the width of what was replaced
        if line.startswith("DATE"):
            dated.append(line)
            continue
        found += sorted(dated)
        dated = []
        found.append(line)
    return found + sorted(dated)


def agrees(expected: tuple[str, ...], actual: list[str]) -> bool:
    """Equal, where a line `...` stands for any number of lines."""
    if "..." not in expected:
        return normal(expected) == normal(actual)
    at = expected.index("...")
    head, tail = normal(expected[:at]), normal(expected[at + 1 :])
    lines = normal(actual)
    return lines[: len(head)] == head and (not tail or lines[-len(tail) :] == tail)
