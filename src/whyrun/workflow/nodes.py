"""Nodes of a YAML or JSON file with their positions, and the collection of problems."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

import msgspec

from whyrun.errors import Diagnostic
from whyrun.lazy_regex import lazy_regex
from whyrun.workflow.model import Place

_PLAIN_KEY = lazy_regex(r"[A-Za-z_][A-Za-z0-9_-]*")

MAX_PROBLEMS = 1000  # in all files together


class Problems:
    """Collects all problems, so that they can be reported together."""

    def __init__(self) -> None:
        self._diagnostics: dict[Diagnostic, None] = {}  # a dict, so that the same problem is reported once
        self._files: dict[str, int] = {}
        self._suppressed: set[tuple[str, int, int]] = set()
        # How often something could not be read, also where the problem is not reported (again). If this number grows
        # while a value is read, the value is not reliable.
        self.failures = 0

    def add(self, place: Place, code: str, message: str, hint: str | None = None) -> None:
        self.failures += 1
        if self.is_full or (place.source, place.line, place.column) in self._suppressed:
            return
        if len(self._diagnostics) == MAX_PROBLEMS - 1:
            message, hint = f"more problems are not reported: the limit is {MAX_PROBLEMS}", "correct these first"
        self._diagnostics[place.diagnostic(code, message, hint)] = None

    @property
    def is_full(self) -> bool:
        """Whether the limit is reached."""
        return len(self._diagnostics) >= MAX_PROBLEMS

    def count_failure(self) -> None:
        """Something could not be read because of a problem that is reported elsewhere."""
        self.failures += 1

    def suppress_at(self, place: Place) -> None:
        """Report nothing more about the value that begins here."""
        self._suppressed.add((place.source, place.line, place.column))

    def begin_file(self, shown: str) -> None:
        self._files.setdefault(shown, len(self._files))

    def __len__(self) -> int:
        return len(self._diagnostics)

    def __iter__(self) -> Iterator[Diagnostic]:
        """File by file as they were read, then in reading order."""
        last = len(self._files)
        return iter(
            sorted(self._diagnostics, key=lambda d: (self._files.get(d.file or "", last), d.line or 0, d.column or 0))
        )


class Source:
    """One file: its text, and its path as the user knows it."""

    def __init__(self, shown: str, text: str) -> None:
        self.shown = shown
        self.text = text.removeprefix("\ufeff")
        self._starts = [0, *(match.end() for match in re.finditer("\n", self.text))]
        self._lines: dict[int, str] = {}  # places of one line share one string

    def place(self, start: int, end: int) -> Place:
        """The characters from `start` to `end`, up to the end of the first line."""
        start = min(max(start, 0), len(self.text))
        line = bisect_right(self._starts, start) - 1
        text = self._lines.get(line)
        if text is None:
            stop = self._starts[line + 1] if line + 1 < len(self._starts) else len(self.text)
            text = self._lines[line] = self.text[self._starts[line] : stop].rstrip("\r\n")
        column = start - self._starts[line]
        width = len(text[column : column + max(end - start, 0)].rstrip())
        return Place(self.shown, line + 1, column + 1, max(width, 1), text)


class Node(msgspec.Struct, eq=False):
    source: Source
    start: int
    end: int
    size: int  # nodes below and including this one, aliases counted in full

    @property
    def place(self) -> Place:
        return self.source.place(self.start, self.end)


class Scalar(Node, eq=False):
    value: Any  # None, bool, int, float or str
    text: str  # before resolution

    def locate(self, offset: int, width: int) -> Place:
        """The place of a part of `text`: exact in plain and one-line scalars, aligned by content in others."""
        raw = self.source.text[self.start : self.end]
        if raw == self.text:
            begin = self.start + offset
        elif raw[1:-1] == self.text:
            begin = self.start + 1 + offset
        else:
            begin = self._align(raw, offset)
        return self.source.place(begin, begin + width)

    def _align(self, raw: str, offset: int) -> int:
        """Find the offset in quoted, folded or block text: find the same `${{`, then walk along both texts.

        Where they differ, the source has an extra character (indentation, a backslash, a doubled quote): skip it.
        """
        count = self.text.count("${{", 0, offset + 3)
        anchor = -1
        at = 0
        for _ in range(count):
            anchor = self.text.find("${{", anchor + 1)
            at = raw.find("${{", at + 1)
            if at < 0:
                return self.start
        if count == 0:
            return self.start
        position = at
        for index in range(anchor, offset + 1):
            if index >= len(self.text):
                break
            while position < len(raw) and raw[position] != self.text[index]:
                if raw[position] not in " \t\r\n\\'" and not (self.text[index] in " \n" and raw[position].isspace()):
                    return self.start + at
                position += 1
            if index < offset:
                position += 1
        return self.start + position


class ListNode(Node, eq=False):
    items: list[Node]


class MapNode(Node, eq=False):
    entries: list[tuple[Scalar, Node]]  # keys are strings, each once
    duplicates: set[str] = msgspec.field(default_factory=set)  # keys that appear again; `entries` has the first

    def get(self, key: str) -> Node | None:
        for name, value in self.entries:
            if name.value == key:
                return value
        return None


def kind_of(node: Node) -> str:
    """The kind of a node, for messages."""
    if isinstance(node, MapNode):
        return "a map"
    if isinstance(node, ListNode):
        return "a list"
    assert isinstance(node, Scalar)
    return kind_of_value(node.value)


def kind_of_value(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return f"the boolean `{str(value).lower()}`"
    if isinstance(value, int | float):
        return f"the number `{value}`"
    if isinstance(value, str):
        return "a string"
    return "a list" if isinstance(value, list) else "a map"


def has_duplicates(node: Node) -> bool:
    """Whether a map in it, at any depth, has a duplicate key, so that the value is not known."""
    if isinstance(node, MapNode):
        return bool(node.duplicates) or any(has_duplicates(value) for _, value in node.entries)
    return isinstance(node, ListNode) and any(map(has_duplicates, node.items))


def below(path: str, key: str | int) -> str:
    """The path of something inside a value: `poll.every`, `seeds[1]`, `until["/status"]`."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    return f"{path}.{key}" if _PLAIN_KEY.fullmatch(key) else f"{path}[{json.dumps(key, ensure_ascii=False)}]"


def places_below(node: Node, path: str) -> Iterator[tuple[str, Place]]:
    """The place of everything inside a value, by its path; the key of an entry has its path with `#key`."""
    if isinstance(node, MapNode):
        for key, value in node.entries:
            inside = below(path, key.value)
            yield inside, value.place
            yield f"{inside}#key", key.place
            yield from places_below(value, inside)
    elif isinstance(node, ListNode):
        for index, item in enumerate(node.items):
            inside = below(path, index)
            yield inside, item.place
            yield from places_below(item, inside)


def plain_value(node: Node) -> Any:
    """The JSON-like value of a node."""
    if isinstance(node, MapNode):
        return {key.value: plain_value(value) for key, value in node.entries}
    if isinstance(node, ListNode):
        return [plain_value(item) for item in node.items]
    assert isinstance(node, Scalar)
    return node.value
