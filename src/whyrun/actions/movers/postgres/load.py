"""`postgres/load`: loads a dataset into a PostgreSQL table in one transaction, all or nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from msgspec import field

from whyrun.actions.base import Action, WorkerContext
from whyrun.actions.data.engine import Engine, opened
from whyrun.actions.data.params import ColumnMissing, DataParams, Name, ValueNotConvertible, counted, listed
from whyrun.actions.data.tables import Table, open_tables
from whyrun.actions.movers.connections import PostgresConnection, without_password
from whyrun.actions.movers.extracting import in_thread, keep_sql, report_rows, stopping
from whyrun.actions.movers.loading import MODE, LoadFailed, LoadRefused, Mode, check_mode
from whyrun.actions.movers.postgres.client import (
    Conversion,
    CopiedColumn,
    TableColumn,
    connected,
    conversion,
    copied_column,
    is_exact,
    literal,
    quoted,
    server_message,
)
from whyrun.actions.parameters import File, Meta
from whyrun.errors import did_you_mean

# --- the target table --------------------------------------------------------------------------------------------
#
# Looks up a table in PostgreSQL's catalogue.


_KINDS = {"v": "a view", "m": "a materialized view", "f": "a foreign table", "S": "a sequence", "i": "an index"}


@dataclass(frozen=True, slots=True)
class Destination:
    schema: str
    table: str
    kind_letter: str
    columns: tuple[TableColumn, ...]

    @property
    def is_table(self) -> bool:
        return self.kind_letter in ("r", "p")  # plain, or partitioned

    @property
    def kind(self) -> str:
        return _KINDS.get(self.kind_letter, "something else")

    @property
    def quoted(self) -> str:
        return f"{quoted(self.schema)}.{quoted(self.table)}"

    @property
    def shown(self) -> str:
        return f"`{self.schema}.{self.table}`"


@dataclass(frozen=True, slots=True)
class PostgresTable:
    """The name of a table that may or may not exist."""

    schema: str | None
    table: str

    @property
    def shown(self) -> str:
        return f"`{self.table}`" if self.schema is None else f"`{self.schema}.{self.table}`"

    def look_up(self, cursor: Any) -> Destination | None:
        """The existing table. Without a schema, the one that a query would use, but never a temporary table."""
        name = quoted(self.table) if self.schema is None else f"{quoted(self.schema)}.{quoted(self.table)}"
        cursor.execute(
            "SELECT n.nspname::text, c.relkind::text, c.oid::int8 FROM pg_catalog.pg_class c "
            "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
            f"WHERE c.oid = to_regclass({literal(name)}) AND c.relpersistence <> 't'"
        )
        rows = cursor.fetchall()
        if not rows:
            return None
        ((schema, kind, oid),) = rows
        cursor.execute(
            "SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), t.typcategory::text "
            "FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid "
            f"WHERE a.attrelid = {oid} AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
        )
        return Destination(schema, self.table, kind, tuple(TableColumn(*row) for row in cursor.fetchall()))

    def new_schema(self, cursor: Any) -> str:
        """The schema in which a new table of this name would be created."""
        if self.schema is not None:
            return self.schema
        cursor.execute("SELECT current_schema()::text")
        ((schema,),) = cursor.fetchall()
        if schema is None:
            raise LoadRefused(f"the user's search path has no schema for {self.shown}; write `schema:`")
        return str(schema)


# --- the action --------------------------------------------------------------------------------------------------


SqlType = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z_][A-Za-z0-9_ ]*(\([0-9]+(, ?-?[0-9]+)?\)[A-Za-z ]*)?(\[\])*$", title="a type of PostgreSQL"
    ),
]
_STAGE = "whyrun_stage"  # a temporary table; it hides no other table, since their names are written with a schema


class Params(DataParams, kw_only=True):
    uncounted: ClassVar[tuple[str, ...]] = ("memory_limit", "threads")

    connection: Annotated[
        PostgresConnection, Meta(description="host, port, user, password, database, sslmode, sslrootcert")
    ]
    data: Annotated[File, Meta(description="the dataset: CSV, Parquet, JSON, Stata or Excel")]
    table: Annotated[Name, Meta(description="its exact name, not folded to lower case")]
    schema: Annotated[Name | None, Meta(description="null: the user's default schema, usually `public`")] = None
    mode: Annotated[Mode, Meta(description=MODE)]
    create_if_missing: Annotated[
        bool, Meta(description="`append`, `truncate`, `upsert`: create the table if there is none, with `keys`")
    ] = False
    keys: Annotated[
        list[Name], Meta(description="`upsert`: the columns that identify a row; `create`, `replace`: the primary key")
    ] = field(default_factory=list)
    column_types: Annotated[dict[Name, SqlType], Meta(description="for a new table: column → PostgreSQL type")] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        check_mode(self.mode, self.keys, self.column_types, self.create_if_missing)

    def files(self) -> dict[str, File]:
        return {"data": self.data}


class PostgresLoad(Action):
    """Load a dataset into a table of PostgreSQL: all of it or nothing."""

    name = "postgres/load"
    version = "1"
    outputs: ClassVar[Mapping[str, str]] = {"report": "json"}
    Params: ClassVar[type[Any] | None] = Params
    example = """\
jobs:
  Publish:
    uses: postgres/load
    with:
      connection: "@postgres.warehouse"
      data: ${{ jobs.Sales.outputs.sales }}
      table: sales
      mode: replace
      keys: [region, month]
    outputs: {report: {type: json}}
"""

    def run(
        self, inputs: dict[str, Any], mode: str = "dry-run", context: Any = None, logger: Any = None
    ) -> dict[str, Any] | None:
        del inputs, mode, logger
        params: Params = self.params
        load, loaded = in_thread(context, lambda: _load(params, context))
        table = load.table
        report = {
            "schema": loaded.schema,
            "table": params.table,
            "mode": params.mode,
            "rows": load.rows,
            "columns": {target.name: target.type for target in loaded.columns},
            "data_sha256": _sha256(params.data),  # so that other rows give another report, even if the count is equal
        }
        context.task(
            "EXECUTES",
            f"{load.done} {counted(load.rows, 'row')} in {loaded.shown}",
            {"decision": "load", "rows": {"read": table.rows, "written": load.rows}, "table": report},
        )
        report_rows(context, read=table.rows, written=load.rows, bytes_in=params.data.stat().st_size)
        return {"report": report} if "report" in context.output_names else None


def _load(params: Params, context: WorkerContext) -> tuple[Load, Destination]:
    with opened(params, context.work_dir, lambda: context.cancelled) as engine:
        (table,) = open_tables(engine, params)
        load = Load(params, context, engine, table)
        with connected(params.connection, read_only=False) as cursor, stopping(context, cursor.adbc_cancel):
            return load, load.into(cursor)


class Load:
    """One load: the data, the table, and the statements sent."""

    def __init__(self, params: Params, context: WorkerContext, engine: Engine, table: Table) -> None:
        self.params, self.context, self.engine, self.table = params, context, engine, table
        self.columns = [copied_column(column) for column in table.columns]
        self.rows = 0
        self.sent: list[str] = []
        for wanted in (*params.keys, *params.column_types):
            if wanted not in table.names:
                entry = "keys" if wanted in params.keys else "column_types"
                hint = did_you_mean(wanted, table.names) or f"its columns: {listed(table.names)}"
                raise ColumnMissing(f"`{entry}` names `{wanted}`, and `data` has no such column; {hint}")

    @property
    def done(self) -> str:
        return {"append": "added", "upsert": "wrote"}.get(self.params.mode, "loaded")

    def into(self, cursor: Any) -> Destination:
        from adbc_driver_manager import Error

        shown = PostgresTable(self.params.schema, self.params.table).shown
        committing = False
        self._check_losses()
        try:
            destination = self._destination(cursor)
            matched = self._matched(destination)
            if self.params.mode != "upsert" and all(is_exact(column, target) for column, target, _ in matched):
                self.rows = self._copy(cursor, destination.table, destination.schema)
            else:
                self.rows = self._convert(cursor, destination, matched)
            committing = True
            cursor.connection.commit()
        except (Error, OSError) as problem:
            why = without_password(server_message(problem), self.params.connection) + _advice(problem)
            if committing and _is_lost(problem):
                # The server may have committed although its confirmation got lost.
                raise LoadFailed(f"it is not known whether {shown} was loaded, check the table: {why}") from None
            raise LoadFailed(f"{shown} was not loaded, and nothing was changed: {why}") from None
        finally:
            keep_sql(self.context, ";\n".join(self.sent))
        return destination

    def _check_losses(self) -> None:
        """Check, before connecting, that copying changes no value."""
        for column in self.columns:
            if not column.lossy:
                continue
            (lost,) = self.engine.row(f"SELECT count(*) FROM {self.table.relation} WHERE {column.lossy}")
            if lost:
                raise ValueNotConvertible(
                    f"{counted(lost, 'value')} of `{column.name}` would lose precision as {column.type}; round it first"
                )

    # --- the table -----------------------------------------------------------------------------------------------

    def _destination(self, cursor: Any) -> Destination:
        """The table, created, dropped or truncated as the mode requires, with its columns."""
        params = self.params
        table = PostgresTable(params.schema, params.table)
        existing = table.look_up(cursor)
        creates = params.mode in ("create", "replace") or (params.create_if_missing and existing is None)
        if params.mode == "create" and existing is not None:
            raise LoadRefused(f"{existing.shown} exists already; write `mode: replace`, `truncate` or `append`")
        if existing is not None and not existing.is_table:
            raise LoadRefused(f"{existing.shown} is {existing.kind}, not a table; name a table")
        if not creates:
            if existing is None:
                raise LoadRefused(f"there is no table {table.shown}; create it, or write `create_if_missing: true`")
            if params.mode == "truncate":
                self._do(cursor, f"TRUNCATE {existing.quoted}")
            return existing
        if existing is not None:
            self._do(cursor, f"DROP TABLE {existing.quoted}")
        schema = existing.schema if existing is not None else table.new_schema(cursor)
        columns = [f"{quoted(c.name)} {params.column_types.get(c.name, c.new_type)}" for c in self.columns]
        if params.keys:
            columns.append(f"PRIMARY KEY ({', '.join(map(quoted, params.keys))})")
        self._do(cursor, f"CREATE TABLE {quoted(schema)}.{quoted(params.table)} ({', '.join(columns)})")
        new = table.look_up(cursor)
        assert new is not None, "it was just created"
        return new

    def _matched(self, destination: Destination) -> list[tuple[CopiedColumn, TableColumn, Conversion]]:
        """Each column of the data with its column of the table. Raises `LoadRefused` with all problems."""
        targets = {target.name: target for target in destination.columns}
        matched, problems = [], []
        for column in self.columns:
            target = targets.get(column.name)
            if target is None:
                hint = did_you_mean(column.name, list(targets)) or f"it has {listed(targets)}"
                problems.append(f"it has no column `{column.name}` ({hint})")
                continue
            how = conversion(column, target)
            if how is None:
                problems.append(f"`{column.name}` is {target.type} in the table and {column.type} in `data`")
                continue
            matched.append((column, target, how))
        if problems:
            raise LoadRefused(f"{destination.shown} does not fit `data`: {'; '.join(problems)}")
        return matched

    # --- the rows ------------------------------------------------------------------------------------------------

    def _copy(self, cursor: Any, table: str, schema: str | None) -> int:
        """Copy directly into the table or, without a schema, into a new temporary table."""
        select = ", ".join(f"{column.select} AS {quoted(column.name)}" for column in self.columns)
        reader = self.engine.reader(f"SELECT {select} FROM {self.table.relation}")
        temporary = schema is None
        mode: Any = "create" if temporary else "append"
        columns = ", ".join(quoted(column.name) for column in self.columns)
        target = f"{quoted(schema or 'pg_temp')}.{quoted(table)}"
        self.sent.append(f"COPY {target} ({columns}) FROM STDIN WITH (FORMAT binary)")
        try:
            return int(cursor.adbc_ingest(table, reader, mode=mode, db_schema_name=schema, temporary=temporary))
        finally:
            reader.close()

    def _convert(
        self, cursor: Any, destination: Destination, matched: Sequence[tuple[CopiedColumn, TableColumn, Conversion]]
    ) -> int:
        """Copy into a temporary table, and insert the converted rows from there."""
        self._copy(cursor, _STAGE, None)
        for column, target, how in matched:
            if how.lossy:
                self._check_loss(cursor, column, target, how.lossy)
        names = ", ".join(quoted(target.name) for _, target, _ in matched)
        values = ", ".join(how.insert for _, _, how in matched)
        insert = f"INSERT INTO {destination.quoted} ({names}) SELECT {values} FROM pg_temp.{_STAGE}"
        if self.params.mode == "upsert":
            insert += f" ON CONFLICT ({', '.join(map(quoted, self.params.keys))}) " + self._update(matched)
        rows = self._do(cursor, insert)
        self._do(cursor, f"DROP TABLE pg_temp.{_STAGE}")
        return rows

    def _check_loss(self, cursor: Any, column: CopiedColumn, target: TableColumn, lossy: str) -> None:
        cursor.execute(
            f"SELECT count(*), min(CAST({quoted(column.name)} AS text)) FROM pg_temp.{_STAGE} "
            f"WHERE {quoted(column.name)} IS NOT NULL AND {lossy}"
        )
        ((lost, example),) = cursor.fetchall()
        if lost:
            raise ValueNotConvertible(
                f"{counted(lost, 'value')} of `{column.name}` would change as {target.type}: `{example}`; "
                "round it first, or change the table; nothing was changed"
            )

    def _update(self, matched: Sequence[tuple[CopiedColumn, TableColumn, Conversion]]) -> str:
        others = [quoted(target.name) for _, target, _ in matched if target.name not in self.params.keys]
        if not others:
            return "DO NOTHING"
        return "DO UPDATE SET " + ", ".join(f"{other} = EXCLUDED.{other}" for other in others)

    def _do(self, cursor: Any, sql: str) -> int:
        self.sent.append(sql)
        cursor.execute(sql)
        return int(cursor.rowcount)


def _is_lost(problem: BaseException) -> bool:
    """Whether the connection is lost, as opposed to a refusal by the server."""
    return (getattr(problem, "sqlstate", None) or "08").startswith(("08", "57"))


def _advice(problem: BaseException) -> str:
    match getattr(problem, "sqlstate", None):
        case "21000":
            return "; two rows of `data` have the same `keys`"
        case "42P10":
            return "; `keys` need a primary key or a unique index on exactly these columns"
        case "2BP01":
            return "; use `mode: truncate`, which keeps the table and the objects that depend on it"
    return ""


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
