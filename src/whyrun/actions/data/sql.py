"""`data/sql`: answers one query over the bound datasets, which are its tables. It can read nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

from msgspec import field

from whyrun.actions.base import Action
from whyrun.actions.data.engine import ROW, Engine, name, opened, position
from whyrun.actions.data.files.problems import reason
from whyrun.actions.data.output import dataset_path, report, shape, write_table
from whyrun.actions.data.params import Name, QueryFailed, SqlParams, counted, listed
from whyrun.actions.data.tables import Column, Table, check_names, open_tables
from whyrun.actions.parameters import Meta

Scalar = str | int | float | bool | None


class Params(SqlParams, kw_only=True):
    query: Annotated[Name, Meta(description="one SELECT; write `$name` for a value of `values`")]
    values: Annotated[
        dict[str, Scalar], Meta(description="the values of `$name`; they never become part of the statement")
    ] = field(default_factory=dict)


class DataSql(Action):
    """Answer one SQL query over datasets; it can read nothing else, and write nothing."""

    name = "data/sql"
    version = "1"
    Params: ClassVar[type[Any] | None] = Params
    example = """\
jobs:
  Large:
    uses: data/sql
    with:
      primary_dataset: ${{ inputs.Panel }}
      query: SELECT firm_id, avg(sales) AS sales FROM primary_dataset WHERE year >= $from GROUP BY firm_id ORDER BY 1
      values: {from: 2010}
    outputs: {large: {type: dataset, path: out/large.csv}}
"""

    def run(
        self, inputs: dict[str, Any], mode: str = "dry-run", context: Any = None, logger: Any = None
    ) -> dict[str, Any] | None:
        del inputs, mode, logger
        params: Params = self.params
        output, path = dataset_path(context, self.name)
        with opened(params, context.work_dir, lambda: context.cancelled) as engine:
            tables = open_tables(engine, params)
            create_views(engine, tables, [*params.files().values(), path])
            query = checked_query(engine, params.query, params.values)
            answer = engine.new_name("answer")
            # Before the table is created, which would rename duplicate columns.
            described = run_query(engine, f"DESCRIBE {query}", params.values, tables)
            columns = tuple(Column(str(found[0]), str(found[1])) for found in described)
            check_names("answer", [column.name for column in columns])
            run_query(engine, f"CREATE TABLE {answer} AS {query}", params.values, tables)
            (rows,) = engine.row(f"SELECT count(*) FROM {answer}")
            written = write_table(
                engine, f"SELECT * FROM {answer}", [position(column.name for column in columns)], path
            )
        message = f"answered a query over {counted(len(tables), 'dataset')}: {counted(rows, 'row')}"
        details = {"decision": "sql", "rows": {"in": {table.label: table.rows for table in tables}, "out": rows}}
        report(context, message, tables, output, shape(rows, written.columns), details)
        return None


def table_name(label: str) -> str:
    """`secondary_dataset[1]` is the table `secondary_dataset_1`."""
    return label.replace("[", "_").replace("]", "")


def create_views(engine: Engine, tables: Sequence[Table], allowed: Sequence[Path]) -> None:
    """Make the datasets available under their names, and lock the engine to the allowed files."""
    for table in tables:
        shown = f"SELECT * EXCLUDE ({ROW}) FROM {table.relation}"
        engine.do(f"CREATE VIEW {name(table_name(table.label))} AS {shown}")
    engine.lock(allowed)


def checked_query(engine: Engine, query: str, values: dict[str, Scalar], where: str = "query") -> str:
    """The text of the query. Raises `QueryFailed` unless it is one SELECT that uses exactly `values`."""
    import duckdb

    try:
        statements = engine.statements(query)
    except duckdb.Error as problem:
        raise QueryFailed(f"`{where}` is not valid SQL: {reason(problem)}") from None
    if len(statements) != 1:
        raise QueryFailed(f"`{where}` has {len(statements)} statements; it takes one SELECT")
    (statement,) = statements
    if statement.type != duckdb.StatementType.SELECT:
        raise QueryFailed(f"`{where}` is {statement.type.name}, not SELECT; a query may only read")
    wanted = set(statement.named_parameters)
    if lacking := sorted(wanted - set(values)):
        raise QueryFailed(f"`{where}` uses {listed(f'${lack}' for lack in lacking)}, and `values` does not have it")
    if unused := sorted(set(values) - wanted):
        raise QueryFailed(f"`values` has {listed(unused)}, which `{where}` does not use")
    return str(statement.query).rstrip().rstrip(";")


def run_query(
    engine: Engine, sql: str, values: dict[str, Scalar], tables: Sequence[Table], where: str = "query"
) -> list[tuple[Any, ...]]:
    import duckdb

    try:
        return engine.rows(sql, dict(values) or None)
    except (duckdb.OutOfMemoryException, duckdb.InterruptException):
        raise  # not a problem of the query
    except duckdb.Error as problem:
        known = listed(table_name(table.label) for table in tables)
        raise QueryFailed(f"`{where}` cannot be answered: {reason(problem)}; its tables: {known}") from None
