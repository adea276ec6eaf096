"""YAML text → a tree of nodes with their positions.

It uses the events of PyYAML's C parser and not `compose`: the C composer recurses without a limit, so a deeply nested
file could crash the process. Scalars are resolved by the YAML 1.2 core schema (`yes` and `on` are strings), keys are
unique strings, and the expansion of aliases is limited.
"""

from __future__ import annotations

import errno
import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from whyrun.json_values import LARGEST_INTEGER
from whyrun.lazy_regex import lazy_regex, lazy_regexes_in
from whyrun.workflow.nodes import ListNode, MapNode, Node, Problems, Scalar, Source, kind_of

if TYPE_CHECKING:
    from yaml.events import AliasEvent, Event, ScalarEvent

MAX_FILE = 64 << 20  # bytes
MAX_DEPTH = 64
MAX_ALIASES = 1_000
MAX_ALIASED_NODES = 100_000
MAX_INTEGER = LARGEST_INTEGER

_STRING_TAGS = frozenset({"!", "tag:yaml.org,2002:str"})
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEAN = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_DECIMAL = lazy_regex(r"[-+]?[0-9]+")
_OCTAL = lazy_regex(r"0o[0-7]+")
_HEXADECIMAL = lazy_regex(r"0x[0-9a-fA-F]+")
_FLOAT = lazy_regex(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = lazy_regex(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


def read_source(path: Path) -> str:
    """The text of a file. Pipes, devices and files that are too large are refused with an `OSError`."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is not a regular file")
    with path.open("rb") as file:
        data = file.read(MAX_FILE + 1)
    if len(data) > MAX_FILE:
        raise OSError(errno.EFBIG, f"it is larger than {MAX_FILE >> 20} MB")
    return data.decode("utf-8")


def read_start(path: Path) -> str:
    """The beginning of a file, whatever it holds."""
    with path.open("rb") as file:
        return file.read(4096).decode("utf-8", "replace")


def read_yaml(text: str, shown: str, problems: Problems) -> Node | None:
    """The root node, or None after a syntax error. An empty text is a null scalar.

    A syntax error is the only problem that is reported for the file: it decides how the rest is read.
    """
    # The regular expressions of its Python parser take 5 ms to compile, and we use the C parser.
    with lazy_regexes_in("yaml"):
        import yaml

    source = Source(shown, text)
    problems.begin_file(shown)
    try:
        source.text.encode()
    except UnicodeEncodeError as problem:
        place = source.place(problem.start, problem.end)
        problems.add(place, "YAML_SYNTAX", "a character is not valid Unicode", "save the file as UTF-8")
        return None
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return _Builder(source, problems).build(yaml.parse(source.text, Loader=loader))
    except _Stop:
        return None  # reported where it was raised
    except yaml.MarkedYAMLError as problem:
        from whyrun.workflow.yaml_mistakes import syntax_mistake

        mistake = syntax_mistake(source, problem)
        problems.add(source.place(mistake.start, mistake.end), "YAML_SYNTAX", mistake.message, mistake.hint)
    except yaml.YAMLError as problem:  # characters that YAML does not allow; without a mark
        position = getattr(problem, "position", 0)
        character = getattr(problem, "character", "")
        shown_character = f"U+{character:04X} " if isinstance(character, int) else ""
        at = _character_index(source.text, character, position)
        problems.add(
            source.place(at, at + 1),
            "YAML_SYNTAX",
            f"the character {shown_character}is not allowed in YAML",
            "remove it, or write it as an escape inside double quotes",
        )
    return None


def _character_index(text: str, character: Any, position: int) -> int:
    # The C parser counts bytes here, so search for the character itself if it is known.
    if isinstance(character, int) and 0 <= character <= 0x10FFFF:
        index = text.find(chr(character))
        if index >= 0:
            return index
    return position if isinstance(position, int) else 0


def _span(event: Event) -> tuple[int, int]:
    assert event.start_mark is not None  # events of a parser always have them
    assert event.end_mark is not None
    return event.start_mark.index, event.end_mark.index


class _Stop(Exception):
    """The problem is reported, and there is no tree."""


class _Open(msgspec.Struct):
    """A map or list that is not closed yet."""

    node: MapNode | ListNode
    anchor: str | None
    flow: bool  # `{}` or `[]`
    keys: set[str]
    key: Scalar | None = None


class _Builder:
    def __init__(self, source: Source, problems: Problems) -> None:
        self.source = source
        self.problems = problems
        self.anchors: dict[str, Node | None] = {}  # None while the anchored value is not closed
        self.aliases = 0
        self.aliased_nodes = 0
        self.open: list[_Open] = []
        self.root: Node | None = None
        # Node, code, message, hint: reported at the end, because a syntax error is reported alone.
        self.pending: list[tuple[Node, str, str, str]] = []
        self.unreadable: list[Scalar] = []  # their values are not checked any further

    def build(self, events: Iterable[Event]) -> Node:
        from yaml import events as kinds

        documents = 0
        for event in events:
            if isinstance(event, kinds.ScalarEvent):
                self._put(self._scalar(event), event.anchor)
            elif isinstance(event, kinds.MappingStartEvent | kinds.SequenceStartEvent):
                self._begin(event, isinstance(event, kinds.MappingStartEvent))
            elif isinstance(event, kinds.CollectionEndEvent):
                self._end(_span(event)[1])
            elif isinstance(event, kinds.AliasEvent):
                self._put(self._aliased(event), None)
            elif isinstance(event, kinds.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    self._refuse(event, "a second document begins here", "a file holds one document: remove `---`")
        for node, code, message, hint in self.pending:
            self.problems.add(node.place, code, message, hint)
        for scalar in self.unreadable:
            self.problems.suppress_at(scalar.place)
        return self.root or Scalar(self.source, 0, 0, 1, None, "")

    def _refuse(self, event: Event, message: str, hint: str) -> NoReturn:
        self.problems.add(self.source.place(*_span(event)), "YAML_SYNTAX", message, hint)
        raise _Stop

    def _begin(self, event: Any, is_map: bool) -> None:
        if event.tag is not None and event.tag != "!":
            self._refuse(event, f"the tag `{event.tag}` is not known", "remove it: workflow files have no tags")
        if len(self.open) >= MAX_DEPTH:
            self._refuse(event, f"nested deeper than {MAX_DEPTH} levels", "make the structure flatter")
        start, _ = _span(event)
        kind: type[MapNode | ListNode] = MapNode if is_map else ListNode
        node = kind(self.source, start, start, 1, [])
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        self.open.append(_Open(node, event.anchor, bool(event.flow_style), set()))

    def _end(self, index: int) -> None:
        done = self.open.pop()
        done.node.end = index
        self._put(done.node, done.anchor)

    def _put(self, node: Node, anchor: str | None) -> None:
        if anchor is not None:
            self.anchors[anchor] = node
        if not self.open:
            self.root = node
            return
        top = self.open[-1]
        top.node.size += node.size
        if isinstance(top.node, ListNode):
            top.node.items.append(node)
        elif top.key is None:
            top.key = self._key(node)
        else:
            self._entry(top, top.node, top.key, node)
            top.key = None

    def _key(self, node: Node) -> Scalar:
        if not isinstance(node, Scalar):
            from whyrun.workflow.yaml_mistakes import Mistake, foreign_expression

            mistake = foreign_expression(self.source.text, node.start) or Mistake(
                node.start, node.end, f"a key is {kind_of(node)}", "keys are plain strings"
            )
            self.problems.add(
                self.source.place(mistake.start, mistake.end), "YAML_SYNTAX", mistake.message, mistake.hint
            )
            raise _Stop
        if isinstance(node.value, str):
            return node
        message = f"the key `{node.text}` is {kind_of(node)}, not a string"
        self.pending.append((node, "WRONG_TYPE", message, "put it in quotes"))
        return Scalar(node.source, node.start, node.end, 1, node.text, node.text)

    def _entry(self, top: _Open, node: MapNode, key: Scalar, value: Node) -> None:
        if key.value in top.keys:
            first = next(k for k, _ in node.entries if k.value == key.value)
            hint = f"the first is in line {first.place.line}; remove one or rename it"
            self.pending.append((key, "DUPLICATE_KEY", f"the key `{key.value}` appears twice", hint))
            node.duplicates.add(key.value)
            return
        top.keys.add(key.value)
        node.entries.append((key, value))

    def _aliased(self, event: AliasEvent) -> Node:
        name = event.anchor or ""
        if name not in self.anchors:
            self._refuse(
                event, f"the alias `*{name}` has no anchor `&{name}`", "a value that begins with `*` needs quotes"
            )
        node = self.anchors[name]
        if node is None:
            self._refuse(event, f"the alias `*{name}` contains itself", "write the value out")
        self.aliases += 1
        self.aliased_nodes += node.size
        if self.aliases > MAX_ALIASES or self.aliased_nodes > MAX_ALIASED_NODES:
            self._refuse(event, "aliases repeat too much", "write the values out, or make the file smaller")
        return node

    def _scalar(self, event: ScalarEvent) -> Scalar:
        start, end = _span(event)
        text = event.value
        if event.tag is not None and event.tag not in _STRING_TAGS:
            self._refuse(event, f"the tag `{event.tag}` is not known", "remove it: workflow files have no tags")
        scalar = Scalar(self.source, start, end, 1, text, text)
        if event.tag is None and event.implicit[0]:
            try:
                scalar.value = resolve_scalar(text)
            except ValueError as problem:
                hint = "write a smaller number, or a string in quotes"
                self.pending.append((scalar, "WRONG_TYPE", str(problem), hint))
                self.unreadable.append(scalar)
        return scalar


def resolve_scalar(text: str) -> bool | int | float | str | None:
    """A plain scalar by the YAML 1.2 core schema. `ValueError` for a number that JSON cannot hold."""
    if text in _NULL:
        return None
    if text in _BOOLEAN:
        return _BOOLEAN[text]
    first = text[0]
    if not (first.isdigit() or first in "+-."):
        return text
    if _DECIMAL.fullmatch(text):
        return _integer(text, 10)
    if _OCTAL.fullmatch(text):
        return _integer(text[2:], 8)
    if _HEXADECIMAL.fullmatch(text):
        return _integer(text[2:], 16)
    if _FLOAT.fullmatch(text):
        number = float(text)
        if not math.isfinite(number):
            raise ValueError(f"the number `{_short(text)}` is too large")
        return number
    if _NOT_FINITE.fullmatch(text):
        raise ValueError(f"`{text}` is not a finite number")
    return text


def _integer(digits: str, base: int) -> int:
    number = int(digits, base) if len(digits) <= 64 else MAX_INTEGER + 1
    if abs(number) > MAX_INTEGER:
        raise ValueError(f"the number `{_short(digits)}` is too large")
    return number


def _short(text: str) -> str:
    return text if len(text) <= 24 else text[:20] + "…"
