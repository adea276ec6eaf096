"""`mysql/extract`: the rows of a query or a table, from MySQL or MariaDB, as a dataset."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, ClassVar

from whyrun.actions.base import Action
from whyrun.actions.data.engine import opened
from whyrun.actions.data.output import dataset_path
from whyrun.actions.data.problems import QueryFailed
from whyrun.actions.movers.batch_writer import write_batches
from whyrun.actions.movers.connections import MySqlConnection
from whyrun.actions.movers.extracting import ExtractParams, keep_sql, report_extract, stopping
from whyrun.actions.movers.mysql.client import batches, connected, failed, fields_of, quoted, stop_query
from whyrun.actions.movers.statement import MYSQL, Dialect, filled
from whyrun.actions.parameters import Meta


class Params(ExtractParams, kw_only=True):
    dialect: ClassVar[Dialect] = MYSQL

    connection: Annotated[MySqlConnection, Meta(description="host, port or socket, user, password, database, ssl_ca")]


class MySqlExtract(Action):
    """Read a query or a table of MySQL or MariaDB into a dataset, row by row."""

    name = "mysql/extract"
    version = "1"
    Params: ClassVar[type[Any] | None] = Params
    example = """\
jobs:
  Orders:
    uses: mysql/extract
    with:
      connection: "@mysql.shop"
      query: SELECT id, customer, total, placed_at FROM orders WHERE placed_at < $until ORDER BY id
      values: {until: "${{ inputs.Until }}"}
    outputs: {orders: {type: dataset, path: out/orders.parquet}}
"""

    def run(
        self, inputs: dict[str, Any], mode: str = "dry-run", context: Any = None, logger: Any = None
    ) -> dict[str, Any] | None:
        del inputs, mode, logger
        import pymysql

        params: Params = self.params
        output, path = dataset_path(context, self.name)
        connection = params.connection
        with connected(connection) as session, stopping(context, stop_query(connection, session)):
            if params.query is None:
                sql = params.select(quoted)
            else:
                sql = filled(params.query, params.values, MYSQL, session.escape)
            keep_sql(context, sql)
            query_failed = partial(failed, params.what, connection=connection, session=session)
            cursor = session.cursor()
            try:
                cursor.execute(sql)
            except pymysql.MySQLError as problem:
                raise query_failed(problem) from None
            fields = fields_of(cursor)
            if not fields:
                raise QueryFailed("`query` gives no rows: it takes one SELECT")
            with opened(params.engine(), context.work_dir, lambda: context.cancelled) as engine:
                rows = batches(cursor, fields, query_failed)
                written = write_batches(engine, fields, rows, params.order(), path)
        report_extract(context, output, path, connection.address().split(",")[0], written)
        return None
