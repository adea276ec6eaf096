"""Many content hashes in one column of bytes: compared as a whole, read one by one as hexadecimal text. Pure.

The most common plan has nothing to do: 100,000 hashes are only compared with the previous ones. As bytes, that is one
comparison; as text, it would be 100,000 objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

WIDTH = 32  # bytes of a sha256
_DIGITS = 2 * WIDTH
_is_hex = re.compile("[0-9a-f]*").fullmatch


def is_hash(text: str) -> bool:
    """Whether the text is a sha256 in lower case, so that bytes can hold it without loss."""
    return len(text) == _DIGITS and _is_hex(text) is not None


class HashColumn(Sequence[str | None]):
    """Row → hash or None. Rows can be set. Values that are not hashes are kept in a dictionary beside the bytes."""

    __slots__ = ("_raw", "_set")
    __hash__ = None  # type: ignore[assignment]  # mutable

    def __init__(self, raw: bytes = b"", set_: dict[int, str | None] | None = None) -> None:
        self._raw: bytes | bytearray = raw
        self._set: dict[int, str | None] = {} if set_ is None else set_

    @classmethod
    def of(cls, values: Iterable[str | None]) -> HashColumn:
        """From any values; only hashes are kept as bytes."""
        listed = list(values)
        if None not in listed and {len(value) for value in listed if value is not None} <= {_DIGITS}:
            text = "".join(listed)  # type: ignore[arg-type]  # no None in it
            if _is_hex(text):
                return cls(bytes.fromhex(text))
        parts: list[str] = []
        set_: dict[int, str | None] = {}
        for row, value in enumerate(listed):
            if value is not None and is_hash(value):
                parts.append(value)
            else:
                set_[row] = value
                parts.append("0" * _DIGITS)
        return cls(bytes.fromhex("".join(parts)), set_)

    @classmethod
    def joined(cls, columns: Iterable[HashColumn]) -> HashColumn:
        """Several columns as one."""
        parts: list[bytes | bytearray] = []
        set_: dict[int, str | None] = {}
        rows = 0
        for column in columns:
            set_.update((rows + row, value) for row, value in column._set.items())
            parts.append(column._raw)
            rows += len(column)
        return cls(b"".join(parts), set_)

    def copy(self) -> HashColumn:
        return HashColumn(bytes(self._raw), dict(self._set))

    def taken(self, rows: Sequence[int]) -> HashColumn:
        """A column of these rows in this order; a negative row gives None."""
        width, raw, nothing = WIDTH, self._raw, bytes(WIDTH)
        data = b"".join([raw[row * width : row * width + width] if row >= 0 else nothing for row in rows])
        absent: dict[int, str | None] = {new: None for new, row in enumerate(rows) if row < 0}
        moved = {new: self._set[row] for new, row in enumerate(rows) if row in self._set} if self._set else {}
        return HashColumn(data, absent | moved)

    @property
    def whole(self) -> bytes | None:
        """All rows as bytes; None unless every row is a hash."""
        return None if self._set else bytes(self._raw)

    @property
    def is_complete(self) -> bool:
        return None not in self._set.values()

    def absent(self) -> list[int]:
        """The rows that are None."""
        return sorted(row for row, value in self._set.items() if value is None)

    def texts(self) -> list[str | None]:
        text = self._raw.hex()
        texts: list[str | None] = [text[at : at + _DIGITS] for at in range(0, len(text), _DIGITS)]
        for row, value in self._set.items():
            texts[row] = value
        return texts

    def __len__(self) -> int:
        return len(self._raw) // WIDTH

    @overload
    def __getitem__(self, row: int) -> str | None: ...
    @overload
    def __getitem__(self, row: slice) -> list[str | None]: ...
    def __getitem__(self, row: int | slice) -> str | list[str | None] | None:
        if isinstance(row, slice):
            return self.texts()[row]
        if not -len(self) <= row < len(self):
            raise IndexError(row)
        row %= len(self)
        return self._set[row] if row in self._set else self._raw[row * WIDTH : row * WIDTH + WIDTH].hex()

    def __setitem__(self, row: int, value: str | None) -> None:
        if not 0 <= row < len(self):
            raise IndexError(row)
        if value is None or not is_hash(value):
            self._set[row] = value
            return
        if isinstance(self._raw, bytes):
            self._raw = bytearray(self._raw)  # a copy: other columns may share the bytes
        self._raw[row * WIDTH : row * WIDTH + WIDTH] = bytes.fromhex(value)
        self._set.pop(row, None)

    def __iter__(self) -> Iterator[str | None]:
        return iter(self.texts())

    def __contains__(self, value: object) -> bool:
        return not self.is_complete if value is None else value in self.texts()

    def count(self, value: str | None) -> int:
        return list(self._set.values()).count(None) if value is None else self.texts().count(value)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, HashColumn):
            if not self._set and not other._set:
                return self._raw == other._raw
            return self.texts() == other.texts()
        return isinstance(other, list) and self.texts() == other

    def __repr__(self) -> str:
        return f"HashColumn({self.texts()!r})"
