"""JSON text → the same tree of nodes as for YAML, with places; and readers of values whose messages use JSON's words.

Other tools read dataset plans and inputs manifests as JSON. So syntax that only YAML allows (comments, bare words, a
trailing comma) is refused, and syntax that only JSON allows (`\\ud83d\\ude00`) is accepted.
"""

from __future__ import annotations

import math
import re
from json import JSONDecodeError, JSONDecoder
from typing import Any

from whyrun.json_values import LARGEST_INTEGER
from whyrun.workflow.fields import Fields
from whyrun.workflow.nodes import ListNode, MapNode, Node, Problems, Scalar, Source, kind_of

MAX_DEPTH = 64
MAX_INTEGER = LARGEST_INTEGER
_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DECODER = JSONDecoder()
_LITERALS = {"true": True, "false": False, "null": None}
_PYTHON = {"True": "true", "False": "false", "None": "null"}
_NO_NUMBERS = ("NaN", "nan", "Infinity", "inf")
_FENCE = "```"


def read_json(text: str, shown: str, problems: Problems) -> Node | None:
    """The root node, or None after a syntax error, which is reported as `JSON_SYNTAX`."""
    problems.begin_file(shown)
    source = Source(shown, text)
    reader = _Reader(source, problems)
    try:
        source.text.encode()
        return reader.document()
    except _Stop as stop:
        problems.add(source.place(stop.at, stop.at + stop.width), "JSON_SYNTAX", stop.message, stop.hint)
    except UnicodeEncodeError as problem:
        place = source.place(problem.start, problem.end)
        problems.add(place, "JSON_SYNTAX", "a character is not valid Unicode", "save the file as UTF-8")
    return None


class _Stop(Exception):
    def __init__(self, at: int, message: str, hint: str, width: int = 1) -> None:
        super().__init__(message)
        self.at, self.message, self.hint, self.width = at, message, hint, width


class _Reader:
    def __init__(self, source: Source, problems: Problems) -> None:
        self.source, self.text, self.problems = source, source.text, problems

    def document(self) -> Node:
        at = self._skip(0)
        if at == len(self.text):
            raise _Stop(at, "the file is empty", "it holds one JSON object: `{…}`")
        node = self._value(at, 0)
        end = self._skip(node.end)
        if end < len(self.text):
            fenced = self.text.startswith(_FENCE, end)
            hint = "remove the Markdown fence" if fenced else "a file holds one JSON object: `{…}`"
            raise _Stop(end, "something follows the end of the document", hint)
        return node

    def _skip(self, at: int) -> int:
        match = _SPACE.match(self.text, at)
        assert match is not None  # the pattern also matches an empty text
        end = match.end()
        if self.text.startswith(("//", "/*", "#"), end):
            raise _Stop(end, "JSON has no comments", "remove it, or write a `description`")
        return end

    def _value(self, at: int, depth: int) -> Node:
        first = self.text[at : at + 1]
        if first in ("{", "["):
            if depth >= MAX_DEPTH:
                raise _Stop(at, f"nested deeper than {MAX_DEPTH} levels", "make the structure flatter")
            return self._map(at, depth) if first == "{" else self._list(at, depth)
        return self._string(at) if first == '"' else self._plain(at)

    def _map(self, start: int, depth: int) -> MapNode:
        node = MapNode(self.source, start, start, 1, [])
        at = self._skip(start + 1)
        while self.text[at : at + 1] != "}":
            if node.size > 1:
                at = self._comma(at, "}", start)
            if self.text[at : at + 1] != '"':
                raise self._unexpected(at, "the name of an entry is expected here, in double quotes")
            key = self._string(at)
            at = self._skip(key.end)
            if self.text[at : at + 1] != ":":
                raise self._unexpected(at, f"`:` is expected after `{key.value}`")
            value = self._value(self._skip(at + 1), depth + 1)
            self._entry(node, key, value)
            node.size += value.size
            at = self._skip(value.end)
        node.end = at + 1
        return node

    def _entry(self, node: MapNode, key: Scalar, value: Node) -> None:
        first = next((k for k, _ in node.entries if k.value == key.value), None)
        if first is None:
            node.entries.append((key, value))
            return
        node.duplicates.add(key.value)
        hint = f"the first is in line {first.place.line}; remove one or rename it"
        self.problems.add(key.place, "DUPLICATE_KEY", f"the key `{key.value}` appears twice", hint)

    def _list(self, start: int, depth: int) -> ListNode:
        node = ListNode(self.source, start, start, 1, [])
        at = self._skip(start + 1)
        while self.text[at : at + 1] != "]":
            if node.items:
                at = self._comma(at, "]", start)
            value = self._value(at, depth + 1)
            node.items.append(value)
            node.size += value.size
            at = self._skip(value.end)
        node.end = at + 1
        return node

    def _comma(self, at: int, close: str, start: int) -> int:
        if self.text[at : at + 1] != ",":
            line = self.source.place(start, start).line
            raise self._unexpected(at, f"`,` or `{close}` is expected here (opened in line {line})")
        after = self._skip(at + 1)
        if self.text[after : after + 1] == close:
            raise _Stop(at, f"there is a comma before `{close}`", "JSON has no comma after the last entry: remove it")
        return after

    def _string(self, start: int) -> Scalar:
        try:
            value, end = _DECODER.raw_decode(self.text, start)
        except JSONDecodeError as problem:
            hint = 'close it with `"`; inside, a line break is `\\n` and a backslash `\\\\`'
            message = f"the string is not valid: {problem.msg[:1].lower()}{problem.msg[1:]}"
            raise _Stop(problem.pos, message, hint) from None
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _Stop(start, "the string has half of a surrogate pair", "write the character itself") from None
        return Scalar(self.source, start, end, 1, value, value)

    def _plain(self, start: int) -> Scalar:
        word = _WORD.match(self.text, start)
        if word is not None and word[0] in _LITERALS:
            return Scalar(self.source, start, word.end(), 1, _LITERALS[word[0]], word[0])
        match = _NUMBER.match(self.text, start)
        if match is None or _WORD.match(self.text, match.end()) or self.text[match.end() : match.end() + 1].isdigit():
            raise self._unexpected(start, "a value is expected here")
        if match[1] or match[2]:
            value: Any = float(match[0])
        else:
            value = int(match[0]) if len(match[0]) < 64 else MAX_INTEGER + 1
        if not math.isfinite(value) or (isinstance(value, int) and abs(value) > MAX_INTEGER):
            raise _Stop(start, "the number is too large", "write a smaller number, or a string", len(match[0]))
        return Scalar(self.source, start, match.end(), 1, value, match[0])

    def _unexpected(self, at: int, message: str) -> _Stop:
        if at >= len(self.text):
            return _Stop(at, f"the file ends too early: {message}", "complete the file")
        word = _WORD.match(self.text, at)
        if word is not None:
            hint = f"write `{_PYTHON[word[0]]}`" if word[0] in _PYTHON else "put strings in double quotes"
            if word[0] in _NO_NUMBERS:
                hint = f"JSON has no `{word[0]}`: write a number, `null` or a string"
            return _Stop(at, message, hint, len(word[0]))
        if self.text.startswith(_FENCE, at):
            return _Stop(at, message, "remove the Markdown fence: the file holds the JSON alone", len(_FENCE))
        if self.text[at] == "'":
            return _Stop(at, message, "JSON has double quotes only")
        return _Stop(at, message, f"this is `{self.text[at]}`; check the line before, too")


# --- reading values ----------------------------------------------------------------------------------------------


class JsonFields(Fields):
    def as_map(self, node: Node, what: str, hint: str | None = None) -> MapNode | None:
        """The object without its `null`s: they mean left out, because structured output must name every key."""
        if isinstance(node, MapNode):
            return without_nulls(node)
        self.wrong(node, f"{what} must be an object, and this is {json_kind_of(node)}", hint)
        return None

    def as_list(self, node: Node, what: str, hint: str | None = None) -> ListNode | None:
        if isinstance(node, ListNode):
            return node
        self.wrong(node, f"{what} must be a list, and this is {json_kind_of(node)}", hint)
        return None


MAP = "$map"  # `{"$map": [{"name": "a", "value": 1}]}` is `{"a": 1}`, for structured output without free names


def without_nulls(node: MapNode) -> MapNode:
    entries = [(key, value) for key, value in node.entries if not (isinstance(value, Scalar) and value.value is None)]
    if len(entries) == len(node.entries):
        return node
    return MapNode(node.source, node.start, node.end, node.size, entries, node.duplicates)


def with_maps(node: Node, inside: bool = False) -> Node:
    """The value of a parameter, with an object for each `{"$map": […]}` in it; `inside` of one, `null` is left out."""
    if isinstance(node, ListNode):
        items = [with_maps(item, inside) for item in node.items]
        return ListNode(node.source, node.start, node.end, node.size, items)
    if not isinstance(node, MapNode):
        return node
    node = without_nulls(node) if inside else node
    listed = node.get(MAP)
    entries = node.entries
    if len(entries) == 1 and isinstance(listed, ListNode):
        pairs = [_pair(item) for item in listed.items]
        named = [pair for pair in pairs if pair is not None]
        if len(named) == len(pairs) == len({key.value for key, _ in named}):
            entries, inside = named, True
    entries = [(key, with_maps(value, inside)) for key, value in entries]
    return MapNode(node.source, node.start, node.end, node.size, entries, node.duplicates)


def _pair(item: Node) -> tuple[Scalar, Node] | None:
    name, value = (item.get("name"), item.get("value")) if isinstance(item, MapNode) else (None, None)
    if not isinstance(name, Scalar) or not isinstance(name.value, str) or value is None:
        return None
    return name, value


def json_kind_of(node: Node) -> str:
    return "an object" if isinstance(node, MapNode) else kind_of(node)
