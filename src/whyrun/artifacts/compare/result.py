"""What a comparison says, and what it was told to mind."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

SHOWN = 20  # details that are kept; the rest is counted
LONGEST = 200  # characters of a detail
UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class CompareSettings:
    """`keys`: the columns that name a row of a table. `tolerance`: numbers that are as near as this are the same."""

    keys: tuple[str, ...] = ()
    tolerance: float = 0.0

    def same_number(self, old: float, new: float) -> bool:
        """Relative for large numbers and absolute for small ones; not-a-number is itself. Two whole numbers are the
        same or not: 1000001 and 1000002 may be names of firms."""
        if old == new or (old != old and new != new):
            return True
        if self.tolerance <= 0 or (isinstance(old, int) and isinstance(new, int)):
            return False
        try:
            return math.isclose(old, new, rel_tol=self.tolerance, abs_tol=self.tolerance)
        except OverflowError:  # a whole number beyond what a float can hold
            return False

    def near_note(self, number: int) -> str:
        """What is said of numbers that are the same by the tolerance alone."""
        differ = "number differs" if number == 1 else "numbers differ"
        return f"{number:,} {differ} within the tolerance of {self.tolerance:g}"


def number_of(text: str) -> float:
    """A number that is written as text: a whole one stays whole."""
    try:
        return int(text)
    except ValueError:
        return float(text)


def differs(old: float, new: float) -> bool:
    return old != new and not (old != old and new != new)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The answer. `summary` is for a line ("5 edge changes"); `details` are the first of the differences and notes,
    `more` how many others there are."""

    identical: bool
    summary: str = UNCHANGED
    details: tuple[str, ...] = ()
    more: int = 0

    def with_note(self, note: str) -> Comparison:
        """The same with something said before its details."""
        return replace(self, details=(shortened(note), *self.details[: SHOWN - 1]), more=self._more_after(1))

    def _more_after(self, added: int) -> int:
        return self.more + max(0, len(self.details) + added - SHOWN)

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"identical": self.identical, "summary": self.summary, "details": list(self.details)}
        return {**found, "more": self.more} if self.more else found


IDENTICAL = Comparison(True)


class Unreadable(Exception):
    """A file is not of the kind that the comparer knows; another has to compare it."""


@dataclass(slots=True)
class Findings:
    """Collects what differs: counts by kind in the order of their first mention, and the first details."""

    counts: dict[str, int] = field(default_factory=dict)
    details: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # said, and no difference
    total: int = 0

    def add(self, kind: str, detail: str, number: int = 1) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + number
        self.total += 1
        if len(self.details) < SHOWN:
            self.details.append(shortened(detail))

    @property
    def full(self) -> bool:
        """Further details need not be put into words."""
        return len(self.details) >= SHOWN

    def result(self, summary: str) -> Comparison:
        """`summary` is for a difference; without one there is nothing but the notes."""
        told = [*(shortened(note) for note in self.notes), *self.details][:SHOWN]
        more = len(self.notes) + self.total - len(told)
        return Comparison(not self.total, summary if self.total else UNCHANGED, tuple(told), more)


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def phrase(noun: str, parts: Iterable[tuple[int, str]]) -> str:
    """`3 lines changed, 1 added`: the noun stands once."""
    said: list[str] = []
    for number, verb in parts:
        if number:
            said.append(f"{number:,} {verb}" if said else f"{counted(number, noun)} {verb}")
    return ", ".join(said)


def shortened(text: str, most: int = LONGEST) -> str:
    """One printable line of bounded length, whatever the file holds."""
    line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[: most + 1])
    return line if len(text) <= most and len(line) <= 2 * most else f"{line[: most - 1]}…"
