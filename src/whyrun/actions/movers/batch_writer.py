"""Writes the batches of a database driver to one file, in a defined order: the same rows give the same bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whyrun.actions.data.engine import Engine, name
from whyrun.actions.data.output import write
from whyrun.actions.data.problems import ColumnMissing, ValueNotConvertible, listed
from whyrun.actions.data.tables import Column, check_names, reason
from whyrun.errors import did_you_mean

MAX_DIGITS = 38  # the largest precision of a decimal in DuckDB and in portable Parquet


@dataclass(frozen=True, slots=True)
class Field:
    """A column of the result. `cast`: the DuckDB type, if the Arrow type does not determine it.

    `undeclared_scale`: a decimal, sent as text, without a declared scale: the scale is found from its values.
    """

    name: str
    arrow: Any
    cast: str = ""
    undeclared_scale: bool = False


@dataclass(frozen=True, slots=True)
class WrittenRows:
    rows_read: int
    rows_written: int
    columns: tuple[Column, ...]


class _CountedBatches:
    """Counts the rows that DuckDB reads, and keeps the driver's exception, which DuckDB would replace by its own."""

    def __init__(self, batches: Iterable[Any]) -> None:
        self.rows = 0
        self.problem: BaseException | None = None
        self._batches = batches

    def __iter__(self) -> Iterator[Any]:
        try:
            for batch in self._batches:
                self.rows += batch.num_rows
                yield batch
        except BaseException as problem:
            self.problem = problem
            raise


def write_batches(
    engine: Engine, fields: Sequence[Field], batches: Iterable[Any], order_by: Sequence[str] | None, path: Path
) -> WrittenRows:
    """`order_by` None keeps the order of the batches; else sort by these columns first, then by all others."""
    import duckdb
    import pyarrow as pa

    check_names("the result", [field.name for field in fields])
    order = None if order_by is None else _order(fields, order_by)
    schema = pa.schema([(field.name, field.arrow) for field in fields])
    source_rows = _CountedBatches(batches)
    relation = engine.register("rows", pa.RecordBatchReader.from_batches(schema, iter(source_rows)))
    casts = {field.name: field.cast for field in fields}
    try:
        if any(field.undeclared_scale for field in fields):
            table = engine.new_name("kept")
            engine.do(f"CREATE TABLE {table} AS SELECT * FROM {relation}")
            casts |= {f.name: _decimal(engine, table, f.name) for f in fields if f.undeclared_scale}
            relation = table  # one thread reads it, so the order of the rows stays
        columns = _columns(engine, schema, casts)
        selected = ", ".join(f"{_expression(column, casts, path)} AS {name(column.name)}" for column in columns)
        inner = ", ".join(f"{_cast(f.name, casts)} AS {name(f.name)}" for f in fields)
        source = f"(SELECT {inner} FROM {relation})"
        written = write(engine, f"SELECT {selected} FROM {source}", order or [], path)
    except (duckdb.OutOfMemoryException, duckdb.InterruptException):
        if source_rows.problem is not None:
            raise source_rows.problem from None
        raise
    except duckdb.Error as problem:
        if source_rows.problem is not None:
            raise source_rows.problem from None
        raise ValueNotConvertible(f"a value of the result cannot be written: {reason(problem)}") from None
    return WrittenRows(source_rows.rows, written, columns)


def _order(fields: Sequence[Field], wanted: Sequence[str]) -> list[str]:
    """All columns, the wanted ones first: rows that are equal in all columns are interchangeable."""
    names = [field.name for field in fields]
    for column in wanted:
        if column not in names:
            hint = did_you_mean(column, names) or f"its columns: {listed(names)}"
            raise ColumnMissing(f"`order_by` names `{column}`, and the result has no such column; {hint}")
    return [name(column) for column in (*wanted, *(other for other in names if other not in wanted))]


def _cast(column: str, casts: dict[str, str]) -> str:
    return f"CAST({name(column)} AS {casts[column]})" if casts[column] else name(column)


def _columns(engine: Engine, schema: Any, casts: dict[str, str]) -> tuple[Column, ...]:
    empty = engine.register("shape", schema.empty_table())
    selected = ", ".join(f"{_cast(column, casts)} AS {name(column)}" for column in schema.names)
    return tuple(Column(*found) for found in engine.columns(f"SELECT {selected} FROM {empty}"))


def _expression(column: Column, casts: dict[str, str], path: Path) -> str:
    return as_text(column) if path.suffix.lower() in (".csv", ".tsv") else name(column.name)


def as_text(column: Column) -> str:
    """The column as CSV can hold it: bytes as hexadecimal digits, lists and records as JSON."""
    if column.type == "BLOB":
        return f"lower(hex({name(column.name)}))"
    if column.type.endswith("]") or column.type.startswith(("STRUCT", "MAP", "UNION")):
        return f"CAST(to_json({name(column.name)}) AS VARCHAR)"
    return name(column.name)


def _decimal(engine: Engine, table: str, column: str) -> str:
    """The decimal type that holds all values exactly. Raises `ValueNotConvertible` if there is none."""
    text = name(column)
    plain = f"regexp_full_match({text}, '-?[0-9]+(\\.[0-9]+)?')"
    whole, scale, other = engine.row(
        f"SELECT coalesce(max(length(ltrim(split_part({text}, '.', 1), '-0'))), 0), "
        f"coalesce(max(length(split_part({text}, '.', 2))), 0), min({text}) FILTER (WHERE NOT {plain}) "
        f"FROM {table} WHERE {text} IS NOT NULL"
    )
    if other is not None or whole + scale > MAX_DIGITS:
        example = f"`{other}`" if other is not None else f"{whole} digits before and {scale} after the point"
        raise ValueNotConvertible(
            f"the column `{column}` holds {example}, and a decimal has {MAX_DIGITS} digits; cast it in the query"
        )
    return f"DECIMAL({MAX_DIGITS}, {scale})"
