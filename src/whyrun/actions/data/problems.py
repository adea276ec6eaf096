"""What can be wrong with data. Each is an error type of its own in the log; each says what, where, and what next."""

from __future__ import annotations

from collections.abc import Iterable


class DataError(ValueError):
    """The base of all of them."""


class UnreadableTable(DataError):
    """A file is no table in the format that its name promises."""


class ColumnMissing(DataError):
    """A column is named that a dataset does not have."""


class KeyTypesDiffer(DataError):
    """Key columns that hold different kinds of values: nothing is cast silently."""


class KeyNotExact(DataError):
    """Keys that are written differently and would be one number."""


class CardinalityViolated(DataError):
    """The data are not as `cardinality` says."""


class ColumnsClash(DataError):
    """Two datasets have a column of the same name, and nobody said what becomes of it."""


class ColumnsDiffer(DataError):
    """Datasets that should be stacked have other columns, or other kinds of values in them."""


class ValueNotConvertible(DataError):
    """A column does not fit the type that `types` asks for."""


class QueryFailed(DataError):
    """A query is refused, or cannot be answered."""


class OutputUnusable(DataError):
    """The job declares outputs that the action cannot write."""


class MemoryLimitTooSmall(DataError):
    """Something cannot go to disk and needs more memory than allowed."""


def listed(names: Iterable[str], limit: int = 12) -> str:
    """`a`, `b`, …: cut where there are many."""
    all_names = list(names)
    shown = ", ".join(f"`{name}`" for name in all_names[:limit])
    return shown + (f", … ({len(all_names) - limit} more)" if len(all_names) > limit else "") or "none"


def counted(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
