"""Loops with other values from index to index, or with results of jobs; and the rows of several loops. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain, product
from typing import Any, NamedTuple

import msgspec

from whyrun.errors import Diagnostic
from whyrun.ids import OPEN, Index, format_indices, format_words


class RecordedValue(NamedTuple):
    """A small value that a job has made."""

    value: Any  # of an array, the values of its elements
    sha256: str
    keys: Sequence[Index] = ()  # of the elements of an array


class Refused(NamedTuple):
    sha256: str
    problem: Diagnostic


Recorded = Callable[[str], RecordedValue | None]  # by artifact ID: its value, if that counts


def nothing_recorded(artifact: str) -> None:
    del artifact


class Results(msgspec.Struct, eq=False):
    """The results that loops go over, and what expansion has taken of them."""

    recorded: Recorded = nothing_recorded
    taken: set[str] = set()  # artifact IDs whose elements are rows now
    refused: dict[str, Refused] = {}  # artifact ID → why its value cannot be the values of a loop


class Ragged(tuple[Index, ...]):
    """The values of a loop that depends on others or on a result: of all of their indices together, and `of` each."""

    after: tuple[str, ...]
    of: Mapping[tuple[Index, ...], Sequence[Index]]
    is_open: bool  # it goes over a result, or depends on a loop that does: then `[?]` is the value where none is known

    @classmethod
    def made(
        cls,
        after: tuple[str, ...],
        of: Mapping[tuple[Index, ...], Sequence[Index]],
        *,
        is_open: bool = False,
    ) -> Ragged:
        values = dict.fromkeys(chain.from_iterable(of.values()))
        values.pop(OPEN, None)
        whole = cls(values)
        whole.after, whole.of, whole.is_open = after, of, is_open
        return whole


def is_open(axis: Sequence[Index]) -> bool:
    """Whether the values of the loop depend on a result."""
    return isinstance(axis, Ragged) and axis.is_open


def axis_at(name: str, row: Mapping[str, Index], loops: Mapping[str, Sequence[Index]]) -> Sequence[Index]:
    """The values of a loop, at these indices of the loops before it."""
    axis = loops[name]
    if not isinstance(axis, Ragged):
        return axis
    outer = tuple(row[other] for other in axis.after)
    if OPEN in outer:
        return (OPEN,)
    return axis.of.get(outer, ())


def rows_over(names: Sequence[str], loops: Mapping[str, Sequence[Index]]) -> list[tuple[Index, ...]]:
    """Every combination of the values of these loops."""
    if not any(isinstance(loops[name], Ragged) for name in names):
        return list(product(*(loops[name] for name in names)))
    rows: list[tuple[Index, ...]] = [()]
    for number, name in enumerate(names):
        rows = [
            (*row, value) for row in rows for value in axis_at(name, dict(zip(names[:number], row, strict=True)), loops)
        ]
    return rows


def texts_of(rows: Sequence[tuple[Index, ...]]) -> list[str]:
    """`[asia][7]` by row."""
    if set(map(type, chain.from_iterable(rows))) == {int}:  # the hot path
        pattern = "[%d]" * len(rows[0])
        return [pattern % row for row in rows]
    if set(map(len, rows)) == {1}:
        return list(map("[{}]".format, format_words([row[0] for row in rows])))
    return [format_indices(row) for row in rows]
