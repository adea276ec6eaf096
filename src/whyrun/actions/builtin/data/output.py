"""The one output of a data action: CSV or Parquet by its suffix, sorted, so that the same rows are the same bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from whyrun.actions.base import WorkerContext
from whyrun.actions.builtin.data.engine import Engine, literal
from whyrun.actions.builtin.data.problems import OutputUnusable, listed
from whyrun.actions.builtin.data.tables import Column, Table

_COLUMNS_SHOWN = 200  # in the log: what a task says has a limit
_WRITERS = {
    ".csv": "FORMAT csv, HEADER true, DELIMITER ','",
    ".tsv": "FORMAT csv, HEADER true, DELIMITER '\t'",
    # zstd: smaller by a third at hardly more time. The row group is written down, lest a default of DuckDB's decides.
    ".parquet": "FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 122880",
    "": "FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 122880",
}


def only_output(context: WorkerContext, uses: str) -> str:
    names = context.output_names
    if len(names) != 1:
        declared = listed(names)
        raise OutputUnusable(f"`{uses}` fills one output, and the job declares {len(names)} ({declared})")
    return names[0]


def dataset_path(context: WorkerContext, uses: str) -> tuple[str, Path]:
    """Name and path of the output, which can be written."""
    output = only_output(context, uses)
    path = context.output(output)
    if path.suffix.lower() not in _WRITERS:
        raise OutputUnusable(
            f"`{uses}` writes `.csv`, `.tsv` or `.parquet`, and `{output}` ends in `{path.suffix}`; change its `path:`"
        )
    return output, path


def write(engine: Engine, query: str, order: Sequence[str], path: Path, options: str | None = None) -> int:
    """How many rows were written. `options`: of the format, where the suffix alone does not say them."""
    by = f" ORDER BY {', '.join(order)}" if order else ""
    (rows,) = engine.row(f"COPY ({query}{by}) TO {literal(path)} ({options or _WRITERS[path.suffix.lower()]})")
    return int(rows)


def shape(rows: int, columns: Sequence[Column]) -> dict[str, Any]:
    """Rows and columns of a dataset, as they stand in the log."""
    shown: dict[str, Any] = {"rows": rows, "columns": len(columns)}
    shown["types"] = {column.name[:100]: column.type[:100] for column in columns[:_COLUMNS_SHOWN]}
    if len(columns) > _COLUMNS_SHOWN:
        shown["types_left_out"] = len(columns) - _COLUMNS_SHOWN
    return shown


def report(
    context: WorkerContext,
    words: str,
    tables: Sequence[Table],
    output: str,
    made: Mapping[str, Any],
    decision: Mapping[str, Any] | None = None,
) -> None:
    """What was read, decided and written, for the log and the composition's summary."""
    read = {table.label: {"rows": table.rows, "columns": len(table.columns)} for table in tables}
    context.task("EXECUTES", words, {**(decision or {}), "read": read, "wrote": {output: dict(made)}})
    if "rows" in made:
        context.metric("rows_out", made["rows"], "rows")
