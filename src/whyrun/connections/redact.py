"""Secret values, taken out of everything that is written down: by value, never by the name that they go by."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any, BinaryIO

SHORTEST = 4  # characters; a shorter value stands in harmless text too, so it cannot be taken out of logs
MASK = "***"
_MASK = MASK.encode()
_CHUNK = 1 << 20  # bytes


class Redactor:
    """Takes secret values out of text, by value, also where they stand in JSON, in a `repr` or in a URL."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        found = {value for whole in secrets.values() for value in (whole, whole.strip()) if len(value) >= SHORTEST}
        found |= {spelling for value in found for spelling in _spellings(value)}
        # The longest first, so that one secret inside another leaves no rest.
        self._values = sorted(found, key=lambda value: (-len(value), value))
        self._bytes = [value.encode("utf-8", "surrogateescape") for value in self._values]
        self._overlap = max(map(len, self._bytes), default=1) - 1
        # Matches nothing where there is nothing secret.
        self._anyone = re.compile(b"|".join(map(re.escape, self._bytes)) or rb"(?!)")

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

    # Files may be far larger than memory: a piece at a time, each with the end of the one before, since a secret may
    # lie across any boundary.

    def found_in_file(self, file: BinaryIO) -> bool:
        kept = b""
        while chunk := file.read(_CHUNK):
            piece = kept + chunk
            if self.found_in(piece):
                return True
            kept = piece[-self._overlap :] if self._overlap else b""
        return False

    def copy(self, source: BinaryIO, target: BinaryIO) -> None:
        """The content without any secret."""
        kept = b""
        while chunk := source.read(_CHUNK):
            piece = kept + chunk
            end = max(0, len(piece) - self._overlap)
            for match in self._anyone.finditer(piece):
                if match.start() < end < match.end():
                    end = match.end()
            target.write(self._anyone.sub(_MASK, piece[:end]))
            kept = piece[end:]
        target.write(self._anyone.sub(_MASK, kept))

    def tail(self, file: BinaryIO, limit: int) -> bytes:
        """About the last `limit` bytes; they never begin in the middle of a secret."""
        size = file.seek(0, os.SEEK_END)
        start = max(0, size - limit - self._overlap)
        file.seek(start)
        piece = file.read()
        begin = self._overlap if start else 0
        for match in self._anyone.finditer(piece):
            if match.start() < begin < match.end():
                begin = match.end()
        return self._anyone.sub(_MASK, piece[begin:])


def _spellings(value: str) -> set[str]:
    from urllib.parse import quote, quote_plus  # only steps with secrets need it

    data = value.encode("utf-8", "surrogateescape")
    spellings = {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1]}
    return spellings | {ascii(value)[1:-1], quote(data), quote(data, safe=""), quote_plus(data)}


NOTHING_SECRET = Redactor({})
