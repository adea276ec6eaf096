"""What a join will do, counted from the keys alone: no row is joined for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from whyrun.actions.builtin.data.engine import Engine, name
from whyrun.actions.builtin.data.keys import Packing
from whyrun.actions.builtin.data.tables import Column, Table


@dataclass(frozen=True, slots=True)
class Facts:
    """Rows of the two sides. A row with a missing key matches nothing, and is counted among the unmatched ones too."""

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
    """Of the rows whose key is there."""

    keyed_left: int
    keyed_right: int
    matched_left: int
    matched_right: int
    repeated_left: int = 0
    repeated_right: int = 0
    rows_repeated_left: int = 0
    rows_repeated_right: int = 0
    pairs: int = 0


def facts_of(
    engine: Engine,
    left: Table,
    right: Table,
    keys: Sequence[Column],
    right_keys: Sequence[Column],
    packed: Packing | None,
    how: str,
) -> Facts:
    found = _marked(engine, left, right, keys, right_keys, packed) if packed is not None else None
    if found is None:
        found = _grouped(engine, left, right, keys, right_keys, packed)
    out = found.pairs
    if how in ("left", "outer"):
        out += left.rows - found.matched_left
    if how in ("right", "outer"):
        out += right.rows - found.matched_right
    return Facts(
        left.rows, right.rows, left.rows - found.keyed_left, right.rows - found.keyed_right,
        found.matched_left, found.matched_right, found.repeated_left, found.repeated_right,
        found.rows_repeated_left, found.rows_repeated_right, found.pairs, out,
    )  # fmt: skip


def _marked(
    engine: Engine, left: Table, right: Table, keys: Sequence[Column], right_keys: Sequence[Column], packed: Packing
) -> _Counts | None:
    """One bit for each possible key, set where it occurs: a scan of each side, in a fraction of the time of a grouping.
    It tells all where no key is repeated, which is what most merges are about; None where one is, or where keys are
    so few and far between that the bits would take too much memory."""
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


def _grouped(
    engine: Engine,
    left: Table,
    right: Table,
    keys: Sequence[Column],
    right_keys: Sequence[Column],
    packed: Packing | None,
) -> _Counts:
    """One grouping of the keys of both sides."""
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
    # Counts, not sums: DuckDB sums in 128 bits, at twice the time.
    both = f"{side(left, keys, 'NULL AS r')} UNION ALL {side(right, right_keys, 'true AS r')}"
    row = engine.row(
        f"""SELECT coalesce(sum(l), 0), coalesce(sum(r), 0),
            coalesce(sum(l) FILTER (r > 0), 0), coalesce(sum(r) FILTER (l > 0), 0),
            count(*) FILTER (l > 1), count(*) FILTER (r > 1),
            coalesce(sum(l) FILTER (l > 1), 0), coalesce(sum(r) FILTER (r > 1), 0), coalesce(sum(l * r), 0)
        FROM (SELECT count(*) - count(r) AS l, count(r) AS r FROM ({both}) GROUP BY {grouped})"""
    )
    return _Counts(*map(int, row))
