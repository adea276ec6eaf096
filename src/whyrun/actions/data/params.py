"""The errors and common parameters of all data actions: how to read files, and the limits of the engine."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from msgspec import field

from whyrun.actions.parameters import File, Files, Meta, Parameters
from whyrun.workflow import advice

# --- the errors of data actions. The log records the class name as the error type -------------------------------------


class DataError(ValueError):
    """The base class."""


class UnreadableTable(DataError):
    """A file is not a table in the format of its suffix. `what` and `hint` are the parts of the message."""

    def __init__(self, what: str, hint: str = "", path: Path | None = None) -> None:
        super().__init__(what + (f"; {hint}" if hint else "") + (f" (`{path}`)" if path is not None else ""))
        self.what, self.hint = what, hint


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


class RowsUnmatched(DataError):
    """A side of a merge has rows without a partner, and `assert` says that it has none."""


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


# --- parameters -------------------------------------------------------------------------------------------------------


Kind = Literal["integer", "number", "text", "boolean", "date", "timestamp"]
Size = Annotated[str, Meta(pattern=r"^[0-9]+(\.[0-9]+)? ?(KB|MB|GB|TB|KiB|MiB|GiB|TiB)$")]
Name = Annotated[str, Meta(min_length=1)]
Identifier = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class DataParams(Parameters, kw_only=True):
    uncounted: ClassVar[tuple[str, ...]] = ("memory_limit", "threads")  # the order of rows does not depend on threads
    opened_roles: ClassVar[tuple[str, ...]] = ("primary_dataset", "secondary_dataset", "auxiliary_data")

    types: Annotated[
        dict[str, Kind],
        Meta(description="column → type, instead of the detected one, in every dataset with this column"),
    ] = field(default_factory=dict)
    missing: Annotated[list[str], Meta(description="texts of CSV, TSV and Excel that mean: no value")] = field(
        default_factory=lambda: [""]
    )
    delimiter: Annotated[
        Annotated[str, Meta(min_length=1, max_length=1)] | None,
        Meta(description="separates the fields of a CSV file; null: a comma, or a tab in .tsv and .tab"),
    ] = None
    encoding: Annotated[Literal["utf-8", "latin-1", "utf-16"], Meta(description="of CSV files")] = "utf-8"
    sheet: Annotated[str | None, Meta(description="the sheet of Excel files; null: the first")] = None
    memory_limit: Annotated[Size, Meta(description="memory of the step; it uses its folder on disk for more")] = "1GB"
    threads: Annotated[int, Meta(ge=0, le=256, description="0: one for each processor")] = 0

    def files(self) -> dict[str, File]:
        """Slot (`primary_dataset`, `secondary_dataset[1]`, …) → file, for all roles that the action opens, in order."""
        by_slot: dict[str, File] = {}
        for role in self.opened_roles:
            bound = getattr(self, role, None)
            if isinstance(bound, Files):
                single = len(bound) == 1 and not bound.as_list
                by_slot |= {role if single else f"{role}[{at}]": file for at, file in enumerate(bound)}
            elif bound is not None:
                by_slot[role] = bound
        for name, file in (getattr(self, "tables", None) or {}).items():
            by_slot[name] = file
        return by_slot


class CombiningParams(DataParams, kw_only=True):
    """Parameters of actions that combine datasets. They never open auxiliary data, which need not be tables. But the
    log records the file, and another file makes the step dirty."""

    opened_roles: ClassVar[tuple[str, ...]] = ("primary_dataset", "secondary_dataset")

    auxiliary_data: Annotated[
        Files | None,
        Meta(description="files that belong to the data, such as a codebook: recorded, but not part of the rows"),
    ] = None


class SqlParams(DataParams, kw_only=True):
    """Parameters of actions that query datasets as tables. One thread gives the same rows in the same order."""

    uncounted: ClassVar[tuple[str, ...]] = ("memory_limit",)

    primary_dataset: Annotated[Files | None, Meta(description="the table `primary_dataset`")] = None
    secondary_dataset: Annotated[
        Files | None, Meta(description="the table `secondary_dataset`; for a list `secondary_dataset_0`, …")
    ] = None
    auxiliary_data: Annotated[Files | None, Meta(description="the table `auxiliary_data`; a list as above")] = None
    tables: Annotated[dict[Identifier, File], Meta(description="more tables by name, each bound")] = field(
        default_factory=dict
    )
    threads: Annotated[int, Meta(ge=0, le=256, description="more than 1 is faster, but may change the order")] = 1

    def __post_init__(self) -> None:
        if not self.files():
            raise ValueError(advice.bind_a_dataset())
        seen: dict[str, str] = {}
        for table in self.tables:
            if table.startswith("__"):
                raise ValueError(
                    f"`tables` names `{table}`; names that start with two underscores are reserved, choose another"
                )
            if other := seen.get(table.lower()):
                raise ValueError(f"`tables` names `{other}` and `{table}`, which are the same name in SQL; rename one")
            seen[table.lower()] = table
        for taken in ("primary_dataset", "secondary_dataset", "auxiliary_data"):
            for table in self.tables:
                if table.lower().startswith(taken):
                    raise ValueError(f"`tables` names `{table}`, which is the name of a role; choose another")
