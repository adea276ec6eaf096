"""Connections, as the actions get them: plain fields, whose names and types are checked before a server is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from whyrun.actions.builtin.movers.problems import ConnectionUnusable, without_password
from whyrun.actions.types import Connection
from whyrun.errors import did_you_mean

_TEXT: tuple[type, ...] = (str,)
_TEXT_OR_NUMBER: tuple[type, ...] = (str, int, float)  # what looks like a number in YAML may be a name or a password


class Server(Connection):
    """A connection to a server: its fields, and what each may hold."""

    family: ClassVar[str] = ""
    known: ClassVar[Mapping[str, tuple[type, ...]]] = {}
    required_fields: ClassVar[tuple[str, ...]] = ("user", "database")

    def checked(self) -> dict[str, Any]:
        """The fields that were given, or `ConnectionUnusable`. Values are not repeated: one may be a password."""
        for name, value in self.items():
            if name not in self.known:
                known = did_you_mean(name, list(self.known)) or "known: " + ", ".join(f"`{k}`" for k in self.known)
                raise ConnectionUnusable(f"a {self.family} connection has no field `{name}`; {known}")
            if value is not None and (isinstance(value, bool) or not isinstance(value, self.known[name])):
                raise ConnectionUnusable(f"`{name}` of the {self.family} connection is a {type(value).__name__}")
        for name in self.required_fields:
            if self.get(name) in (None, ""):
                raise ConnectionUnusable(f"the {self.family} connection lacks `{name}`")
        found = {name: value for name, value in self.items() if value is not None}
        for name in ("port", "connect_timeout"):
            if name in found:
                found[name] = self._number(name, found[name])
        return {name: value if name in ("port", "connect_timeout") else str(value) for name, value in found.items()}

    def _number(self, name: str, value: Any) -> int:
        try:  # `${PORT}` gives a text
            number = int(value)
        except ValueError:
            number = 0
        if not 0 < number < 65536:
            raise ConnectionUnusable(f"`{name}` of the {self.family} connection is no number from 1 to 65535")
        return number

    def place(self) -> str:
        """Where it leads, for messages: never with a password."""
        where = self.get("socket") or f"{self.get('host', 'localhost')}:{self.get('port', self.default_port)}"
        return f"{self.family} at {where}, database `{self.get('database')}`, user `{self.get('user')}`"

    def unreached(self, why: str) -> str:
        return f"no connection to {self.place()}: {without_password(why, self)}"

    default_port: ClassVar[int] = 0


class MySqlConnection(Server):
    family = "MySQL"
    families = ("mysql", "mariadb")
    default_port = 3306
    known: ClassVar[Mapping[str, tuple[type, ...]]] = {
        "host": _TEXT,
        "port": (int, str),
        "socket": _TEXT,
        "user": _TEXT_OR_NUMBER,
        "password": _TEXT_OR_NUMBER,
        "database": _TEXT_OR_NUMBER,
        "ssl_ca": _TEXT,
        "connect_timeout": (int, str),
    }


class PostgresConnection(Server):
    family = "PostgreSQL"
    families = ("postgres", "postgresql")
    default_port = 5432
    known: ClassVar[Mapping[str, tuple[type, ...]]] = {
        "host": _TEXT,  # a folder: the one with the server's socket
        "port": (int, str),
        "user": _TEXT_OR_NUMBER,
        "password": _TEXT_OR_NUMBER,
        "database": _TEXT_OR_NUMBER,
        "sslmode": _TEXT,
        "sslrootcert": _TEXT,
        "connect_timeout": (int, str),
    }


class DuckDbConnection(Connection):
    """A database file."""

    secret_fields: ClassVar[tuple[str, ...]] = ()
    required_fields: ClassVar[tuple[str, ...]] = ("path",)
    families = ("duckdb",)

    def file(self) -> str:
        for name in self:
            if name != "path":
                raise ConnectionUnusable(f"a DuckDB connection has no field `{name}`; it has `path`, and nothing else")
        path = self.get("path")
        if not isinstance(path, str) or not path:
            raise ConnectionUnusable("the DuckDB connection lacks `path`: the database file")
        return path
