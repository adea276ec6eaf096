"""`postgres/extract`: the rows of a query or a table of PostgreSQL, as a dataset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from whyrun.actions.base import Action, WorkerContext
from whyrun.actions.data.engine import opened
from whyrun.actions.data.output import dataset_path
from whyrun.actions.data.params import QueryFailed, ValueNotConvertible
from whyrun.actions.data.tables import check_names
from whyrun.actions.movers.connections import PostgresConnection
from whyrun.actions.movers.extracting import (
    MAX_DIGITS,
    ExtractParams,
    Field,
    WrittenRows,
    in_thread,
    keep_sql,
    report_extract,
    stopping,
    write_batches,
)
from whyrun.actions.movers.postgres.client import connected, failed, literal, quoted, reader_of
from whyrun.actions.movers.statement import POSTGRES, Dialect, filled
from whyrun.actions.parameters import Meta

# --- columns of a result -----------------------------------------------------------------------------------------
#
# Maps the columns of a PostgreSQL result to columns of a file. The server casts types that the driver would change.


_AS_THEY_ARE = frozenset({
    "bool", "int2", "int4", "int8", "float4", "float8", "text", "varchar", "bpchar", "name", "bytea", "date", "time",
    "timestamp", "timestamptz",
})  # fmt: skip
_OID_TYPES = frozenset({"oid", "xid", "cid", "regclass", "regtype", "regproc"})  # unsigned numbers, some with a name
_FIRST_DAY = -2_440_588  # 4713 BC, the earliest date of PostgreSQL, in days before 1970
_FIRST_MOMENT = _FIRST_DAY * 86_400_000_000


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """A column of the result: the SQL that selects it, and the field of the file."""

    sql: str
    field: Field


def result_columns(schema: Any) -> list[ResultColumn]:
    return [_result_column(field) for field in schema]


def _result_column(found: Any) -> ResultColumn:
    import pyarrow as pa

    metadata = found.metadata or {}
    type_ = metadata.get(b"POSTGRESQL:type", b"").decode()
    column = quoted(found.name)
    if type_ in _AS_THEY_ARE:
        return ResultColumn(column, Field(found.name, found.type))
    if type_ == "numeric":
        declared = _declared(int(metadata.get(b"POSTGRESQL:typmod", b"-1")))
        if declared is None:
            return ResultColumn(column, Field(found.name, pa.string(), undeclared_scale=True))
        return ResultColumn(column, Field(found.name, pa.decimal128(*declared)))
    if type_ in ("json", "jsonb"):
        return ResultColumn(column, Field(found.name, pa.string(), cast="JSON"))
    if type_ == "uuid":
        return ResultColumn(f"CAST({column} AS text)", Field(found.name, pa.string(), cast="UUID"))
    if type_ in _OID_TYPES:
        return ResultColumn(f"CAST({column} AS oid)::int8", Field(found.name, pa.int64()))
    if type_.startswith("_"):
        # The driver would flatten `{{1,2},{3,4}}` to one list.
        return ResultColumn(f"CAST(to_json({column}) AS text)", Field(found.name, pa.string(), cast="JSON"))
    return ResultColumn(f"CAST({column} AS text)", Field(found.name, pa.string()))


def _declared(modifier: int) -> tuple[int, int] | None:
    """(digits, scale) of `numeric(12,2)`; None for a plain `numeric`."""
    if modifier < 4:
        return None
    precision, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
    if scale >= 1024:  # a negative scale: `numeric(5,-2)`
        precision, scale = precision - (scale - 2048), 0
    if scale > MAX_DIGITS:
        return None
    return min(max(precision, scale, 1), MAX_DIGITS), scale


def batches(reader: Any, columns: Sequence[ResultColumn]) -> Iterator[Any]:
    import pyarrow as pa

    schema = pa.schema([(column.field.name, column.field.arrow) for column in columns])
    for batch in reader:
        arrays = [_array(array, column.field) for array, column in zip(batch.columns, columns, strict=True)]
        yield pa.record_batch(arrays, schema=schema)


def _array(array: Any, field: Field) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_date(field.arrow) or pa.types.is_timestamp(field.arrow):
        days = pa.types.is_date(field.arrow)
        first = pc.min(array.cast(pa.int32() if days else pa.int64())).as_py()
        if first is not None and first < (_FIRST_DAY if days else _FIRST_MOMENT):
            raise _misfit(field, "`infinity`", "date" if days else "timestamp")
    if array.type == field.arrow:
        return array
    try:
        return array.cast(field.arrow)
    except pa.ArrowInvalid:
        raise _misfit(field, _first_misfit(array, field.arrow), f"decimal of {MAX_DIGITS} digits") from None


def _first_misfit(array: Any, type_: Any) -> str:
    import pyarrow as pa

    for at in range(len(array)):
        try:
            array.slice(at, 1).cast(type_)
        except pa.ArrowInvalid:
            return f"`{array[at].as_py()}`"
    return "a value"


def _misfit(field: Field, held: str, what: str) -> ValueNotConvertible:
    return ValueNotConvertible(
        f"the column `{field.name}` holds {held}, which is not a {what} that a file can hold; change it in the query: "
        f"NULLIF({quoted(field.name)}, …), or CAST({quoted(field.name)} AS text)"
    )


# --- the action --------------------------------------------------------------------------------------------------


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
