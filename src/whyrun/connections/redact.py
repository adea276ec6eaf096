"""Removes secret values from everything that is recorded, by value and not by name."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any, BinaryIO

SHORTEST = 4  # characters; a shorter value also occurs in harmless text, so it cannot be removed from logs
MASK = "***"
_MASK = MASK.encode()
_CHUNK = 1 << 20  # bytes


class Redactor:
    """Removes secret values from text, also in the spelling of JSON, a `repr` or a URL."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        values = {value for whole in secrets.values() for value in (whole, whole.strip()) if len(value) >= SHORTEST}
        values |= {spelling for value in values for spelling in _spellings(value)}
        # The longest first, so that a secret that contains another one is removed completely.
        self._values = sorted(values, key=lambda value: (-len(value), value))
        self._bytes = [value.encode("utf-8", "surrogateescape") for value in self._values]
        self._overlap = max(map(len, self._bytes), default=1) - 1
        # Without secrets the pattern matches nothing.
        self._any_secret = re.compile(b"|".join(map(re.escape, self._bytes)) or rb"(?!)")

    def __bool__(self) -> bool:
        return bool(self._values)

    def text(self, text: str) -> str:
        for value in self._values:
            text = text.replace(value, MASK)
        return text

    def data(self, data: bytes) -> bytes:
        for value in self._bytes:
            data = data.replace(value, _MASK)
        return data

    def json(self, value: Any) -> Any:
        if not self._values:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.json(key): self.json(member) for key, member in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.json(member) for member in value]
        return value

    def found_in(self, data: bytes) -> bool:
        return any(value in data for value in self._bytes)

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
            end = max(0, len(piece) - self._overlap)
            for match in self._any_secret.finditer(piece):
                if match.start() < end < match.end():
                    end = match.end()
            target.write(self._any_secret.sub(_MASK, piece[:end]))
            kept = piece[end:]
        target.write(self._any_secret.sub(_MASK, kept))

    def tail(self, file: BinaryIO, limit: int) -> bytes:
        """About the last `limit` bytes; they never start in the middle of a secret."""
        size = file.seek(0, os.SEEK_END)
        start = max(0, size - limit - self._overlap)
        file.seek(start)
        piece = file.read()
        begin = self._overlap if start else 0
        for match in self._any_secret.finditer(piece):
            if match.start() < begin < match.end():
                begin = match.end()
        return self._any_secret.sub(_MASK, piece[begin:])


def _spellings(value: str) -> set[str]:
    from urllib.parse import quote, quote_plus  # only steps with secrets need it

    data = value.encode("utf-8", "surrogateescape")
    spellings = {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1]}
    return spellings | {ascii(value)[1:-1], quote(data), quote(data, safe=""), quote_plus(data)}


NOTHING_SECRET = Redactor({})
