"""The keys of a join as one number, where that is exact: whole numbers whose ranges, multiplied, fit one.

A join and a count by one small number take a fraction of the memory that several wide columns do, and what needs no
disk is fast. Nothing depends on it but the time: a key is packed without loss, or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from whyrun.actions.builtin.data.engine import Engine, name
from whyrun.actions.builtin.data.tables import Column, Table

KEY = "__whyrun_key"  # no column of a user may be called so
_PACKABLE = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"})
_LARGEST = 2**62  # far enough from where 64 bits end
_SMALL = 2**32


@dataclass(frozen=True, slots=True)
class Packing:
    """Of each key column, in the order of the keys: the least value on either side, and how many there may be."""

    least: tuple[int, ...]
    widths: tuple[int, ...]

    @property
    def values(self) -> int:
        """How many keys there can be: they are packed into 0 … values - 1."""
        return prod(self.widths)

    def number(self, columns: Sequence[Column]) -> str:
        """SQL of the packed key of these columns; NULL where one of them is."""
        parts = [
            f"(CAST({name(column.name)} AS BIGINT) - ({least})) * {prod(self.widths[at + 1 :])}"
            for at, (column, least) in enumerate(zip(columns, self.least, strict=True))
        ]
        return f"CAST({' + '.join(parts)} AS {'UINTEGER' if self.values <= _SMALL else 'BIGINT'})"


def packing(
    engine: Engine, left: Table, right: Table, keys: Sequence[Column], right_keys: Sequence[Column]
) -> Packing | None:
    """None where the keys cannot be one number, or a side has none at all."""
    if not all(column.type in _PACKABLE for column in (*keys, *right_keys)):
        return None
    sides = [_ranges(engine, table, columns) for table, columns in ((left, keys), (right, right_keys))]
    if any(bound is None for side in sides for bound in side):
        return None
    bounds = list(zip(*sides, strict=True))  # least, most, least, most, … of both sides
    least = tuple(min(both) for both in bounds[::2])
    widths = tuple(max(both) - low + 1 for both, low in zip(bounds[1::2], least, strict=True))
    found = Packing(least, widths)
    return found if found.values < _LARGEST else None


def _ranges(engine: Engine, table: Table, columns: Sequence[Column]) -> tuple[int | None, ...]:
    asked = [f"{bound}({name(column.name)})" for column in columns for bound in ("min", "max")]
    return engine.row(f"SELECT {', '.join(asked)} FROM {table.relation}")
