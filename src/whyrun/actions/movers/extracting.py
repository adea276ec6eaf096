"""What movers have in common: ordered batches, parameters, cancellation, reports, and the same rows in other files."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from msgspec import field

from whyrun.actions.base import WorkerContext
from whyrun.actions.data.engine import ROW, Engine, name
from whyrun.actions.data.files.problems import reason
from whyrun.actions.data.output import only_output, shape, write
from whyrun.actions.data.params import (
    ColumnMissing,
    DataParams,
    Identifier,
    Name,
    OutputUnusable,
    Size,
    ValueNotConvertible,
    counted,
    listed,
)
from whyrun.actions.data.tables import Column, Table, check_names
from whyrun.actions.movers.statement import Dialect, Scalar, is_sorted, problems_of
from whyrun.actions.parameters import File, Meta, Parameters
from whyrun.errors import did_you_mean

# --- writes the batches of a database driver to one file, in a defined order: the same rows give the same bytes -------


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


# --- extracting from servers ------------------------------------------------------------------------------------------


_CHECK_INTERVAL = 0.1  # seconds
Result = TypeVar("Result")


class ExtractParams(Parameters, kw_only=True):
    uncounted: ClassVar[tuple[str, ...]] = ("memory_limit",)
    dialect: ClassVar[Dialect]

    query: Annotated[
        Name | None, Meta(description="one SELECT; write `$name` for a value of `values`; or use `table`")
    ] = None
    values: Annotated[
        dict[Identifier, Scalar], Meta(description="the values of `$name`; they never become part of the statement")
    ] = field(default_factory=dict)
    table: Annotated[Name | None, Meta(description="a table or view, instead of a query")] = None
    schema: Annotated[Name | None, Meta(description="the schema of `table`, if it is not the default one")] = None
    columns: Annotated[
        Annotated[list[Name], Meta(min_length=1)] | None, Meta(description="columns of `table`; null: all")
    ] = None
    order_by: Annotated[
        Annotated[list[Name], Meta(min_length=1)] | None,
        Meta(description="sort the file by these; null: the ORDER BY of the query, else all columns"),
    ] = None
    memory_limit: Annotated[Size, Meta(description="memory of the step; it uses its folder on disk for more")] = "1GB"

    def __post_init__(self) -> None:
        if (self.query is None) == (self.table is None):
            raise ValueError("write either `query` or `table`")
        if self.query is not None:
            for entry in ("schema", "columns"):
                if getattr(self, entry) is not None:
                    raise ValueError(f"`{entry}` belongs to `table`; with `query`, write it in the query")
            if problems := problems_of(self.query, self.values, self.dialect):
                raise ValueError("; ".join(problems))
        elif self.values:
            raise ValueError("`values` belong to a `query`, and there is none")

    def order(self) -> Sequence[str] | None:
        """The columns to sort by first; None: keep the order of the query's ORDER BY.

        Without ORDER BY, SQL defines no order, and the same rows could give different bytes.
        """
        if self.order_by is None and self.query is not None and is_sorted(self.query, self.dialect):
            return None
        return self.order_by or ()

    def engine(self) -> DataParams:
        return DataParams(memory_limit=self.memory_limit, threads=1)  # one thread keeps the order of the rows

    def select(self, quoted: Callable[[str], str]) -> str:
        """The query that reads `table`."""
        assert self.table is not None
        columns = "*" if self.columns is None else ", ".join(map(quoted, self.columns))
        return f"SELECT {columns} FROM {self.relation(quoted)}"

    def relation(self, quoted: Callable[[str], str]) -> str:
        assert self.table is not None
        return ".".join(map(quoted, filter(None, [self.schema, self.table])))

    @property
    def what(self) -> str:
        """The source of the rows, for messages."""
        return "`query`" if self.table is None else f"`table: {self.table}`"


def report_extract(context: WorkerContext, output: str, path: Path, source: str, written: WrittenRows) -> None:
    message = f"read {counted(written.rows_read, 'row')} from {source}"
    details = {
        "decision": "extract",
        "rows": {"read": written.rows_read, "written": written.rows_written},
        "wrote": {output: shape(written.rows_written, written.columns)},
    }
    context.task("EXECUTES", message, details)
    report_rows(context, read=written.rows_read, written=written.rows_written, bytes_out=path.stat().st_size)


def report_rows(
    context: WorkerContext,
    *,
    read: int,
    written: int,
    bytes_in: int | None = None,
    bytes_out: int | None = None,
) -> None:
    """Report the counts as metrics; a count that is not known is left out."""
    context.metric("rows_read", read, "rows")
    context.metric("rows_written", written, "rows")
    if bytes_in is not None:
        context.metric("bytes_in", bytes_in, "bytes")
    if bytes_out is not None:
        context.metric("bytes_out", bytes_out, "bytes")


@contextmanager
def stopping(context: WorkerContext, stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` when the step is cancelled, so that the server does not go on with the query."""
    done = threading.Event()
    _ = context.cancelled  # reading this opts in to cooperative cancellation

    def watch() -> None:
        while not done.wait(_CHECK_INTERVAL):
            if context.cancelled:
                stop()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def in_thread(context: WorkerContext, work: Callable[[], Result]) -> Result:
    """Run the work in another thread and wait for it.

    A driver that waits for its server in C code blocks signal handlers in its thread. The main thread stays free to
    receive the signal that cancels the step, and `stopping` then cancels the query.
    """
    _ = context.cancelled  # reading this opts in to cooperative cancellation, so the thread is always joined
    results: list[Result] = []
    problems: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as problem:  # raised again below, in the step's thread
            problems.append(problem)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join()
    if problems:
        raise problems[0]
    return results[0]


def keep_sql(context: WorkerContext, sql: str) -> None:
    """Save the statement that is sent in the step's folder."""
    context.script_path.with_name("query.sql").write_text(sql.rstrip() + "\n", encoding="utf-8")


# --- from one file format to another ----------------------------------------------------------------------------------
# The common part of `csv/read`, `csv/write`, `parquet/read` and `parquet/write`: one dataset in, the same rows out.


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
