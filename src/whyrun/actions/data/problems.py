"""The errors of data actions. The log records the class name as the error type."""

from __future__ import annotations

from collections.abc import Iterable


class DataError(ValueError):
    """The base class."""


class UnreadableTable(DataError):
    """A file is not a table in the format of its suffix."""


class ColumnMissing(DataError):
    """A parameter names a column that a dataset does not have."""


class KeyTypesDiffer(DataError):
    """Key columns hold different kinds of values; nothing is cast silently."""


class KeyNotExact(DataError):
    """Keys with different spellings would become the same number."""


class CardinalityViolated(DataError):
    """The data do not have the cardinality that the user declared."""


class CardinalityNotChecked(DataError):
    """A step that merges with its own action declares a cardinality, and its data cannot be read as tables."""


class ColumnsClash(DataError):
    """Two datasets have a column of the same name, and no parameter says what to do with it."""


class ColumnsDiffer(DataError):
    """Datasets to stack have different columns, or columns of different kinds."""


class ValueNotConvertible(DataError):
    """A value does not fit the type that `types` declares."""


class QueryFailed(DataError):
    """A query is not allowed, or cannot be answered."""


class OutputUnusable(DataError):
    """The action cannot write the outputs that the job declares."""


class MemoryLimitTooSmall(DataError):
    """An operation cannot use the disk and needs more memory than allowed."""


def listed(names: Iterable[str], limit: int = 12) -> str:
    """`a`, `b`, …: the first names of a long list."""
    all_names = list(names)
    shown = ", ".join(f"`{name}`" for name in all_names[:limit])
    return shown + (f", … ({len(all_names) - limit} more)" if len(all_names) > limit else "") or "none"


def counted(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
