"""`mysql/extract`: the rows of a query or a table, from MySQL or MariaDB, as a dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any, ClassVar

from whyrun.actions.base import Action
from whyrun.actions.data.engine import opened
from whyrun.actions.data.output import dataset_path
from whyrun.actions.data.params import QueryFailed, ValueNotConvertible
from whyrun.actions.movers.connections import ConnectionFailed, MySqlConnection, sqlstate_suffix, without_password
from whyrun.actions.movers.extracting import (
    MAX_DIGITS,
    ExtractParams,
    Field,
    keep_sql,
    report_extract,
    stopping,
    write_batches,
)
from whyrun.actions.movers.statement import MYSQL, Dialect, filled
from whyrun.actions.parameters import Meta

# --- MySQL and MariaDB through pymysql: streams the rows of a result, with the types that the server declares ---------


BATCH = 10_000  # rows
_BINARY = 63  # the character set number of binary columns
_UNSIGNED = 32  # a flag of a column
_SETTINGS = (
    # Timestamps are sent in UTC. A backslash in a string is an escape, as `statement` assumes.
    "SET SESSION time_zone = '+00:00', net_write_timeout = 3600, "
    "sql_mode = REPLACE(@@sql_mode, 'NO_BACKSLASH_ESCAPES', '')"
)


def quoted(identifier: str) -> str:
    return "`" + identifier.replace("`", "``") + "`"


@contextmanager
def connected(connection: MySqlConnection) -> Iterator[Any]:
    """A read-only session: the server refuses every change."""
    import pymysql
    from pymysql.converters import conversions
    from pymysql.cursors import SSCursor

    fields = connection.checked()
    options: dict[str, Any] = {
        "host": fields.get("host", "localhost"),
        "port": fields.get("port", connection.default_port),
        "unix_socket": fields.get("socket"),
        "user": fields["user"],
        "password": fields.get("password", ""),
        "database": fields["database"],
        "connect_timeout": fields.get("connect_timeout", 10),
        "charset": "utf8mb4",
        "cursorclass": SSCursor,  # fetch rows as needed
        # No conversions by pymysql: only the text is exactly what the server sent.
        "conv": {key: value for key, value in conversions.items() if not isinstance(key, int)},
    }
    if "ssl_ca" in fields:
        options["ssl"] = {"ca": fields["ssl_ca"]}
    try:
        session = pymysql.connect(**options)
    except (pymysql.MySQLError, OSError, RuntimeError) as problem:
        raise ConnectionFailed(connection.failure(server_message(problem))) from None
    try:
        with session.cursor() as cursor:
            cursor.execute(_SETTINGS)
            cursor.execute("START TRANSACTION READ ONLY")
        yield session
    except pymysql.MySQLError as problem:
        message = without_password(server_message(problem), connection)
        raise ConnectionFailed(f"{connection.address()}: {message}") from None
    finally:
        # Not `close`, which would first read the rest of the result.
        session._force_close()


def stop_query(connection: MySqlConnection, session: Any) -> Callable[[], None]:
    """A function that cancels the session's query from another thread, over another connection."""
    number = session.thread_id()

    def stop() -> None:
        try:
            with connected(connection) as other, other.cursor() as cursor:
                cursor.execute(f"KILL QUERY {number}")
        except ConnectionFailed:
            return  # `stopping` tries again while the query runs

    return stop


def failed(what: str, problem: BaseException, connection: MySqlConnection, session: Any) -> QueryFailed:
    message = without_password(server_message(problem) + sqlstate_suffix(_sqlstate(session)), connection)
    return QueryFailed(f"{what} cannot be answered: {message}")


def server_message(problem: BaseException) -> str:
    """The server's message and error number."""
    match problem.args:
        case (int(number), str(message), *_):
            return f"{message} [{number}]"
    return str(problem)


def _sqlstate(session: Any) -> str | None:
    """Ask the server for the SQLSTATE, because pymysql drops it."""
    import pymysql

    try:
        with session.cursor() as cursor:
            cursor.execute("GET DIAGNOSTICS CONDITION 1 @whyrun_state = RETURNED_SQLSTATE")
            cursor.execute("SELECT @whyrun_state")
            (sqlstate,) = cursor.fetchone()
    except (pymysql.MySQLError, OSError):
        return None  # the connection is lost
    return None if sqlstate is None else str(sqlstate)


# --- types -------------------------------------------------------------------------------------------------------


def fields_of(cursor: Any) -> list[Field]:
    """The columns of the result, as the server declares them."""
    # The public description lacks the sign and the character set. A statement without a result has no `fields`.
    return [_field(found) for found in getattr(cursor._result, "fields", ())]


def _field(found: Any) -> Field:
    import pyarrow as pa
    from pymysql.constants import FIELD_TYPE as T

    unsigned = bool(found.flags & _UNSIGNED)
    match found.type_code:
        case T.TINY:
            type_ = pa.uint8() if unsigned else pa.int8()
        case T.SHORT:
            type_ = pa.uint16() if unsigned else pa.int16()
        case T.YEAR:
            type_ = pa.int16()
        case T.LONG | T.INT24:
            type_ = pa.uint32() if unsigned else pa.int32()
        case T.LONGLONG:
            type_ = pa.uint64() if unsigned else pa.int64()
        case T.BIT:
            type_ = pa.uint64()
        case T.FLOAT:
            type_ = pa.float32()
        case T.DOUBLE:
            type_ = pa.float64()
        case T.DECIMAL | T.NEWDECIMAL:
            precision = found.length - (1 if found.scale else 0) - (0 if unsigned else 1)
            type_ = pa.decimal128(max(1, min(precision, MAX_DIGITS)), found.scale)
        case T.DATE | T.NEWDATE:
            type_ = pa.date32()
        case T.DATETIME:
            type_ = pa.timestamp("us")
        case T.TIMESTAMP:
            type_ = pa.timestamp("us", tz="UTC")
        case T.JSON:
            return Field(found.name, pa.string(), cast="JSON")
        case T.GEOMETRY:
            type_ = pa.binary()
        case T.TINY_BLOB | T.MEDIUM_BLOB | T.LONG_BLOB | T.BLOB | T.VAR_STRING | T.STRING | T.VARCHAR:
            type_ = pa.binary() if found.charsetnr == _BINARY else pa.string()
        case _:  # TIME is a span from -838 to 838 hours, not a time of day, so it stays a text
            type_ = pa.string()
    return Field(found.name, type_)


def batches(cursor: Any, fields: Sequence[Field], query_failed: Callable[[BaseException], Exception]) -> Iterator[Any]:
    import pyarrow as pa
    import pymysql

    schema = pa.schema([(field.name, field.arrow) for field in fields])
    while True:
        try:
            rows = cursor.fetchmany(BATCH)
        except pymysql.MySQLError as problem:
            raise query_failed(problem) from None
        if not rows:
            return
        columns = zip(*rows, strict=True)
        arrays = [_array(list(values), field) for values, field in zip(columns, fields, strict=True)]
        yield pa.record_batch(arrays, schema=schema)


def _array(values: list[Any], field: Field) -> Any:
    import pyarrow as pa

    type_ = field.arrow
    if pa.types.is_string(type_):
        # Some types are sent as bytes without a character set, though they are ASCII text.
        texts = [value.decode("utf-8") if isinstance(value, bytes) else value for value in values]
        return pa.array(texts, pa.string())
    if pa.types.is_binary(type_):
        return pa.array([v.encode("utf-8") if isinstance(v, str) else v for v in values], pa.binary())
    if type_ == pa.uint64() and any(isinstance(value, bytes) for value in values):  # BIT
        return pa.array([None if value is None else int.from_bytes(value, "big") for value in values], pa.uint64())
    try:
        texts = pa.array(values, pa.string())
        if pa.types.is_timestamp(type_) and type_.tz is not None:
            return texts.cast(pa.timestamp("us")).cast(type_)
        return texts.cast(type_)
    except pa.ArrowInvalid:
        raise ValueNotConvertible(
            f"the column `{field.name}` holds {_first_misfit(values, type_)}, which is not a {_type_name(type_)}; "
            f"change it in the query: NULLIF({quoted(field.name)}, …), or CAST({quoted(field.name)} AS CHAR)"
        ) from None


def _first_misfit(values: list[Any], type_: Any) -> str:
    import pyarrow as pa

    for value in values:
        try:
            pa.array([value], pa.string()).cast(pa.timestamp("us") if pa.types.is_timestamp(type_) else type_)
        except pa.ArrowInvalid:
            return f"`{value}`"
    return "a value"


def _type_name(type_: Any) -> str:
    import pyarrow as pa

    if pa.types.is_date(type_):
        return "date"
    if pa.types.is_timestamp(type_):
        return "timestamp"
    return f"decimal of {type_.precision} digits" if pa.types.is_decimal(type_) else str(type_)


# --- extract ----------------------------------------------------------------------------------------------------------


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
