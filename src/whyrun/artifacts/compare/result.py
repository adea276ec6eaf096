"""The result of a comparison, and its settings."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import msgspec

SHOWN = 20  # details that are kept; the others are counted
LONGEST = 200  # characters of a detail
UNCHANGED = "unchanged"


class CompareSettings(msgspec.Struct, frozen=True):
    """`keys`: the columns that identify a row of a table. `tolerance`: numbers that differ by less are equal."""

    keys: tuple[str, ...] = ()
    tolerance: float = 0.0

    def same_number(self, old: float, new: float) -> bool:
        """Whether two numbers are equal within the tolerance: relative for large, absolute for small numbers. NaN
        equals NaN. Integers have no tolerance: 1000001 and 1000002 may be IDs."""
        if old == new or (old != old and new != new):
            return True
        if self.tolerance <= 0 or (isinstance(old, int) and isinstance(new, int)):
            return False
        try:
            return math.isclose(old, new, rel_tol=self.tolerance, abs_tol=self.tolerance)
        except OverflowError:  # an integer too large for a float
            return False

    def near_note(self, number: int) -> str:
        """The note for numbers that are equal only because of the tolerance."""
        differ = "number differs" if number == 1 else "numbers differ"
        return f"{number:,} {differ} within the tolerance of {self.tolerance:g}"


def number_of(text: str) -> float:
    """The number in a text; an integer stays an integer."""
    try:
        return int(text)
    except ValueError:
        return float(text)


def differs(old: float, new: float) -> bool:
    return old != new and not (old != old and new != new)


@dataclass(frozen=True, slots=True)
class Comparison:
    """`summary`: one line ("5 edge changes"). `details`: the first differences and notes. `more`: how many others."""

    identical: bool
    summary: str = UNCHANGED
    details: tuple[str, ...] = ()
    more: int = 0

    def with_note(self, note: str) -> Comparison:
        """A copy with a note before its details."""
        return replace(self, details=(shortened(note), *self.details[: SHOWN - 1]), more=self._more_after(1))

    def _more_after(self, added: int) -> int:
        return self.more + max(0, len(self.details) + added - SHOWN)

    def to_json(self) -> dict[str, Any]:
        record: dict[str, Any] = {"identical": self.identical, "summary": self.summary, "details": list(self.details)}
        return {**record, "more": self.more} if self.more else record


IDENTICAL = Comparison(True)


class Unreadable(Exception):
    """The comparer cannot read the file; another has to compare it."""


class Findings(msgspec.Struct):
    """Collects differences: counts by kind, and the first details."""

    counts: dict[str, int] = {}
    details: list[str] = []
    notes: list[str] = []  # not differences
    total: int = 0

    def add(self, kind: str, detail: str, number: int = 1) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + number
        self.total += 1
        if len(self.details) < SHOWN:
            self.details.append(shortened(detail))

    @property
    def full(self) -> bool:
        """Whether further details would be dropped."""
        return len(self.details) >= SHOWN

    def result(self, summary: str) -> Comparison:
        """`summary` is used only if there are differences."""
        details = [*(shortened(note) for note in self.notes), *self.details][:SHOWN]
        more = len(self.notes) + self.total - len(details)
        return Comparison(not self.total, summary if self.total else UNCHANGED, tuple(details), more)


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def phrase(noun: str, parts: Iterable[tuple[int, str]]) -> str:
    """`3 lines changed, 1 added`: the noun is written once."""
    phrases: list[str] = []
    for number, verb in parts:
        if number:
            phrases.append(f"{number:,} {verb}" if phrases else f"{counted(number, noun)} {verb}")
    return ", ".join(phrases)


def shortened(text: str, most: int = LONGEST) -> str:
    """One printable line of limited length."""
    line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[: most + 1])
    return line if len(text) <= most and len(line) <= 2 * most else f"{line[: most - 1]}…"
