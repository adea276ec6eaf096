"""Writes the output of a data action as CSV or Parquet, sorted: the same rows give the same bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whyrun.actions.base import WorkerContext
from whyrun.actions.data.engine import Engine, literal, name, position
from whyrun.actions.data.kinds import FLOATING, INFINITE_TEXTS, NAN_TEXTS
from whyrun.actions.data.params import OutputUnusable, listed
from whyrun.actions.data.tables import Column, Table

_COLUMNS_SHOWN = 200  # in the log: the details of a task have a size limit
_WRITERS = {
    ".csv": "FORMAT csv, HEADER true, DELIMITER ','",
    ".tsv": "FORMAT csv, HEADER true, DELIMITER '\t'",
    # zstd makes files a third smaller in about the same time. The row group size is fixed here, so that a new default
    # of DuckDB does not change the bytes.
    ".parquet": "FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 122880",
    "": "FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 122880",
}
_TEXT = (".csv", ".tsv")
_WIDE = ("HUGEINT", "UHUGEINT")  # DuckDB writes them to Parquet as floating-point numbers, which lose digits
_EXACT = (  # the replacement is the first of these types that holds all values
    ("BIGINT", -(2**63), 2**63 - 1),
    ("UBIGINT", 0, 2**64 - 1),
    ("DECIMAL(38,0)", 1 - 10**38, 10**38 - 1),
)
_INFINITE = "whyrun: an infinite value in the column "


def only_output(context: WorkerContext, uses: str) -> str:
    names = context.output_names
    if len(names) != 1:
        declared = listed(names)
        raise OutputUnusable(f"`{uses}` writes one output, and the job declares {len(names)} ({declared})")
    return names[0]


def dataset_path(context: WorkerContext, uses: str) -> tuple[str, Path]:
    """The name and path of the output. Raises `OutputUnusable` for an unknown suffix."""
    output = only_output(context, uses)
    path = context.output(output)
    if path.suffix.lower() not in _WRITERS:
        raise OutputUnusable(
            f"`{uses}` writes `.csv`, `.tsv` or `.parquet`, and `{output}` ends in `{path.suffix}`; change its `path:`"
        )
    return output, path


@dataclass(frozen=True, slots=True)
class Written:
    rows: int
    columns: tuple[Column, ...]  # with the types in the file


def write(engine: Engine, query: str, order: Sequence[str], path: Path, options: str | None = None) -> int:
    """Write a query and return the number of rows. `options`: format options instead of those of the suffix."""
    return write_table(engine, query, order, path, options).rows


def write_table(engine: Engine, query: str, order: Sequence[str], path: Path, options: str | None = None) -> Written:
    """Write a query. Refuses values that the format cannot hold. The query runs once."""
    import duckdb

    suffix = path.suffix.lower()
    ordered = query + (f" ORDER BY {', '.join(order)}" if order else "")
    columns = tuple(Column(*found) for found in engine.columns(query))
    if suffix in _TEXT:
        ordered = _as_text(ordered, columns)
    elif any(column.type in _WIDE for column in columns):
        ordered, columns = _narrowed(engine, ordered, columns)
    try:
        (rows,) = engine.row(f"COPY ({ordered}) TO {literal(path)} ({options or _WRITERS[suffix]})")
    except duckdb.InvalidInputException as problem:
        _, ours, column = str(problem).partition(_INFINITE)
        if not ours:
            raise
        raise OutputUnusable(
            f"the column {column} has an infinite value, which `{suffix}` holds only as text; "
            "write `.parquet`, or have the query leave it out"
        ) from None
    return Written(int(rows), columns)


def _as_text(query: str, columns: Sequence[Column]) -> str:
    """Write NaN as an empty field. Refuse `inf`: readers would take the column for text."""
    floating = {column.name for column in columns if column.type in FLOATING}
    if not floating:
        return query
    selected = []
    for column in columns:
        value = name(column.name)
        if column.name in floating:
            refused, text = literal(f"{_INFINITE}`{column.name}`"), f"CAST({value} AS VARCHAR)"
            value = (
                f"CASE WHEN {text} IN {INFINITE_TEXTS} THEN error({refused}) "
                f"WHEN {text} IN {NAN_TEXTS} THEN NULL ELSE {text} END AS {value}"
            )
        selected.append(value)
    return f"SELECT {', '.join(selected)} FROM ({query})"


def _narrowed(engine: Engine, query: str, columns: Sequence[Column]) -> tuple[str, tuple[Column, ...]]:
    """Replace integers of 128 bits by a type that Parquet has. Sums have this type, and BIGINT mixed with UBIGINT."""
    table = engine.new_name("wide")
    engine.do(f"CREATE TABLE {table} AS {query}")
    wide = [column for column in columns if column.type in _WIDE]
    limits = [f"{bound}({name(column.name)})" for column in wide for bound in ("min", "max")]
    bounds = engine.row(f"SELECT {', '.join(limits)} FROM {table}")
    types = {column.name: _exact(column, *bounds[2 * at : 2 * at + 2]) for at, column in enumerate(wide)}
    casts = ", ".join(f"CAST({name(column)} AS {type_}) AS {name(column)}" for column, type_ in types.items())
    narrowed = tuple(Column(column.name, types.get(column.name, column.type)) for column in columns)
    return f"SELECT * REPLACE ({casts}) FROM {table} ORDER BY {position(column.name for column in columns)}", narrowed


def _exact(column: Column, least: int | None, most: int | None) -> str:
    for type_, low, high in _EXACT:
        if least is None or most is None or (low <= least and most <= high):
            return type_
    raise OutputUnusable(
        f"the column `{column.name}` has integers with more than 38 digits, which Parquet does not hold; "
        "cast it to text in the query, or write `.csv`"
    )


def shape(rows: int, columns: Sequence[Column]) -> dict[str, Any]:
    """Rows and columns of a dataset, as the log records them."""
    shown: dict[str, Any] = {"rows": rows, "columns": len(columns)}
    shown["types"] = {column.name[:100]: column.type[:100] for column in columns[:_COLUMNS_SHOWN]}
    if len(columns) > _COLUMNS_SHOWN:
        shown["types_left_out"] = len(columns) - _COLUMNS_SHOWN
    return shown


def report(
    context: WorkerContext,
    message: str,
    tables: Sequence[Table],
    output: str,
    made: Mapping[str, Any],
    decision: Mapping[str, Any] | None = None,
) -> None:
    """Report what was read, decided and written, for the log and the composition summary."""
    read = {table.label: {"rows": table.rows, "columns": len(table.columns)} for table in tables}
    context.task("EXECUTES", message, {**(decision or {}), "read": read, "wrote": {output: dict(made)}})
    if "rows" in made:
        context.metric("rows_out", made["rows"], "rows")
