"""`duckdb/load`: loads a dataset into a table of a DuckDB database file, in one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from whyrun.actions.base import Action, WorkerContext
from whyrun.actions.data.engine import ROW, Engine, literal, name, opened
from whyrun.actions.data.files.problems import reason
from whyrun.actions.data.kinds import kind_of
from whyrun.actions.data.params import ValueNotConvertible, counted, listed
from whyrun.actions.data.tables import Column, Table, open_tables
from whyrun.actions.movers.connections import DuckDbConnection
from whyrun.actions.movers.extracting import keep_sql
from whyrun.actions.movers.loading import (
    FileLoadParams,
    LoadFailed,
    LoadRefused,
    check_columns,
    check_keys,
    check_unique,
    database_file,
    report_load,
)
from whyrun.actions.parameters import Meta
from whyrun.errors import did_you_mean

_DATABASE = "db"
_NUMBERS = ("integer", "number")


class Params(FileLoadParams, kw_only=True):
    connection: Annotated[DuckDbConnection, Meta(description="`path` of the database file; created if it is not there")]


class DuckDbLoad(Action):
    """Load a dataset into a table of a DuckDB file: all of it or nothing."""

    name = "duckdb/load"
    version = "1"
    outputs: ClassVar[Mapping[str, str]] = {"report": "json"}
    Params: ClassVar[type[Any] | None] = Params
    example = """\
jobs:
  Publish:
    uses: duckdb/load
    with:
      connection: "@duckdb.warehouse"
      data: ${{ jobs.Sales.outputs.sales }}
      table: sales
      mode: upsert
      keys: [region, month]
      create_if_missing: true
    outputs: {report: {type: json}}
"""

    def run(
        self, inputs: dict[str, Any], mode: str = "dry-run", context: Any = None, logger: Any = None
    ) -> dict[str, Any] | None:
        del inputs, mode, logger
        import duckdb

        params: Params = self.params
        with opened(params, context.work_dir, lambda: context.cancelled) as engine:
            (table,) = open_tables(engine, params)
            check_columns(params, table)
            check_keys(engine, table, params.keys)
            file = database_file(context, params.connection.file(), may_be_new=True)
            try:
                engine.do(f"ATTACH {literal(file)} AS {_DATABASE}")
            except duckdb.Error as problem:
                raise LoadFailed(f"the database cannot be opened to write: {reason(problem)}") from None
            rows, columns = _load(engine, params, table, context)
        return report_load(context, params, table, rows, columns)


def _load(engine: Engine, params: Params, table: Table, context: WorkerContext) -> tuple[int, dict[str, str]]:
    import duckdb

    target, sent = f"{_DATABASE}.main.{name(params.table)}", list[str]()

    def do(sql: str) -> None:
        sent.append(sql)
        engine.do(sql)

    existing = _columns(engine, params.table)
    if existing is None:
        raise LoadRefused(f"`{params.table}` is a view, not a table; name a table")
    creates = params.creates(bool(existing))
    columns = {c.name: params.column_types.get(c.name, c.type) for c in table.columns} if creates else existing
    selected = [_value(engine, params.table, table, column, columns) for column in table.columns]
    if params.mode == "upsert" and not creates:
        check_unique(f"`{params.table}`", params.keys, _unique(engine, params.table))
    names = ", ".join(name(column.name) for column in table.columns)
    insert = f"INSERT INTO {target} ({names}) SELECT {', '.join(selected)} FROM {table.relation} ORDER BY {ROW}"
    if params.mode == "upsert":
        insert += _on_conflict(params, table)
    try:
        engine.do("BEGIN")
        if creates and existing:
            do(f"DROP TABLE {target}")
        if creates:
            declared = [f"{name(column)} {type_}" for column, type_ in columns.items()]
            if params.keys:
                declared.append(f"PRIMARY KEY ({', '.join(map(name, params.keys))})")
            do(f"CREATE TABLE {target} ({', '.join(declared)})")
        elif params.mode == "truncate":
            do(f"DELETE FROM {target}")
        sent.append(insert)
        (rows,) = engine.row(insert)
        engine.do("COMMIT")
    except duckdb.Error as problem:
        engine.do("ROLLBACK")
        raise LoadFailed(f"`{params.table}` was not loaded, and nothing was changed: {reason(problem)}") from None
    finally:
        keep_sql(context, ";\n".join(sent))
    return int(rows), _columns(engine, params.table) or {}


def _columns(engine: Engine, table: str) -> dict[str, str] | None:
    """The columns of the table; empty if there is none, None for a view."""
    where = f"WHERE database_name = '{_DATABASE}' AND schema_name = 'main'"
    (views,) = engine.row(f"SELECT count(*) FROM duckdb_views() {where} AND lower(view_name) = lower(?)", [table])
    if views:
        return None
    rows = engine.rows(
        f"SELECT column_name, data_type FROM duckdb_columns() {where} AND lower(table_name) = lower(?) "
        "ORDER BY column_index",
        [table],
    )
    return {str(column): str(type_) for column, type_ in rows}


def _unique(engine: Engine, table: str) -> list[list[str]]:
    rows = engine.rows(
        f"SELECT constraint_column_names FROM duckdb_constraints() WHERE database_name = '{_DATABASE}' "
        "AND lower(table_name) = lower(?) AND constraint_type IN ('PRIMARY KEY', 'UNIQUE')",
        [table],
    )
    indexes = engine.rows(
        f"SELECT expressions FROM duckdb_indexes() WHERE database_name = '{_DATABASE}' "
        "AND lower(table_name) = lower(?) AND is_unique",
        [table],
    )
    listed_columns = [[part.strip(" '\"") for part in str(text).strip("[]").split(",")] for (text,) in indexes]
    return [*(list(columns) for (columns,) in rows), *listed_columns]


def _value(engine: Engine, shown: str, table: Table, column: Column, targets: Mapping[str, str]) -> str:
    """SQL of the column for its target. Raises if a value would change."""
    by_name = {target.casefold(): type_ for target, type_ in targets.items()}
    type_ = by_name.get(column.name.casefold())
    value = name(column.name)
    if type_ is None:
        hint = did_you_mean(column.name, list(targets)) or f"it has {listed(targets)}"
        raise LoadRefused(f"`{shown}` does not fit `data`: it has no column `{column.name}` ({hint})")
    if type_ == column.type:
        return value
    if not _is_converted(column.kind, kind_of(type_)):
        raise LoadRefused(
            f"`{shown}` does not fit `data`: `{column.name}` is {type_} in the table and {column.type} in `data`; "
            "declare the type with `types`"
        )
    cast = f"TRY_CAST({value} AS {type_})"
    lossy = f"{value} IS NOT NULL AND ({cast} IS NULL OR TRY_CAST({cast} AS {column.type}) IS DISTINCT FROM {value})"
    lost, example = engine.row(f"SELECT count(*), min(CAST({value} AS VARCHAR)) FROM {table.relation} WHERE {lossy}")
    if lost:
        raise ValueNotConvertible(
            f"{counted(lost, 'value')} of `{column.name}` would change as {type_}: `{example}`; "
            "round it first, or change the table; nothing was changed"
        )
    return f"CAST({value} AS {type_})"


def _is_converted(kind: str, target: str) -> bool:
    """Numbers and texts are not converted into each other: `7` for `007` is another value."""
    numeric = [each in _NUMBERS or each.startswith("decimal") for each in (kind, target)]
    times = [each == "date" or each.startswith("timestamp") for each in (kind, target)]
    texts = kind == "text" and target in ("uuid", "json")
    return kind == target or all(numeric) or all(times) or texts


def _on_conflict(params: Params, table: Table) -> str:
    others = [name(column) for column in table.names if column not in params.keys]
    updates = ", ".join(f"{other} = EXCLUDED.{other}" for other in others)
    return f" ON CONFLICT ({', '.join(map(name, params.keys))}) DO {f'UPDATE SET {updates}' if others else 'NOTHING'}"
