"""The common part of `csv/read`, `csv/write`, `parquet/read` and `parquet/write`: one dataset in, the same rows out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from msgspec import field

from whyrun.actions.base import WorkerContext
from whyrun.actions.data.engine import ROW, Engine, name
from whyrun.actions.data.output import only_output, shape, write
from whyrun.actions.data.params import DataParams, Name, Size
from whyrun.actions.data.problems import OutputUnusable, counted
from whyrun.actions.data.tables import Column, Table, check_names
from whyrun.actions.movers.batch_writer import as_text
from whyrun.actions.movers.extracting import report_rows
from whyrun.actions.parameters import File, Meta, Parameters

Columns = Annotated[list[Name], Meta(min_length=1)]


class ConvertParams(Parameters, kw_only=True):
    uncounted: ClassVar[tuple[str, ...]] = ("memory_limit", "threads")

    data: Annotated[File, Meta(description="the dataset to read")]
    columns: Annotated[Columns | None, Meta(description="these columns, in this order; null: all")] = None
    rename: Annotated[dict[Name, Name], Meta(description="column → its new name")] = field(default_factory=dict)
    order_by: Annotated[Columns | None, Meta(description="sort by these columns; null: the order of the file")] = None
    memory_limit: Annotated[Size, Meta(description="memory of the step; it uses its folder on disk for more")] = "1GB"
    threads: Annotated[int, Meta(ge=0, le=256, description="0: one for each processor")] = 0

    def reading(self) -> DataParams:
        """The parameters for reading the file."""
        return DataParams(memory_limit=self.memory_limit, threads=self.threads)

    def chosen(self, table: Table) -> list[tuple[Column, str]]:
        """The columns to write, each with its new name."""
        columns = [table.column(wanted, "columns") for wanted in self.columns or table.names]
        for wanted in self.rename:
            table.column(wanted, "rename")
        named = [(column, self.rename.get(column.name, column.name)) for column in columns]
        check_names("the result", [new for _, new in named])
        return named

    def order(self, table: Table) -> list[str]:
        """Rows that are equal in `order_by` keep their order, so the order is always defined."""
        return [name(table.column(wanted, "order_by").name) for wanted in self.order_by or ()] + [ROW]


def output_path(context: WorkerContext, uses: str, suffixes: Sequence[str]) -> tuple[str, Path]:
    output = only_output(context, uses)
    path = context.output(output)
    if path.suffix.lower() not in suffixes:
        known = ", ".join(f"`{suffix}`" for suffix in suffixes if suffix)
        raise OutputUnusable(f"`{uses}` writes {known}, and `{output}` ends in `{path.suffix}`; change its `path:`")
    return output, path


@dataclass(frozen=True, slots=True)
class Converted:
    read: Path
    table: Table
    written: Path
    columns: list[Column]
    rows: int


def convert(
    engine: Engine, params: ConvertParams, table: Table, path: Path, options: str | None, *, text: bool
) -> Converted:
    """Write the rows, with renamed columns."""
    chosen = params.chosen(table)
    selected = ", ".join(f"{as_text(column) if text else name(column.name)} AS {name(new)}" for column, new in chosen)
    # Sort before renaming: `order_by` uses the names of the file.
    ordered = f"SELECT *, row_number() OVER (ORDER BY {', '.join(params.order(table))}) AS __whyrun_at"
    source = f"({ordered} FROM {table.relation})" if params.order_by else table.relation
    by = "__whyrun_at" if params.order_by else ROW
    rows = write(engine, f"SELECT {selected} FROM {source}", [by], path, options)
    return Converted(params.data, table, path, [Column(new, column.type) for column, new in chosen], rows)


def report_conversion(context: WorkerContext, what: str, output: str, done: Converted) -> None:
    table, columns = done.table, done.columns
    details = {
        "decision": "convert",
        "read": {"data": {"rows": table.rows, "columns": len(table.columns)}},
        "wrote": {output: shape(done.rows, columns)},
    }
    context.task("EXECUTES", f"{what}: {counted(done.rows, 'row')}, {counted(len(columns), 'column')}", details)
    report_rows(
        context,
        read=table.rows,
        written=done.rows,
        bytes_in=done.read.stat().st_size,
        bytes_out=done.written.stat().st_size,
    )
