"""A table of PostgreSQL, as its catalogue tells it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from whyrun.actions.builtin.movers.postgres import literal, quoted
from whyrun.actions.builtin.movers.postgres_carriers import Target
from whyrun.actions.builtin.movers.problems import LoadRefused

_KINDS = {"v": "a view", "m": "a materialized view", "f": "a foreign table", "S": "a sequence", "i": "an index"}


@dataclass(frozen=True, slots=True)
class Destination:
    schema: str
    table: str
    kind_letter: str
    columns: tuple[Target, ...]

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
    """A name; there may be a table of that name or not."""

    schema: str | None
    table: str

    @property
    def shown(self) -> str:
        return f"`{self.table}`" if self.schema is None else f"`{self.schema}.{self.table}`"

    def found(self, cursor: Any) -> Destination | None:
        """Without a schema: the one that a query would find, but never a temporary table."""
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
        return Destination(schema, self.table, kind, tuple(Target(*row) for row in cursor.fetchall()))

    def new_schema(self, cursor: Any) -> str:
        """Where a table of this name would be made."""
        if self.schema is not None:
            return self.schema
        cursor.execute("SELECT current_schema()::text")
        ((schema,),) = cursor.fetchall()
        if schema is None:
            raise LoadRefused(f"there is no schema for {self.shown} in the user's search path; write `schema:`")
        return str(schema)
