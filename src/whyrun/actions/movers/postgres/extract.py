"""`postgres/extract`: the rows of a query or a table of PostgreSQL, as a dataset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

from whyrun.actions.base import Action, WorkerContext
from whyrun.actions.builtin.data.engine import opened
from whyrun.actions.builtin.data.output import dataset_path
from whyrun.actions.builtin.data.problems import QueryFailed
from whyrun.actions.builtin.data.tables import check_names
from whyrun.actions.builtin.movers.connections import PostgresConnection
from whyrun.actions.builtin.movers.extracting import ExtractParams, aside, keep_sql, report_extract, stopping
from whyrun.actions.builtin.movers.feed import Written, write_feed
from whyrun.actions.builtin.movers.postgres import connected, failed, literal, quoted, reader_of
from whyrun.actions.builtin.movers.postgres_types import Fetched, batches, fetched
from whyrun.actions.builtin.movers.statement import POSTGRES, Dialect, filled
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
        written = aside(context, lambda: _extract(params, context, path))
        report_extract(context, output, path, params.connection.place().split(",")[0], written)
        return None


def _extract(params: Params, context: WorkerContext, path: Path) -> Written:
    from adbc_driver_manager import Error

    connection = params.connection
    with connected(connection, read_only=True) as cursor, stopping(context, cursor.adbc_cancel):
        asked = params.query
        sql = params.select(quoted) if asked is None else filled(asked, params.values, POSTGRES, literal)
        keep_sql(context, sql)
        try:
            columns = fetched(cursor.adbc_execute_schema(sql))
            if not columns:
                raise QueryFailed("`query` gives no rows: it takes one SELECT")
            check_names("the result", [column.field.name for column in columns])
            cursor.execute(_written_out(sql, columns))
            reader = reader_of(cursor)
        except Error as problem:
            raise failed(params.what, problem, connection) from None
        with opened(params.engine(), context.work_dir, lambda: context.cancelled) as engine:
            rows = _told(batches(reader, columns), params.what, connection)
            return write_feed(engine, [column.field for column in columns], rows, params.order(), path)


def _written_out(sql: str, columns: Sequence[Fetched]) -> str:
    """The query; or one around it, where the server has to write a type out. That keeps the order of the rows."""
    if all(column.sql == quoted(column.field.name) for column in columns):
        return sql
    selected = ", ".join(f"{column.sql} AS {quoted(column.field.name)}" for column in columns)
    return f"SELECT {selected} FROM (\n{sql}\n) AS whyrun_query"


def _told(rows: Iterator[Any], what: str, connection: PostgresConnection) -> Iterator[Any]:
    """The batches, and a failure in the midst of them in the words of the server."""
    from adbc_driver_manager import Error

    try:
        yield from rows
    except (Error, OSError) as problem:  # Arrow raises the latter, with the driver's words
        raise failed(what, problem, connection) from None
