"""Nodes of a YAML file that know where they stand, and the collection of what is wrong with them."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from whyrun.errors import Diagnostic
from whyrun.workflow.model import Place

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


MOST = 1000  # problems of all files that are told


class Problems:
    """Collects everything that is wrong, so that it can be shown at once."""

    def __init__(self) -> None:
        self._found: dict[Diagnostic, None] = {}  # a dict: the same problem, reached by two ways, is told once
        self._files: dict[str, int] = {}
        self._closed: set[tuple[str, int, int]] = set()
        # How often something could not be read as it was meant: also where that was told before, or is told of
        # something else that it depends on. What was read while this number grew is not to be relied upon.
        self.doubts = 0

    def add(self, place: Place, code: str, message: str, hint: str | None = None) -> None:
        self.doubts += 1
        if self.enough or (place.source, place.line, place.column) in self._closed:
            return
        if len(self._found) == MOST - 1:
            message, hint = f"nothing more is told from here on: {MOST} problems are enough", "correct those before it"
        self._found[place.diagnostic(code, message, hint)] = None

    @property
    def enough(self) -> bool:
        """So many are told that nobody would read more."""
        return len(self._found) >= MOST

    def doubt(self) -> None:
        """Something has no meaning because of something else that is told."""
        self.doubts += 1

    def close(self, place: Place) -> None:
        """Enough is told about the value that begins here."""
        self._closed.add((place.source, place.line, place.column))

    def begin_file(self, shown: str) -> None:
        self._files.setdefault(shown, len(self._files))

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[Diagnostic]:
        """File by file as they were read, then in reading order."""
        last = len(self._files)
        return iter(
            sorted(self._found, key=lambda d: (self._files.get(d.file or "", last), d.line or 0, d.column or 0))
        )


class Source:
    """One file: its text and the name that the user knows it by."""

    def __init__(self, shown: str, text: str) -> None:
        self.shown = shown
        self.text = text.removeprefix("\ufeff")
        self._starts = [0, *(match.end() for match in re.finditer("\n", self.text))]
        self._lines: dict[int, str] = {}  # places of one line share one string

    def place(self, start: int, end: int) -> Place:
        """The characters from `start` to `end`, as far as they stand in the first line."""
        start = min(max(start, 0), len(self.text))
        line = bisect_right(self._starts, start) - 1
        text = self._lines.get(line)
        if text is None:
            stop = self._starts[line + 1] if line + 1 < len(self._starts) else len(self.text)
            text = self._lines[line] = self.text[self._starts[line] : stop].rstrip("\r\n")
        column = start - self._starts[line]
        width = len(text[column : column + max(end - start, 0)].rstrip())
        return Place(self.shown, line + 1, column + 1, max(width, 1), text)


@dataclass(slots=True, eq=False)
class Node:
    source: Source
    start: int
    end: int
    size: int  # nodes below and including this one, aliases counted in full

    @property
    def place(self) -> Place:
        return self.source.place(self.start, self.end)


@dataclass(slots=True, eq=False)
class Scalar(Node):
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
        """Find the offset in quoted, folded or block text: go to the same `${{`, then walk in step with it.

        Where the two differ, the source has more (indentation, a backslash, a doubled quote), so it is skipped.
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


@dataclass(slots=True, eq=False)
class ListNode(Node):
    items: list[Node]


@dataclass(slots=True, eq=False)
class MapNode(Node):
    entries: list[tuple[Scalar, Node]]  # keys are strings, each once
    complete: bool = True  # False where reading stopped, so that more may have been meant to stand in it
    twice: set[str] = field(default_factory=set)  # keys that stand in the file more than once; the first is here

    def get(self, key: str) -> Node | None:
        for name, value in self.entries:
            if name.value == key:
                return value
        return None


def kind_of(node: Node) -> str:
    """What stands there, in the words of the user."""
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


def doubtful(node: Node) -> bool:
    """Whether something in it, at any depth, is not known for sure."""
    if isinstance(node, MapNode):
        return not node.complete or bool(node.twice) or any(doubtful(value) for _, value in node.entries)
    return isinstance(node, ListNode) and any(map(doubtful, node.items))


def below(path: str, key: str | int) -> str:
    """The path of something inside a value: `poll.every`, `seeds[1]`, `until["/status"]`."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    return f"{path}.{key}" if _PLAIN_KEY.fullmatch(key) else f"{path}[{json.dumps(key, ensure_ascii=False)}]"


def places_below(node: Node, path: str) -> Iterator[tuple[str, Place]]:
    """Where everything inside a value stands, by its path; the key of an entry under its path and `#key`."""
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
