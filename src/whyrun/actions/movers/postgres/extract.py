"""`postgres/extract`: the rows of a query or a table of PostgreSQL, as a dataset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

from whyrun.actions.base import Action, WorkerContext
from whyrun.actions.data.engine import opened
from whyrun.actions.data.output import dataset_path
from whyrun.actions.data.problems import QueryFailed
from whyrun.actions.data.tables import check_names
from whyrun.actions.movers.batch_writer import WrittenRows, write_batches
from whyrun.actions.movers.connections import PostgresConnection
from whyrun.actions.movers.extracting import ExtractParams, in_thread, keep_sql, report_extract, stopping
from whyrun.actions.movers.postgres.client import connected, failed, literal, quoted, reader_of
from whyrun.actions.movers.postgres.result_columns import ResultColumn, batches, result_columns
from whyrun.actions.movers.statement import POSTGRES, Dialect, filled
from whyrun.actions.parameters import Meta


class Params(ExtractParams, kw_only=True):
    dialect: ClassVar[Dialect] = POSTGRES

    connection: Annotated[
        PostgresConnection, Meta(description="host, port, user, password, database, sslmode, sslrootcert")
    ]


class PostgresExtract(Action):
    """Read a query or a table of PostgreSQL into a dataset, batch by batch."""

    name = "postgres/extract"
    version = "1"
    Params: ClassVar[type[Any] | None] = Params
    example = """\
jobs:
  Customers:
    uses: postgres/extract
    with:
      connection: "@postgres.warehouse"
      query: SELECT id, name, segment FROM customers WHERE country = $country ORDER BY id
      values: {country: DE}
    outputs: {customers: {type: dataset, path: out/customers.parquet}}
"""

    def run(
        self, inputs: dict[str, Any], mode: str = "dry-run", context: Any = None, logger: Any = None
    ) -> dict[str, Any] | None:
        del inputs, mode, logger
        params: Params = self.params
        output, path = dataset_path(context, self.name)
        written = in_thread(context, lambda: _extract(params, context, path))
        report_extract(context, output, path, params.connection.address().split(",")[0], written)
        return None


def _extract(params: Params, context: WorkerContext, path: Path) -> WrittenRows:
    from adbc_driver_manager import Error

    connection = params.connection
    with connected(connection, read_only=True) as cursor, stopping(context, cursor.adbc_cancel):
        query = params.query
        sql = params.select(quoted) if query is None else filled(query, params.values, POSTGRES, literal)
        keep_sql(context, sql)
        try:
            columns = result_columns(cursor.adbc_execute_schema(sql))
            if not columns:
                raise QueryFailed("`query` gives no rows: it takes one SELECT")
            check_names("the result", [column.field.name for column in columns])
            cursor.execute(_with_casts(sql, columns))
            reader = reader_of(cursor)
        except Error as problem:
            raise failed(params.what, problem, connection) from None
        with opened(params.engine(), context.work_dir, lambda: context.cancelled) as engine:
            rows = _explained(batches(reader, columns), params.what, connection)
            return write_batches(engine, [column.field for column in columns], rows, params.order(), path)


def _with_casts(sql: str, columns: Sequence[ResultColumn]) -> str:
    """The query, wrapped in another one if the server has to cast a column. That keeps the order of the rows."""
    if all(column.sql == quoted(column.field.name) for column in columns):
        return sql
    selected = ", ".join(f"{column.sql} AS {quoted(column.field.name)}" for column in columns)
    return f"SELECT {selected} FROM (\n{sql}\n) AS whyrun_query"


def _explained(rows: Iterator[Any], what: str, connection: PostgresConnection) -> Iterator[Any]:
    """The batches; an error while reading them is raised with the server's message."""
    from adbc_driver_manager import Error

    try:
        yield from rows
    except (Error, OSError) as problem:  # Arrow raises OSError with the driver's message
        raise failed(what, problem, connection) from None
