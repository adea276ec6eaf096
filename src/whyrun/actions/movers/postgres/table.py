"""Looks up a table in PostgreSQL's catalogue. Also the errors of loading a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from whyrun.actions.data.problems import DataError
from whyrun.actions.movers.postgres.client import literal, quoted
from whyrun.actions.movers.postgres.conversions import TableColumn

_KINDS = {"v": "a view", "m": "a materialized view", "f": "a foreign table", "S": "a sequence", "i": "an index"}


class LoadRefused(DataError):
    """The table does not exist, exists already, or does not fit the data; nothing was written."""


class LoadFailed(DataError):
    """The server refused the rows; nothing was written."""


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
