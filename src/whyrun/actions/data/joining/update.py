"""`indicator` and `update` of a merge: where a row comes from, and missing values filled from the right side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from whyrun.actions.data.engine import ROW, Engine, name
from whyrun.actions.data.joining.keys import stray_text
from whyrun.actions.data.kinds import known, wider
from whyrun.actions.data.params import CardinalityViolated, ColumnsClash, ColumnsDiffer, counted
from whyrun.actions.data.tables import Column, Table, has_value


@dataclass(frozen=True, slots=True)
class Additions:
    """What a join adds to the rows: `indicator` is the name of a column; `updated` are columns of both sides."""

    indicator: str | None = None
    updated: tuple[Column, ...] = ()

    def value(self, column: Column, left: str, right: str) -> str:
        """SQL of a column of the left side, filled from the right one where it has no value."""
        if column not in self.updated:
            return left
        return f"coalesce({known(left, column.type)}, {known(right, column.type)})"

    @property
    def conflict(self) -> str:
        """SQL: a row of both sides has different values. The left one stays."""
        return self._any(lambda left, right: f"{left} IS NOT NULL AND {right} IS NOT NULL AND {left} <> {right}")

    @property
    def filled(self) -> str:
        """SQL: a row of both sides got a value that it did not have."""
        return self._any(lambda left, right: f"{left} IS NULL AND {right} IS NOT NULL")

    def _any(self, test: Callable[[str, str], str]) -> str:
        sides = [(f"l.{name(c.name)}", f"r.{name(c.name)}") for c in self.updated]
        values = [
            (known(left, c.type), known(right, c.type)) for c, (left, right) in zip(self.updated, sides, strict=True)
        ]
        return " OR ".join(f"({test(left, right)})" for left, right in values) or "false"

    def column(self) -> str | None:
        """SQL of the indicator."""
        if self.indicator is None:
            return None
        update = f"WHEN {self.conflict} THEN 'conflict' WHEN {self.filled} THEN 'updated' " if self.updated else ""
        return (
            f"CASE WHEN l.{ROW} IS NULL THEN 'right_only' WHEN r.{ROW} IS NULL THEN 'left_only' {update}"
            f"ELSE 'both' END AS {name(self.indicator)}"
        )


def check_indicator(indicator: str | None, columns: Sequence[str]) -> None:
    if indicator is not None and indicator.casefold() in {column.casefold() for column in columns}:
        raise ColumnsClash(f"there is a column `{indicator}` already; choose another name for `indicator`")


def updated_columns(engine: Engine, left: Table, right: Table, right_keys: set[str]) -> tuple[Column, ...]:
    """The columns that both sides have besides the keys. Raises if their kinds differ: nothing is cast silently."""
    theirs = {column.name: column for column in right.columns if column.name not in right_keys}
    shared = []
    for column in left.columns:
        other = theirs.get(column.name)
        if other is None:
            continue
        if column.kind != other.kind and has_value(engine, left, column) and has_value(engine, right, other):
            stray = stray_text(engine, [(left, column), (right, other)])
            raise ColumnsDiffer(
                f"`update` fills `{column.name}`, which is {column.kind} in `{left.label}` and {other.kind} in "
                f"`{right.label}`{stray}; declare the type, as in `types: {{{column.name}: "
                f"{wider(column.kind, other.kind)}}}`"
            )
        shared.append(column)
    return tuple(shared)


def uniqueness_problem(right: Table, repeated: int) -> CardinalityViolated | None:
    """The error if `update` could fill a row from several rows."""
    if not repeated:
        return None
    return CardinalityViolated(
        f"`update` takes each value from one row, and {counted(repeated, 'key')} of `{right.label}` "
        f"{'occurs' if repeated == 1 else 'occur'} more than once; make its keys unique first, for example with "
        "`data/sql`"
    )
