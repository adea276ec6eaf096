"""Which declared type makes keys of different types match? A hint is tried on the data before it is given."""

from __future__ import annotations

from collections.abc import Iterator

from whyrun.actions.data.engine import ROW, Engine, name
from whyrun.actions.data.kinds import KINDS, known
from whyrun.actions.data.problems import DataError
from whyrun.actions.data.tables import Column, Table

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
