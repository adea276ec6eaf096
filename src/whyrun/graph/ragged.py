"""Loops with other values from index to index, or with results of jobs; the rows of several loops; and imports that run
for loops. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, product
from typing import Any, NamedTuple

import msgspec

from whyrun.errors import Diagnostic
from whyrun.ids import OPEN, Index, absolute, format_indices, format_words
from whyrun.workflow.model import ImportDecl, Workflow


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
    levels: Mapping[str, tuple[int, ...]] = {}  # by prefix of imports that run for loops: see `JobTable.levels`
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


# --- imports that run for loops: what IDs begin with, row by row -----------------------------------------------------


class Nest(msgspec.Struct, frozen=True):
    levels: tuple[tuple[str, ...], ...] = ()  # of each import: its loops, by their names from the root
    first: Mapping[str, Index] | None = None  # the first indices of all these loops; None if there are none

    @property
    def repeats(self) -> bool:
        return any(self.levels)

    def folder(self, prefix: str, at: Callable[[str], Index]) -> str:
        """What IDs begin with, at these indices: `Video[ada]/`. `prefix`: of the file, or of one that imports it."""
        names = prefix.split("/")[:-1]
        levels = zip(names, self.levels, strict=False)
        return "".join(f"{name}{format_indices([at(loop) for loop in loops])}/" for name, loops in levels)

    def first_folder(self, prefix: str) -> str | None:
        """That of the first indices, for values that are the same at all of them."""
        if not self.repeats:
            return prefix
        return None if self.first is None else self.folder(prefix, self.first.__getitem__)

    def positions(
        self, prefix: str, loops: Sequence[str], rows: Sequence[tuple[Index, ...]]
    ) -> dict[str | None, list[int]]:
        """By folder: the rows that it belongs to. `loops`: those of the rows; without the nest's own, they share it."""
        own = [loop for of_level in self.levels[: prefix.count("/")] for loop in of_level]
        if not all(loop in loops for loop in own):
            return {self.first_folder(prefix): list(range(len(rows)))}
        place = {loop: loops.index(loop) for loop in own}
        found: dict[str | None, list[int]] = {}
        folders: dict[tuple[Index, ...], str] = {}
        for position, row in enumerate(rows):
            key = tuple(row[place[loop]] for loop in own)
            if key not in folders:
                folders[key] = self.folder(prefix, dict(zip(own, key, strict=True)).__getitem__)
            found.setdefault(folders[key], []).append(position)
        return found


NOT_NESTED = Nest()


def nested(
    nest: Nest, prefix: str, imported: ImportDecl, loops: Mapping[str, Sequence[Index]]
) -> tuple[Nest, dict[str, Sequence[Index]]]:
    """The nest of an imported file, and the loops that its jobs get. `loops`: those of the importing file."""
    names = {loop: "/" + prefix + loop for loop in imported.loops}
    levels = (*nest.levels, tuple(names.values()))
    outer = {name: axis for name, axis in loops.items() if name.startswith("/")}
    for loop, name in names.items():
        axis = loops[loop]
        if isinstance(axis, Ragged):
            after = tuple(names.get(each, each) for each in axis.after)
            axis = Ragged.made(after, axis.of, is_open=axis.is_open)
        outer[name] = axis
    order = [loop for of_level in levels for loop in of_level]
    rows = rows_over(order, outer)
    return Nest(levels, dict(zip(order, rows[0], strict=True)) if rows else None), outer


def levels_of(
    workflow: Workflow, prefix: str = "", above: tuple[int, ...] = ()
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """By prefix of the imports that run for loops: see `JobTable.levels`."""
    for name, imported in workflow.imports.items():
        levels = (*above, len(imported.loops))
        if any(levels):
            yield f"{prefix}{name}/", levels
        yield from levels_of(imported.workflow, f"{prefix}{name}/", levels)


def input_name(prefix: str, name: str) -> tuple[str, str]:
    """The prefix of the file that declares an input, and its own name there."""
    folder, slash, own = absolute(prefix, name).rpartition("/")
    return folder + slash, own
