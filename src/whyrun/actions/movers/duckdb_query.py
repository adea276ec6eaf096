"""`duckdb/query`: answers one SQL query over named files and, optionally, a DuckDB database file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar

from msgspec import field

from whyrun.actions.base import Action, WorkerContext
from whyrun.actions.data.engine import Engine, literal, name, opened, position
from whyrun.actions.data.files.problems import reason
from whyrun.actions.data.output import dataset_path, shape, write
from whyrun.actions.data.params import DataParams, Identifier, Name, UnreadableTable, counted
from whyrun.actions.data.sql import checked_query, create_views, run_query
from whyrun.actions.data.tables import Column, check_names, open_tables
from whyrun.actions.movers.connections import DuckDbConnection
from whyrun.actions.movers.extracting import as_text, keep_sql, report_rows
from whyrun.actions.movers.statement import Scalar
from whyrun.actions.parameters import File, Meta

_DATABASE = "db"


class Params(DataParams, kw_only=True):
    uncounted: ClassVar[tuple[str, ...]] = ("memory_limit",)

    query: Annotated[Name, Meta(description="one SELECT; write `$name` for a value of `values`")]
    tables: Annotated[dict[Identifier, File], Meta(description="name in the query → bound file")] = field(
        default_factory=dict
    )
    values: Annotated[
        dict[str, Scalar], Meta(description="the values of `$name`; they never become part of the statement")
    ] = field(default_factory=dict)
    database: Annotated[
        File | None,
        Meta(description="a bound database file; the query uses its tables by name or as `db.NAME`"),
    ] = None
    connection: Annotated[
        DuckDbConnection | None,
        Meta(description="`path` of a database file that is not bound: changes in it are not noticed"),
    ] = None
    threads: Annotated[int, Meta(ge=0, le=256, description="more than 1 is faster, but may change the order")] = 1

    def __post_init__(self) -> None:
        if self.database is not None and self.connection is not None:
            raise ValueError("use either `database` or `connection`: a query sees one database")
        for table in self.tables:
            if table.lower() == _DATABASE:
                raise ValueError(f"`tables` names `{table}`, which is the name of the database; choose another")

    def files(self) -> dict[str, File]:
        return dict(self.tables)


class DuckDbQuery(Action):
    """Answer one SQL query over named files and a database file; it can read no other files and write nothing."""

    name = "duckdb/query"
    version = "1"
    Params: ClassVar[type[Any] | None] = Params
    example = """\
jobs:
  Sales:
    uses: duckdb/query
    with:
      tables: {orders: "${{ inputs.Orders }}", customers: "${{ inputs.Customers }}"}
      query: |
        SELECT c.country, sum(o.total) AS total
        FROM orders o JOIN customers c ON c.id = o.customer_id
        WHERE o.total >= $least GROUP BY ALL ORDER BY ALL
      values: {least: 10}
    outputs: {sales: {type: dataset, path: out/sales.parquet}}
"""

    def run(
        self, inputs: dict[str, Any], mode: str = "dry-run", context: Any = None, logger: Any = None
    ) -> dict[str, Any] | None:
        del inputs, mode, logger
        params: Params = self.params
        output, path = dataset_path(context, self.name)
        with opened(params, context.work_dir, lambda: context.cancelled) as engine:
            tables = open_tables(engine, params)
            database = _attach(engine, params, context)
            create_views(engine, tables, [*params.tables.values(), *database, path])
            query = checked_query(engine, params.query, params.values)
            keep_sql(context, query)
            answer = engine.new_name("answer")
            # Before the table is created, which would rename duplicate columns.
            described = run_query(engine, f"DESCRIBE {query}", params.values, tables)
            columns = tuple(Column(str(found[0]), str(found[1])) for found in described)
            check_names("answer", [column.name for column in columns])
            run_query(engine, f"CREATE TABLE {answer} AS {query}", params.values, tables)
            order = [position(column.name for column in columns)]
            written = write(engine, f"SELECT {written_as(columns, path)} FROM {answer}", order, path)
        read = sum(table.rows for table in tables)
        details = {
            "decision": "sql",
            "rows": {"in": {table.label: table.rows for table in tables}, "out": written},
            "read": {table.label: {"rows": table.rows, "columns": len(table.columns)} for table in tables},
            "wrote": {output: shape(written, columns)},
        }
        over = counted(len(tables), "file") + (" and a database" if database else "")
        context.task("EXECUTES", f"answered a query over {over}: {counted(written, 'row')}", details)
        bytes_in = sum(file.stat().st_size for file in params.tables.values())
        report_rows(context, read=read, written=written, bytes_in=bytes_in, bytes_out=path.stat().st_size)
        return None


def _attach(engine: Engine, params: Params, context: WorkerContext) -> list[Path]:
    """Attach the database read-only. Returns its file, if there is one."""
    import duckdb

    if params.database is not None:
        file: Path = params.database
    elif params.connection is not None:
        file = context.project / params.connection.file()
        if not file.is_file():
            raise UnreadableTable(f"there is no database file `{params.connection.file()}`; correct `path`")
    else:
        return []
    try:
        engine.do(f"ATTACH {literal(file)} AS {_DATABASE} (READ_ONLY)")
    except duckdb.Error as problem:
        raise UnreadableTable(f"the database cannot be opened: {reason(problem)}") from None
    # A name means a table of `tables` first, then a table of the database.
    engine.do(f"SET search_path = 'memory.main,{_DATABASE}.main'")
    return [file]


def written_as(columns: tuple[Column, ...], path: Path) -> str:
    """The columns in the form that the output format can hold."""
    if path.suffix.lower() not in (".csv", ".tsv"):
        return "*"
    return ", ".join(f"{as_text(column)} AS {name(column.name)}" for column in columns)
