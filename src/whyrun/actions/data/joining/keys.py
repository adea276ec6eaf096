"""Prepares the keys of a join: checks the spellings of numbers, treats NaN as missing, and packs integers.

Packing turns several integer columns into one number if the product of their ranges fits. A join on one small number
needs much less memory and is faster; the result is the same.

`10.1` and `10.10` may be one price or two codes. As numbers they are equal, so if both occur in a key, the user has to
declare which is meant. The same holds for `0.1` and `0.10000000000000000001`, which have the same floating-point value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from whyrun.actions.data.engine import ROW, Engine, name
from whyrun.actions.data.kinds import FLOATING, KINDS, known, misfit, wider
from whyrun.actions.data.params import DataError, KeyNotExact
from whyrun.actions.data.tables import Column, Table

KEY = "__whyrun_key"  # users' columns may not have this name
_PACKABLE = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"})
_LARGEST = 2**62  # well below the limit of 64 bits
_SMALL = 2**32
_LONGEST_TEXT = 60  # characters of a value in a message


@dataclass(frozen=True, slots=True)
class Packing:
    """For each key column, the smallest value of both sides and the size of the range."""

    least: tuple[int, ...]
    widths: tuple[int, ...]

    @property
    def values(self) -> int:
        """The number of possible keys: packed keys are 0 … values - 1."""
        return prod(self.widths)

    def number(self, columns: Sequence[Column]) -> str:
        """SQL of the packed key of these columns; NULL if one of them is NULL."""
        parts = [
            f"(CAST({name(column.name)} AS BIGINT) - ({least})) * {prod(self.widths[at + 1 :])}"
            for at, (column, least) in enumerate(zip(columns, self.least, strict=True))
        ]
        return f"CAST({' + '.join(parts)} AS {'UINTEGER' if self.values <= _SMALL else 'BIGINT'})"


def packing(
    engine: Engine, left: Table, right: Table, keys: Sequence[Column], right_keys: Sequence[Column]
) -> Packing | None:
    """None if the keys cannot be packed, or a side has no keys."""
    if not all(column.type in _PACKABLE for column in (*keys, *right_keys)):
        return None
    sides = [_ranges(engine, table, columns) for table, columns in ((left, keys), (right, right_keys))]
    if any(bound is None for side in sides for bound in side):
        return None
    bounds = list(zip(*sides, strict=True))  # least, most, least, most, … of both sides
    least = tuple(min(both) for both in bounds[::2])
    widths = tuple(max(both) - low + 1 for both, low in zip(bounds[1::2], least, strict=True))
    packed = Packing(least, widths)
    return packed if packed.values < _LARGEST else None


def _ranges(engine: Engine, table: Table, columns: Sequence[Column]) -> tuple[int | None, ...]:
    limits = [f"{bound}({name(column.name)})" for column in columns for bound in ("min", "max")]
    return engine.row(f"SELECT {', '.join(limits)} FROM {table.relation}")


# --- numbers as written ------------------------------------------------------------------------------------------


def check_spellings(engine: Engine, keys: Iterable[tuple[Table, Column]]) -> None:
    """Raise `KeyNotExact` if different spellings of a key are the same number. `keys`: columns that are compared."""
    numbers = [(table, column) for table, column in keys if column.name in table.texts]
    if not numbers:
        return
    texts = " UNION ALL ".join(table.texts[column.name] for table, column in numbers)
    same = engine.rows(
        f"SELECT min(t), max(t) FROM ({texts}) WHERE t IS NOT NULL GROUP BY CAST(t AS DOUBLE) "
        "HAVING min(t) <> max(t) ORDER BY 1 LIMIT 1"
    )
    if same:
        one, other = same[0]
        column = numbers[0][1].name
        raise KeyNotExact(
            f"the key `{column}` is read as number, so `{one}` and `{other}` are the same; declare the type: "
            f"`types: {{{column}: text}}` for codes, `types: {{{column}: number}}` for numbers"
        )


def stray_text(engine: Engine, columns: Iterable[tuple[Table, Column]]) -> str:
    """For a message: the first text that keeps a column from having the kind of the others; empty if there is none."""
    members = list(columns)
    wanted = wider(*(column.kind for _, column in members if column.kind != "text"))
    for table, column in members:
        if column.kind != "text" or not table.untyped or wanted not in ("number", "timestamp"):
            continue
        value = name(column.name)
        strays = engine.rows(
            f"SELECT {value}, {ROW} + 1 FROM {table.relation} WHERE {misfit(value, wanted)} ORDER BY {ROW} LIMIT 1"
        )
        if strays:
            text, row = strays[0]
            shown = text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…"
            return f" (row {row:,} has `{shown}`)"
    return ""


def without_nan(engine: Engine, table: Table, keys: Iterable[Column]) -> Table:
    """The dataset with NULL for NaN in these columns, since a missing key matches nothing."""
    floating = [column for column in keys if column.type in FLOATING]
    if not floating or table.untyped:  # formats without types have no NaN
        return table
    view = engine.new_name("keyed")
    replaced = ", ".join(f"{known(name(column.name), column.type)} AS {name(column.name)}" for column in floating)
    engine.do(f"CREATE VIEW {view} AS SELECT * REPLACE ({replaced}) FROM {table.relation}")
    return replace(table, relation=view)


# --- which declared type makes keys of different types match? A hint is tried on the data before it is given ----------


_LONGEST = 40  # characters of an example
_NUMBERS, _TIMES = ("number", "integer"), ("timestamp", "date")


def type_hint(engine: Engine, left: Table, right: Table, key: Column, other: Column, preferred: str) -> str:
    """What to declare, for a message. The type with the most matches; `preferred` if several have as many."""
    matches = [(count, kind) for kind in _candidates(key, other, preferred)
               if (count := _matches(engine, left, right, key, other, kind)) is not None]  # fmt: skip
    most, best = max(matches, key=lambda found: found[0], default=(0, preferred))
    examples = [_example(engine, *side) for side in ((left, key), (right, other))]
    if most or None in examples:  # without values there is nothing that could match
        names = ", ".join(f"{column}: {best}" for column in dict.fromkeys((key.name, other.name)))
        zoned = "TIMESTAMP WITH TIME ZONE" in (key.type, other.type) and best == "timestamp"
        utc = ", which gives times in UTC" if zoned else ""
        return f"nothing is cast silently: declare the type, as in `types: {{{names}}}`{utc}"
    return (
        f"no type that you could declare makes any key match, such as `{examples[0]}` in `{left.label}` and "
        f"`{examples[1]}` in `{right.label}`: write them in the same way first, for example in a step with `data/sql`"
    )


def _candidates(key: Column, other: Column, preferred: str) -> Iterator[str]:
    kinds = (key.kind, other.kind)
    tried = [preferred, *kinds]
    if any(kind in _NUMBERS or kind.startswith("decimal") for kind in kinds):
        tried += _NUMBERS
    if any(kind.startswith(_TIMES) for kind in kinds):
        tried += _TIMES
    return (kind for kind in dict.fromkeys((*tried, "text")) if kind in KINDS)


def _matches(engine: Engine, left: Table, right: Table, key: Column, other: Column, kind: str) -> int | None:
    """How many rows of the left side would find a partner; None if the values do not convert."""
    import duckdb

    if left.retyped is None or right.retyped is None:
        return None
    try:
        sides = left.retyped(key.name, kind), right.retyped(other.name, kind)
        one, two = sides[0].column(key.name, "keys"), sides[1].column(other.name, "keys")
        if (one.kind, one.bits) != (two.kind, two.bits):
            return None
        values = f"SELECT {known(name(two.name), two.type)} AS k FROM {sides[1].relation}"
        (count,) = engine.row(
            f"SELECT count(*) FROM {sides[0].relation} "
            f"WHERE {known(name(one.name), one.type)} IN (SELECT k FROM ({values}) WHERE k IS NOT NULL)"
        )
    except (DataError, duckdb.ConversionException, duckdb.BinderException):
        return None
    return int(count)


def _example(engine: Engine, table: Table, column: Column) -> str | None:
    value = known(name(column.name), column.type)
    found = engine.rows(
        f"SELECT CAST({name(column.name)} AS VARCHAR) FROM {table.relation} WHERE {value} IS NOT NULL "
        f"ORDER BY {ROW} LIMIT 1"
    )
    text = found[0][0] if found else None
    return text if text is None or len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
