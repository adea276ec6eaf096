"""`data/sql`: one query over the bound datasets, which are its tables. It sees these and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

from msgspec import field

from whyrun.actions.base import Action
from whyrun.actions.builtin.data.engine import ROW, Engine, name, opened
from whyrun.actions.builtin.data.output import dataset_path, report, shape, write_table
from whyrun.actions.builtin.data.params import Name, SqlParams
from whyrun.actions.builtin.data.problems import QueryFailed, counted, listed
from whyrun.actions.builtin.data.tables import Column, Table, check_names, open_tables, reason
from whyrun.actions.parameters import Meta

Scalar = str | int | float | bool | None


class Params(SqlParams, kw_only=True):
    query: Annotated[Name, Meta(description="one SELECT; values come in as `$name`, see `values`")]
    values: Annotated[dict[str, Scalar], Meta(description="what `$name` stands for: never text of the query")] = field(
        default_factory=dict
    )


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
            offer(engine, tables, [*params.files().values(), path])
            query = checked_query(engine, params.query, params.values)
            answer = engine.new_name("answer")
            # Before the table, whose making would rename what is there twice.
            described = answered(engine, f"DESCRIBE {query}", params.values, tables)
            columns = tuple(Column(str(found[0]), str(found[1])) for found in described)
            check_names("answer", [column.name for column in columns])
            answered(engine, f"CREATE TABLE {answer} AS {query}", params.values, tables)
            (rows,) = engine.row(f"SELECT count(*) FROM {answer}")
            written = write_table(engine, f"SELECT * FROM {answer}", ["rowid"], path)
        words = f"answered a query over {counted(len(tables), 'dataset')}: {counted(rows, 'row')}"
        details = {"decision": "sql", "rows": {"in": {table.label: table.rows for table in tables}, "out": rows}}
        report(context, words, tables, output, shape(rows, written.columns), details)
        return None


def table_name(label: str) -> str:
    """`secondary_dataset[1]` is the table `secondary_dataset_1`."""
    return label.replace("[", "_").replace("]", "")


def offer(engine: Engine, tables: Sequence[Table], allowed: Sequence[Path]) -> None:
    """The datasets under their names, and from here on no other file."""
    for table in tables:
        shown = f"SELECT * EXCLUDE ({ROW}) FROM {table.relation}"
        engine.do(f"CREATE VIEW {name(table_name(table.label))} AS {shown}")
    engine.lock(allowed)


def checked_query(engine: Engine, query: str, values: dict[str, Scalar], where: str = "query") -> str:
    """The text of the one statement, which only reads."""
    import duckdb

    try:
        statements = engine.statements(query)
    except duckdb.Error as problem:
        raise QueryFailed(f"`{where}` is no SQL: {reason(problem)}") from None
    if len(statements) != 1:
        raise QueryFailed(f"`{where}` has {len(statements)} statements; it takes one SELECT")
    (statement,) = statements
    if statement.type != duckdb.StatementType.SELECT:
        raise QueryFailed(f"`{where}` is no SELECT, but {statement.type.name}; a query reads and nothing more")
    wanted = set(statement.named_parameters)
    if lacking := sorted(wanted - set(values)):
        raise QueryFailed(f"`{where}` uses {listed(f'${lack}' for lack in lacking)}, and `values` does not have it")
    if unused := sorted(set(values) - wanted):
        raise QueryFailed(f"`values` has {listed(unused)}, which `{where}` does not use")
    return str(statement.query).rstrip().rstrip(";")


def answered(
    engine: Engine, sql: str, values: dict[str, Scalar], tables: Sequence[Table], where: str = "query"
) -> list[tuple[Any, ...]]:
    import duckdb

    try:
        return engine.rows(sql, dict(values) or None)
    except (duckdb.OutOfMemoryException, duckdb.InterruptException):
        raise  # says nothing about the query
    except duckdb.Error as problem:
        known = listed(table_name(table.label) for table in tables)
        raise QueryFailed(f"`{where}` cannot be answered: {reason(problem)}; its tables: {known}") from None
