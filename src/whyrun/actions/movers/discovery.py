"""What a database has: its tables, and the columns of one. For `whyrun connections discover`.

Only the catalogue is read; nothing is counted. A number of rows is what the catalogue believes, and None if it does not
say.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whyrun.actions.movers.connections import (
    DuckDbConnection,
    MySqlConnection,
    PostgresConnection,
    SqliteConnection,
)


@dataclass(frozen=True, slots=True)
class FoundTable:
    schema: str | None
    name: str
    kind: str  # table or view
    rows: int | None  # as the catalogue estimates them


@dataclass(frozen=True, slots=True)
class FoundColumn:
    name: str
    type: str
    nullable: bool
    key: bool  # part of the primary key


Query = Callable[[str], list[tuple[Any, ...]]]
_TABLES = {
    "mysql": "SELECT table_schema, table_name, CASE table_type WHEN 'VIEW' THEN 'view' ELSE 'table' END, table_rows "
    "FROM information_schema.tables WHERE table_schema = DATABASE() ORDER BY 2",
    "postgres": "SELECT n.nspname::text, c.relname::text, CASE WHEN c.relkind IN ('v', 'm') THEN 'view' ELSE 'table' "
    "END, CASE WHEN c.reltuples >= 0 AND c.relkind IN ('r', 'm') THEN c.reltuples::int8 END "
    "FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
    "WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT IN ('pg_catalog', 'information_schema') "
    "AND n.nspname NOT LIKE 'pg\\_%' ORDER BY 1, 2",
    "duckdb": "SELECT schema_name, table_name, 'table', estimated_size FROM duckdb_tables() UNION ALL "
    "SELECT schema_name, view_name, 'view', NULL FROM duckdb_views() WHERE NOT internal ORDER BY 1, 2",
    "sqlite": "SELECT NULL, name, type, NULL FROM sqlite_master WHERE type IN ('table', 'view') "
    "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY 2",
}
_COLUMNS = {
    "mysql": "SELECT column_name, column_type, is_nullable = 'YES', column_key = 'PRI' FROM information_schema.columns "
    "WHERE table_schema = DATABASE() AND table_name = {} ORDER BY ordinal_position",
    "postgres": "SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), NOT a.attnotnull, EXISTS (SELECT 1 FROM "
    "pg_catalog.pg_index i WHERE i.indrelid = a.attrelid AND i.indisprimary AND a.attnum = ANY (i.indkey)) "
    "FROM pg_catalog.pg_attribute a WHERE a.attrelid = to_regclass(quote_ident({})) AND a.attnum > 0 "
    "AND NOT a.attisdropped ORDER BY a.attnum",
    "duckdb": "SELECT c.column_name, c.data_type, c.is_nullable, coalesce(list_contains((SELECT "
    "constraint_column_names FROM duckdb_constraints() k WHERE k.table_oid = c.table_oid AND constraint_type = "
    "'PRIMARY KEY'), c.column_name), false) FROM duckdb_columns() c WHERE c.table_name = {} AND NOT c.internal "
    "ORDER BY c.column_index",
    "sqlite": 'SELECT name, type, "notnull" = 0, pk > 0 FROM pragma_table_info({}) ORDER BY cid',
}
FAMILIES = {"mysql": "mysql", "mariadb": "mysql", "postgres": "postgres", "postgresql": "postgres",
            "duckdb": "duckdb", "sqlite": "sqlite"}  # fmt: skip


def tables_of(family: str, fields: Mapping[str, Any], project: Path) -> list[FoundTable]:
    def tables(query: Query) -> list[FoundTable]:
        return [
            FoundTable(
                None if schema is None else str(schema), str(name), str(kind), None if rows is None else int(rows)
            )
            for schema, name, kind, rows in query(_TABLES[FAMILIES[family]])
        ]

    return _asked(family, fields, project, tables)


def columns_of(family: str, fields: Mapping[str, Any], project: Path, table: str) -> list[FoundColumn]:
    """Empty if there is no such table. The name may have any characters."""
    escaped = table.replace("'", "''")
    if FAMILIES[family] == "mysql":
        escaped = escaped.replace("\\", "\\\\")
    sql = _COLUMNS[FAMILIES[family]].format(f"'{escaped}'")

    def columns(query: Query) -> list[FoundColumn]:
        return [FoundColumn(str(name), str(type_), bool(null), bool(key)) for name, type_, null, key in query(sql)]

    return _asked(family, fields, project, columns)


def _asked(family: str, fields: Mapping[str, Any], project: Path, ask: Callable[[Query], list[Any]]) -> list[Any]:
    match FAMILIES[family]:
        case "mysql":
            from whyrun.actions.movers import mysql_extract

            with mysql_extract.connected(MySqlConnection(fields)) as session, session.cursor() as cursor:

                def on_server(sql: str) -> list[tuple[Any, ...]]:
                    cursor.execute(sql)
                    return [_numbers(row) for row in cursor.fetchall()]

                return ask(on_server)
        case "postgres":
            from whyrun.actions.movers.postgres.client import connected

            with connected(PostgresConnection(fields), read_only=True) as cursor:

                def of_catalogue(sql: str) -> list[tuple[Any, ...]]:
                    cursor.execute(sql)
                    return list(cursor.fetchall())

                return ask(of_catalogue)
        case "duckdb":
            import duckdb

            with duckdb.connect(str(project / DuckDbConnection(fields).file()), read_only=True) as database:
                return ask(lambda sql: database.execute(sql).fetchall())
    path = project / SqliteConnection(fields).file()
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as source:
        return ask(lambda sql: source.execute(sql).fetchall())


def _numbers(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """The session of an extract gives every value as a text."""
    return tuple(int(value) if isinstance(value, str) and value.isdigit() else value for value in row)
