"""What loads into tables have in common: modes and their rules, keys, and the report of what was loaded."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from msgspec import field

from whyrun.actions.base import WorkerContext
from whyrun.actions.data.engine import Engine, name
from whyrun.actions.data.kinds import known
from whyrun.actions.data.params import ColumnMissing, DataError, DataParams, Name, counted, listed
from whyrun.actions.data.tables import Table
from whyrun.actions.movers.extracting import report_rows
from whyrun.actions.parameters import File, Meta
from whyrun.errors import did_you_mean

Mode = Literal["create", "replace", "truncate", "append", "upsert"]
MODE = "new table; drop and create it; delete its rows first; add rows; update or add by `keys`"
SqlType = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_ ]*(\([0-9]+(, ?[0-9]+)?\))?$", title="a column type")]


class LoadRefused(DataError):
    """The table does not exist, exists already, or does not fit the data; nothing was written."""


class LoadFailed(DataError):
    """The database refused the rows; nothing was written."""


def check_mode(mode: str, keys: Sequence[str], column_types: Mapping[str, str], create_if_missing: bool) -> None:
    """Raises `ValueError` for parameters that do not fit the mode."""
    creates = mode in ("create", "replace")
    if create_if_missing and creates:
        raise ValueError(f"`create_if_missing` belongs to `append`, `truncate` and `upsert`: `mode: {mode}` creates")
    if mode == "upsert" and not keys:
        raise ValueError("`mode: upsert` needs `keys`: the columns that identify a row")
    if keys and mode in ("append", "truncate") and not create_if_missing:
        raise ValueError(f"`keys` are not used by `mode: {mode}`; remove them")
    if column_types and not creates and not create_if_missing:
        raise ValueError(f"`column_types` are for a new table; `mode: {mode}` uses the existing one")


class FileLoadParams(DataParams, kw_only=True):
    """Parameters of loads into a database file."""

    uncounted: ClassVar[tuple[str, ...]] = ("memory_limit", "threads")

    data: Annotated[File, Meta(description="the dataset: CSV, Parquet, JSON, Stata or Excel")]
    table: Annotated[Name, Meta(description="its name")]
    mode: Annotated[Mode, Meta(description=MODE)]
    create_if_missing: Annotated[
        bool, Meta(description="`append`, `truncate`, `upsert`: create the table if there is none, with `keys`")
    ] = False
    keys: Annotated[
        list[Name], Meta(description="`upsert`: the columns that identify a row; of a new table: the primary key")
    ] = field(default_factory=list)
    column_types: Annotated[dict[Name, SqlType], Meta(description="for a new table: column → its type")] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        check_mode(self.mode, self.keys, self.column_types, self.create_if_missing)

    def files(self) -> dict[str, File]:
        return {"data": self.data}

    def creates(self, exists: bool) -> bool:
        """Whether the table is to be created. Raises `LoadRefused` if it must exist, or must not."""
        if self.mode == "create" and exists:
            raise LoadRefused(f"`{self.table}` exists already; write `mode: replace`, `truncate` or `append`")
        if self.mode in ("create", "replace"):
            return True
        if not exists and not self.create_if_missing:
            hint = "create it, or write `create_if_missing: true`"
            raise LoadRefused(f"there is no table `{self.table}`; {hint}")
        return not exists


def check_columns(params: FileLoadParams, table: Table) -> None:
    for wanted in (*params.keys, *params.column_types):
        if wanted not in table.names:
            entry = "keys" if wanted in params.keys else "column_types"
            hint = did_you_mean(wanted, table.names) or f"its columns: {listed(table.names)}"
            raise ColumnMissing(f"`{entry}` names `{wanted}`, and `data` has no such column; {hint}")


def check_keys(engine: Engine, table: Table, keys: Sequence[str]) -> None:
    """A key must identify a row: without a value, or twice in the data, it does not."""
    if not keys:
        return
    columns = [column for column in table.columns if column.name in keys]
    missing = " OR ".join(f"{known(name(column.name), column.type)} IS NULL" for column in columns)
    (without,) = engine.row(f"SELECT count(*) FROM {table.relation} WHERE {missing}")
    if without:
        raise LoadRefused(f"{counted(without, 'row')} of `data` {'has' if without == 1 else 'have'} no value in `keys`")
    grouped = ", ".join(map(name, keys))
    (twice,) = engine.row(
        f"SELECT count(*) FROM (SELECT {grouped} FROM {table.relation} GROUP BY {grouped} HAVING count(*) > 1)"
    )
    if twice:
        verb = "occurs" if twice == 1 else "occur"
        raise LoadRefused(f"{counted(twice, 'key')} {verb} more than once in `data`; an upsert could take either row")


def check_unique(shown: str, keys: Sequence[str], unique: Sequence[Sequence[str]]) -> None:
    """`unique`: the columns of each primary key and unique index. An upsert decides by exactly one of them."""
    wanted = {key.casefold() for key in keys}
    sets = [{column.casefold() for column in columns} for columns in unique]
    if wanted not in sets:
        raise LoadRefused(f"`keys` of {shown} need a primary key or a unique index on exactly {listed(keys)}")
    others = [columns for columns, each in zip(unique, sets, strict=True) if each != wanted]
    if others:
        text = "; ".join(listed(columns) for columns in others)
        raise LoadRefused(f"{shown} is also unique by {text}, so an upsert by {listed(keys)} could hit another row")


def report_load(
    context: WorkerContext, params: FileLoadParams, table: Table, rows: int, columns: Mapping[str, str]
) -> dict[str, Any] | None:
    with params.data.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    report = {
        "table": params.table,
        "mode": params.mode,
        "rows": rows,
        "columns": dict(columns),
        "data_sha256": sha256,  # so that other rows give another report, even if the count is equal
    }
    done = {"append": "added", "upsert": "wrote"}.get(params.mode, "loaded")
    details = {"decision": "load", "rows": {"read": table.rows, "written": rows}, "table": report}
    context.task("EXECUTES", f"{done} {counted(rows, 'row')} in `{params.table}`", details)
    report_rows(context, read=table.rows, written=rows, bytes_in=params.data.stat().st_size)
    return {"report": report} if "report" in context.output_names else None


def database_file(context: WorkerContext, path: str, *, may_be_new: bool) -> Path:
    file = Path(context.project) / path
    if not file.is_file() and not (may_be_new and file.parent.is_dir()):
        raise LoadRefused(f"there is no database file `{path}`; correct `path`, or create its folder")
    return file
