"""`[x+1]`, `[x-1]`: which index is a neighbour. It is judged by the order of what is indexed. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from whyrun.ids import Index, format_index
from whyrun.workflow.model import At, LeafDecl, Loop, OutputRef


class _Hole:
    """A neighbour out of range."""


class Order(msgspec.Struct, frozen=True):
    """The indices that a selector selects from, in their order: `[x+1]` moves in it."""

    values: Sequence[Index]
    position: Mapping[Index, int]
    what: str  # whose indices they are, for messages

    def moved(self, index: Index, offset: int) -> Any:
        """The index that many places on, or `HOLE`."""
        if isinstance(self.values, range):  # also from beyond an end back into it
            return index + offset if type(index) is int and index + offset in self.values else HOLE
        here = self.position.get(index)
        # An instance that `include:` adds may have an index that the loop lacks; then it has no neighbours.
        if here is None or type(self.values[here]) is not type(index):
            return HOLE
        return self.values[here + offset] if 0 <= here + offset < len(self.values) else HOLE

    def has(self, index: Index) -> bool:
        return index in self.values if isinstance(self.values, range) else index in self.position

    def has_other_kind(self, index: Index) -> bool:
        """Whether it can have no place here: a word among numbers, or `1.0` for `1`."""
        if self.has(index):
            return type(self.values[self.position[index]]) is not type(index)
        return any(isinstance(value, str) != isinstance(index, str) for value in self.values[:1])

    def __str__(self) -> str:
        if not self.values:
            return f"{self.what} is empty"
        if isinstance(self.values, range):
            return f"{self.what} goes from {self.values[0]} to {self.values[-1]}"
        return f"{self.what} has the values {few(list(map(format_index, self.values)))}"


HOLE = _Hole()


def leaf_orders(leaves: Sequence[LeafDecl], ref: OutputRef, of_loop: Callable[[str], Order]) -> list[tuple[Order, ...]]:
    """For the selectors of each part of a leaf's path: the indices that the output declares there."""
    names = [(name, len(selectors)) for name, selectors in ref.leaf]
    alike = [leaf.path for leaf in leaves if [(name, len(selectors)) for name, selectors in leaf.path] == names]

    def order(part: int, number: int) -> Order:
        declared = [path[part][1][number] for path in alike]
        if len(declared) == 1 and isinstance(declared[0], Loop):
            return of_loop(declared[0].loop)
        values: dict[Index, None] = {}
        for selector in declared:
            values.update(dict.fromkeys(of_loop(selector.loop).values if isinstance(selector, Loop) else ()))
            values.update({selector.index: None} if isinstance(selector, At) else {})
        position = {value: i for i, value in enumerate(values)}
        return Order(tuple(values), position, f"`{names[part][0]}` of `{ref.job}.{ref.output}`")

    return [tuple(order(part, number) for number in range(count)) for part, (_, count) in enumerate(names)]


def few(names: Sequence[str]) -> str:
    shown = ", ".join(f"`{n}`" for n in names[:5])
    return f"{shown}, … ({len(names)} in all)" if len(names) > 5 else shown
