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

    value: Any
    sha256: str


class Refused(NamedTuple):
    sha256: str
    problem: Diagnostic


Recorded = Callable[[str], RecordedValue | None]  # by artifact ID: what its job made last


def nothing_recorded(artifact: str) -> None:
    del artifact


class Results(msgspec.Struct, eq=False):
    """What the log says of the results that loops go over, and what expansion has taken from it."""

    recorded: Recorded = nothing_recorded
    taken: dict[str, str] = {}  # artifact ID → the hash of the value whose elements are rows now
    refused: dict[str, Refused] = {}  # artifact ID → why its value cannot be the values of a loop


class Ragged(tuple[Index, ...]):
    """The values of a loop that depends on others or on a result: of all of their indices together, and `of` each."""

    after: tuple[str, ...]
    of: Mapping[tuple[Index, ...], Sequence[Index]]
    is_over_result: bool  # beside its values it has the row `[?]`, which counts while they are not known
    is_open: bool  # it goes over a result, or depends on a loop that does

    @classmethod
    def made(
        cls,
        after: tuple[str, ...],
        of: Mapping[tuple[Index, ...], Sequence[Index]],
        *,
        is_over_result: bool = False,
        is_open: bool = False,
    ) -> Ragged:
        whole = cls(dict.fromkeys(chain.from_iterable(of.values())))
        whole.after, whole.of = after, of
        whole.is_over_result, whole.is_open = is_over_result, is_over_result or is_open
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
    values = axis.of.get(outer, ())
    return (*values, OPEN) if axis.is_over_result else values


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
    if rows and OPEN in rows[-1]:  # the others are alike
        return [*texts_of(rows[:-1]), format_indices(rows[-1])]
    if set(map(type, chain.from_iterable(rows))) == {int}:  # the hot path
        pattern = "[%d]" * len(rows[0])
        return [pattern % row for row in rows]
    if set(map(len, rows)) == {1}:
        return list(map("[{}]".format, format_words([row[0] for row in rows])))
    return [format_indices(row) for row in rows]
