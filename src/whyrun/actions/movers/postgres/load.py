"""`postgres/load`: a dataset into a table of PostgreSQL, in one transaction: all of it or nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from msgspec import field

from whyrun.actions.base import Action, WorkerContext
from whyrun.actions.builtin.data.engine import Engine, opened
from whyrun.actions.builtin.data.params import DataParams, Name
from whyrun.actions.builtin.data.problems import ColumnMissing, ValueNotConvertible, counted, listed
from whyrun.actions.builtin.data.tables import Table, open_tables
from whyrun.actions.builtin.movers.connections import PostgresConnection
from whyrun.actions.builtin.movers.extracting import aside, keep_sql, report_rows, stopping
from whyrun.actions.builtin.movers.postgres import connected, quoted, words
from whyrun.actions.builtin.movers.postgres_carriers import Carried, Conversion, Target, carried, conversion, is_exact
from whyrun.actions.builtin.movers.postgres_table import Destination, PostgresTable
from whyrun.actions.builtin.movers.problems import LoadFailed, LoadRefused, without_password
from whyrun.actions.parameters import File, Meta
from whyrun.errors import did_you_mean

SqlType = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z_][A-Za-z0-9_ ]*(\([0-9]+(, ?-?[0-9]+)?\)[A-Za-z ]*)?(\[\])*$", title="a type of PostgreSQL"
    ),
]
_STAGE = "whyrun_stage"  # a temporary table: it hides nothing, since every other name is written with its schema


class Params(DataParams, kw_only=True):
    uncounted: ClassVar[tuple[str, ...]] = ("memory_limit", "threads")

    connection: Annotated[
        PostgresConnection, Meta(description="host, port, user, password, database, sslmode, sslrootcert")
    ]
    data: Annotated[File, Meta(description="the dataset: CSV, Parquet, JSON, Stata or Excel")]
    table: Annotated[Name, Meta(description="its name, as it is: not folded to lower case")]
    schema: Annotated[Name | None, Meta(description="where it is null: the user's usual one, mostly `public`")] = None
    mode: Annotated[
        Literal["create", "replace", "truncate", "append", "upsert"],
        Meta(description="a new table, one made anew, the same table with other rows, more rows, rows by `keys`"),
    ]
    keys: Annotated[
        list[Name], Meta(description="of `upsert`: which row is meant; of `create` and `replace`: the primary key")
    ] = field(default_factory=list)
    column_types: Annotated[
        dict[Name, SqlType], Meta(description="of a table that is made: column → type of PostgreSQL")
    ] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.mode == "upsert" and not self.keys:
            raise ValueError("`mode: upsert` needs `keys`: the columns that tell which row is meant")
        if self.keys and self.mode in ("append", "truncate"):
            raise ValueError(f"`keys` say nothing to `mode: {self.mode}`")
        if self.column_types and self.mode not in ("create", "replace"):
            raise ValueError(f"`column_types` are for a table that is made; `mode: {self.mode}` takes it as it is")

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
        load, loaded = aside(context, lambda: _load(params, context))
        table = load.table
        report = {
            "schema": loaded.schema,
            "table": params.table,
            "mode": params.mode,
            "rows": load.rows,
            "columns": {target.name: target.type for target in loaded.columns},
            "data_sha256": _sha256(params.data),  # other rows are another report, also where their number is the same
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
    """One load: what goes where, and what was done."""

    def __init__(self, params: Params, context: WorkerContext, engine: Engine, table: Table) -> None:
        self.params, self.context, self.engine, self.table = params, context, engine, table
        self.columns = [carried(column) for column in table.columns]
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
            found = self._destination(cursor)
            matched = self._matched(found)
            if self.params.mode != "upsert" and all(is_exact(column, target) for column, target, _ in matched):
                self.rows = self._copied(cursor, found.table, found.schema)
            else:
                self.rows = self._converted(cursor, found, matched)
            committing = True
            cursor.connection.commit()
        except (Error, OSError) as problem:
            told = without_password(words(problem), self.params.connection) + _advice(problem)
            if committing and _is_lost(problem):
                # The word may have got lost on its way to us, and not to the server.
                raise LoadFailed(f"whether {shown} was loaded is not known, look at it: {told}") from None
            raise LoadFailed(f"{shown} was not loaded, and nothing was changed: {told}") from None
        finally:
            keep_sql(self.context, ";\n".join(self.sent))
        return found

    def _check_losses(self) -> None:
        """Before a server is asked: what cannot travel as it is."""
        for column in self.columns:
            if not column.lossy:
                continue
            (lost,) = self.engine.row(f"SELECT count(*) FROM {self.table.relation} WHERE {column.lossy}")
            if lost:
                raise ValueNotConvertible(
                    f"{counted(lost, 'value')} of `{column.name}` would lose something as {column.type}; round it first"
                )

    # --- the table -----------------------------------------------------------------------------------------------

    def _destination(self, cursor: Any) -> Destination:
        """The table as the mode wants it, with its columns."""
        params = self.params
        table = PostgresTable(params.schema, params.table)
        found = table.found(cursor)
        made = params.mode == "create" or params.mode == "replace"
        if params.mode == "create" and found is not None:
            raise LoadRefused(f"{found.shown} is there already; write `mode: replace`, `truncate` or `append`")
        if found is not None and not found.is_table:
            raise LoadRefused(f"{found.shown} is {found.kind} and no table; name another")
        if not made:
            if found is None:
                raise LoadRefused(f"there is no table {table.shown}; make it, or write `mode: create` or `replace`")
            if params.mode == "truncate":
                self._do(cursor, f"TRUNCATE {found.quoted}")
            return found
        if found is not None:
            self._do(cursor, f"DROP TABLE {found.quoted}")
        schema = found.schema if found is not None else table.new_schema(cursor)
        columns = [f"{quoted(c.name)} {params.column_types.get(c.name, c.made)}" for c in self.columns]
        if params.keys:
            columns.append(f"PRIMARY KEY ({', '.join(map(quoted, params.keys))})")
        self._do(cursor, f"CREATE TABLE {quoted(schema)}.{quoted(params.table)} ({', '.join(columns)})")
        new = table.found(cursor)
        assert new is not None, "it was made a moment ago"
        return new

    def _matched(self, found: Destination) -> list[tuple[Carried, Target, Conversion]]:
        """Each column of the data with that of the table; everything that does not fit is told at once."""
        targets = {target.name: target for target in found.columns}
        matched, problems = [], []
        for column in self.columns:
            target = targets.get(column.name)
            if target is None:
                hint = did_you_mean(column.name, list(targets)) or f"it has {listed(targets)}"
                problems.append(f"it has no column `{column.name}` ({hint})")
                continue
            how = conversion(column, target)
            if how is None:
                problems.append(f"`{column.name}` is {target.type} there and {column.type} here")
                continue
            matched.append((column, target, how))
        if problems:
            raise LoadRefused(f"{found.shown} does not fit `data`: {'; '.join(problems)}")
        return matched

    # --- the rows ------------------------------------------------------------------------------------------------

    def _copied(self, cursor: Any, table: str, schema: str | None) -> int:
        """Straight into the table, or (without a schema) into a new temporary one."""
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

    def _converted(self, cursor: Any, found: Destination, matched: Sequence[tuple[Carried, Target, Conversion]]) -> int:
        self._copied(cursor, _STAGE, None)
        for column, target, how in matched:
            if how.lossy:
                self._check_loss(cursor, column, target, how.lossy)
        names = ", ".join(quoted(target.name) for _, target, _ in matched)
        values = ", ".join(how.insert for _, _, how in matched)
        insert = f"INSERT INTO {found.quoted} ({names}) SELECT {values} FROM pg_temp.{_STAGE}"
        if self.params.mode == "upsert":
            insert += f" ON CONFLICT ({', '.join(map(quoted, self.params.keys))}) " + self._update(matched)
        rows = self._do(cursor, insert)
        self._do(cursor, f"DROP TABLE pg_temp.{_STAGE}")
        return rows

    def _check_loss(self, cursor: Any, column: Carried, target: Target, lossy: str) -> None:
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

    def _update(self, matched: Sequence[tuple[Carried, Target, Conversion]]) -> str:
        others = [quoted(target.name) for _, target, _ in matched if target.name not in self.params.keys]
        if not others:
            return "DO NOTHING"
        return "DO UPDATE SET " + ", ".join(f"{other} = EXCLUDED.{other}" for other in others)

    def _do(self, cursor: Any, sql: str) -> int:
        self.sent.append(sql)
        cursor.execute(sql)
        return int(cursor.rowcount)


def _is_lost(problem: BaseException) -> bool:
    """Whether the connection is gone, rather than the server's answer no."""
    return (getattr(problem, "sqlstate", None) or "08").startswith(("08", "57"))


def _advice(problem: BaseException) -> str:
    match getattr(problem, "sqlstate", None):
        case "21000":
            return "; two rows of `data` have the same `keys`"
        case "42P10":
            return "; `keys` need a primary key or a unique index on exactly these columns"
        case "2BP01":
            return "; `mode: truncate` keeps the table, and what depends on it"
    return ""


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
