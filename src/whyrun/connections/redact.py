"""Removes secret values from everything that is recorded, by value and not by name.

A value is found in the usual spellings of JSON, Python, URLs and HTML. A value of several lines is found with other
line ends and indented, and each of its lines is a secret, too.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import product
from typing import Any, AnyStr, BinaryIO, Generic

SHORTEST = 4  # characters; a shorter value also occurs in harmless text, so it cannot be removed from logs
SHORTEST_LINE = 8  # characters of a line that is a secret by itself; `}` is none
MASK = "***"
_CHUNK = 1 << 20  # bytes

_LINE_END = re.compile(r"\r\n|\r|\n")
_ARMOR = re.compile(r"-+ ?(BEGIN|END) .*-")  # around a key; every key has it
_INDENT = 100  # characters around the end of a line, at most
_BETWEEN = rf"[ \t]{{0,{_INDENT}}}\r?\n[ \t]{{0,{_INDENT}}}"

_PERCENT = re.compile("%[0-9A-F]{2}")
_KEPT_IN_COMPONENTS = "!'()*"  # by `encodeURIComponent`
_KEPT_IN_PATHS = "$&+=:@"

_Form = tuple[str, ...]  # one line, or several that follow each other


class Redactor:
    """Removes secret values from text and files."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        forms = {form for value in secrets.values() if len(value) >= SHORTEST for form in _forms(value)}
        # The longest first, so that a secret that contains another one is removed completely.
        ordered = sorted(forms, key=lambda form: (-sum(map(len, form)), form))
        self._texts = _Search(ordered, str, _BETWEEN, MASK)
        self._bytes = _Search(ordered, _encoded, _encoded(_BETWEEN), _encoded(MASK))
        self._overlap = self._bytes.longest - 1

    def __bool__(self) -> bool:
        return bool(self._bytes.forms)

    def text(self, text: str) -> str:
        return self._texts.masked(text)

    def data(self, data: bytes) -> bytes:
        return self._bytes.masked(data)

    def json(self, value: Any) -> Any:
        if not self:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.json(key): self.json(member) for key, member in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.json(member) for member in value]
        return value

    def found_in(self, data: bytes) -> bool:
        return next(self._bytes.matches(data), None) is not None

    # Files may be larger than memory, so they are read in chunks. Each chunk is searched together with the end of the
    # previous one, since a secret may cross the boundary.

    def found_in_file(self, file: BinaryIO) -> bool:
        kept = b""
        while chunk := file.read(_CHUNK):
            piece = kept + chunk
            if self.found_in(piece):
                return True
            kept = piece[-self._overlap :] if self._overlap else b""
        return False

    def copy(self, source: BinaryIO, target: BinaryIO) -> None:
        """Copy the content without its secrets."""
        kept = b""
        while chunk := source.read(_CHUNK):
            piece = kept + chunk
            end = self._bytes.behind_match(piece, max(0, len(piece) - self._overlap))
            target.write(self.data(piece[:end]))
            kept = piece[end:]
        target.write(self.data(kept))

    def tail(self, file: BinaryIO, limit: int) -> bytes:
        """About the last `limit` bytes; they never start in the middle of a secret."""
        size = file.seek(0, os.SEEK_END)
        start = max(0, size - limit - self._overlap)
        file.seek(start)
        piece = file.read()
        return self.data(piece[self._bytes.behind_match(piece, self._overlap if start else 0) :])

    def ready(self, piece: bytes) -> int:
        """How much of the beginning of a stream can be written, redacted, before the rest arrives: what follows is, or
        may become, a part of a secret."""
        start = max(0, len(piece) - self._overlap)
        return self._bytes.behind_match(piece, self._bytes.begun(piece, start))


class _Search(Generic[AnyStr]):
    """Finds forms in text, or in bytes."""

    def __init__(self, forms: Iterable[_Form], convert: Callable[[str], AnyStr], between: AnyStr, mask: AnyStr) -> None:
        self.forms: list[tuple[AnyStr, ...]] = [tuple(convert(line) for line in form) for form in forms]
        self._mask: AnyStr = mask
        # To look for a plain text is a hundred times faster than to match one of many patterns. So each form has a text
        # without which it cannot match, and only the patterns of texts that are there are tried.
        self._probes: list[AnyStr] = [max(form, key=len) for form in self.forms]
        self._patterns: list[AnyStr] = [between.join(re.escape(line) for line in form) for form in self.forms]
        self._either: AnyStr = convert("|")
        gaps = 2 * _INDENT + 2
        self.longest = max((sum(map(len, form)) + gaps * (len(form) - 1) for form in self.forms), default=1)
        self._compiled: Callable[..., re.Pattern[AnyStr]] = lru_cache(maxsize=8)(self._compile)

    def _compile(self, *present: int) -> re.Pattern[AnyStr]:
        return re.compile(self._either.join([self._patterns[number] for number in present]))

    def _pattern(self, text: AnyStr) -> re.Pattern[AnyStr] | None:
        present = [number for number, probe in enumerate(self._probes) if probe in text]
        return self._compiled(*present) if present else None

    def matches(self, text: AnyStr) -> Iterator[re.Match[AnyStr]]:
        pattern = self._pattern(text)
        return iter(()) if pattern is None else pattern.finditer(text)

    def masked(self, text: AnyStr) -> AnyStr:
        pattern = self._pattern(text)
        return text if pattern is None else pattern.sub(lambda _: self._mask, text)

    def behind_match(self, text: AnyStr, position: int) -> int:
        """The position, or the end of the match that crosses it."""
        for match in self.matches(text):
            if match.start() < position < match.end():
                return match.end()
        return position

    def begun(self, text: AnyStr, start: int) -> int:
        """Where, from `start` on, a form begins that may end in what follows the text; its length if nowhere."""
        earliest = len(text)
        for form in self.forms:
            first = form[0]
            if len(form) > 1 and (found := text.find(first, start)) >= 0:
                earliest = min(earliest, found)
            position = max(start, len(text) - len(first) + 1)
            while (position := text.find(first[:1], position)) >= 0 and not first.startswith(text[position:]):
                position += 1
            if position >= 0:
                earliest = min(earliest, position)
        return earliest


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _forms(value: str) -> set[_Form]:
    """Every form in which a value is searched for."""
    lines = [line.strip() for line in _LINE_END.split(value.strip())]
    if len(lines) == 1:
        wholes = [whole for whole in (value, value.strip()) if len(whole) >= SHORTEST]
        return {(s,) for whole in wholes for s in (*_spellings(whole), *_of_other_languages(whole))}
    if sum(map(len, lines)) < SHORTEST:
        return {(value,)}
    forms = {tuple(spelled) for spelled in zip(*map(_in_html, lines), strict=True)}
    for end in ("\n", "\r\n"):
        whole = end.join(_LINE_END.split(value.strip()))
        forms |= {(spelling,) for spelling in _spellings(whole) if not _LINE_END.search(spelling)}
    for line in lines:
        if len(line) >= SHORTEST_LINE and not _ARMOR.match(line):
            forms |= {(spelling,) for spelling in _spellings(line)}
    return forms


def _spellings(value: str) -> set[str]:
    from urllib.parse import quote, quote_plus  # only steps with secrets need it

    data = _encoded(value)
    spellings = {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1]}
    return {*spellings, *_in_html(value), ascii(value)[1:-1], quote(data), quote(data, safe=""), quote_plus(data)}


def _of_other_languages(value: str) -> Iterator[str]:
    """What other languages than Python escape, or do not. Not for each line of a key, which would take too long."""
    from urllib.parse import quote, quote_plus

    escaped = json.dumps(value, ensure_ascii=False)[1:-1]
    yield escaped.replace("/", r"\/")  # PHP
    for mark in "<>&":
        escaped = escaped.replace(mark, f"\\u{ord(mark):04x}")
    yield escaped  # Go
    data = _encoded(value)
    kept = ("", "/", _KEPT_IN_COMPONENTS, _KEPT_IN_PATHS, _KEPT_IN_COMPONENTS + _KEPT_IN_PATHS + ";,/?#")
    forms = (quote_plus(data), quote_plus(data, safe="*").replace("~", "%7E"))  # the second is that of browsers
    for url in {*forms, *(quote(data, safe=each) for each in kept)}:
        yield url
        yield _PERCENT.sub(lambda found: found[0].lower(), url)


def _in_html(value: str) -> list[str]:
    """The value itself, and as HTML and XML escape it. Programs differ in what they do with quotation marks."""
    escaped = value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    marks = product(('"', "&quot;", "&#34;"), ("'", "&#x27;", "&#39;", "&apos;"))
    return [value, *(escaped.replace('"', double).replace("'", single) for double, single in marks)]


NOTHING_SECRET = Redactor({})
