"""Counts the rows of a join from the keys alone, before any row is joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from whyrun.actions.data.engine import Engine, name
from whyrun.actions.data.joining.keys import Packing
from whyrun.actions.data.tables import Column, Table


@dataclass(frozen=True, slots=True)
class JoinCounts:
    """Row counts of the two sides. A row with a missing key matches nothing, so it also counts as unmatched."""

    left: int
    right: int
    null_left: int
    null_right: int
    matched_left: int
    matched_right: int
    repeated_left: int  # keys that occur more than once
    repeated_right: int
    rows_repeated_left: int  # rows with such a key
    rows_repeated_right: int
    pairs: int
    out: int

    @property
    def cardinality(self) -> str:
        return f"{'m' if self.repeated_left else '1'}:{'m' if self.repeated_right else '1'}"

    def rows(self) -> dict[str, int]:
        return {
            "left": self.left,
            "right": self.right,
            "matched_left": self.matched_left,
            "matched_right": self.matched_right,
            "unmatched_left": self.left - self.matched_left,
            "unmatched_right": self.right - self.matched_right,
            "null_key_left": self.null_left,
            "null_key_right": self.null_right,
            "out": self.out,
        }


@dataclass(frozen=True, slots=True)
class _Counts:
    """Counts of the rows that have a key."""

    keyed_left: int
    keyed_right: int
    matched_left: int
    matched_right: int
    repeated_left: int = 0
    repeated_right: int = 0
    rows_repeated_left: int = 0
    rows_repeated_right: int = 0
    pairs: int = 0


def count_join(
    engine: Engine,
    left: Table,
    right: Table,
    keys: Sequence[Column],
    right_keys: Sequence[Column],
    packed: Packing | None,
    how: str,
) -> JoinCounts:
    keyed = _count_by_bits(engine, left, right, keys, right_keys, packed) if packed is not None else None
    if keyed is None:
        keyed = _count_by_grouping(engine, left, right, keys, right_keys, packed)
    out = keyed.pairs
    if how in ("left", "outer"):
        out += left.rows - keyed.matched_left
    if how in ("right", "outer"):
        out += right.rows - keyed.matched_right
    return JoinCounts(
        left.rows, right.rows, left.rows - keyed.keyed_left, right.rows - keyed.keyed_right,
        keyed.matched_left, keyed.matched_right, keyed.repeated_left, keyed.repeated_right,
        keyed.rows_repeated_left, keyed.rows_repeated_right, keyed.pairs, out,
    )  # fmt: skip


def _count_by_bits(
    engine: Engine, left: Table, right: Table, keys: Sequence[Column], right_keys: Sequence[Column], packed: Packing
) -> _Counts | None:
    """Set one bit for each key that occurs: one scan of each side, much faster than grouping.

    This is enough if no key is repeated, as in most merges. None if one is repeated, or if the range of keys is so
    large that the bits would need too much memory.
    """
    if packed.values > engine.spare_bits():
        return None
    sides = [
        f"(SELECT bitstring_agg(k, 0, {packed.values - 1}) AS bits, count(k) AS n "
        f"FROM (SELECT CAST({packed.number(columns)} AS BIGINT) AS k FROM {table.relation}))"
        for table, columns in ((left, keys), (right, right_keys))
    ]
    keyed_left, keyed_right, of_left, of_right, of_both = engine.row(
        f"SELECT l.n, r.n, bit_count(l.bits), bit_count(r.bits), bit_count(l.bits & r.bits) "
        f"FROM {sides[0]} l, {sides[1]} r"
    )
    if (of_left, of_right) != (keyed_left, keyed_right):
        return None
    return _Counts(keyed_left, keyed_right, of_both, of_both, pairs=of_both)


def _count_by_grouping(
    engine: Engine,
    left: Table,
    right: Table,
    keys: Sequence[Column],
    right_keys: Sequence[Column],
    packed: Packing | None,
) -> _Counts:
    """Group the keys of both sides once."""
    comparable = all(key.kind == other.kind for key, other in zip(keys, right_keys, strict=True))

    def side(table: Table, columns: Sequence[Column], mark: str) -> str:
        if packed is not None:
            return f"SELECT k0, {mark} FROM (SELECT {packed.number(columns)} AS k0 FROM {table.relation}) WHERE k0 >= 0"
        values = ", ".join(
            f"{name(column.name) if comparable else f'CAST({name(column.name)} AS VARCHAR)'} AS k{at}"
            for at, column in enumerate(columns)
        )
        present = " AND ".join(f"{name(column.name)} IS NOT NULL" for column in columns)
        return f"SELECT {values}, {mark} FROM {table.relation} WHERE {present}"

    grouped = ", ".join(f"k{at}" for at in range(1 if packed is not None else len(keys)))
    # Use counts, not sums: DuckDB sums in 128 bits, which takes twice the time.
    both = f"{side(left, keys, 'NULL AS r')} UNION ALL {side(right, right_keys, 'true AS r')}"
    row = engine.row(
        f"""SELECT coalesce(sum(l), 0), coalesce(sum(r), 0),
            coalesce(sum(l) FILTER (r > 0), 0), coalesce(sum(r) FILTER (l > 0), 0),
            count(*) FILTER (l > 1), count(*) FILTER (r > 1),
            coalesce(sum(l) FILTER (l > 1), 0), coalesce(sum(r) FILTER (r > 1), 0), coalesce(sum(l * r), 0)
        FROM (SELECT count(*) - count(r) AS l, count(r) AS r FROM ({both}) GROUP BY {grouped})"""
    )
    return _Counts(*map(int, row))
