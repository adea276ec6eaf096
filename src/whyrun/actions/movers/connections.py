"""Connections to servers and database files: checks the fields before connecting, and describes failed connections.

Messages never contain a password.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from whyrun.actions.data.params import DataError
from whyrun.actions.types import Connection
from whyrun.errors import did_you_mean

_TEXT: tuple[type, ...] = (str,)
_TEXT_OR_NUMBER: tuple[type, ...] = (str, int, float)  # a name or password may look like a number in YAML
_HIDDEN = "***"


class ConnectionUnusable(DataError):
    """A connection has unknown fields or invalid values."""


class ConnectionFailed(DataError):
    """The server does not answer or refuses the connection."""


def without_password(text: str, connection: Mapping[str, Any]) -> str:
    """The worker redacts messages, too, but only secrets that are long enough; here any password is removed."""
    password = connection.get("password")
    if password is None or str(password) == "":
        return text
    return text.replace(str(password), _HIDDEN)


def sqlstate_suffix(sqlstate: str | None) -> str:
    return f" (SQLSTATE {sqlstate})" if sqlstate else ""


class Server(Connection):
    """A connection to a server, with its known fields and their types."""

    family: ClassVar[str] = ""
    known: ClassVar[Mapping[str, tuple[type, ...]]] = {}
    required_fields: ClassVar[tuple[str, ...]] = ("user", "database")

    def checked(self) -> dict[str, Any]:
        """The fields that have values. Raises `ConnectionUnusable`, without showing values: one may be a password."""
        for name, value in self.items():
            if name not in self.known:
                known = did_you_mean(name, list(self.known)) or "known: " + ", ".join(f"`{k}`" for k in self.known)
                raise ConnectionUnusable(f"a {self.family} connection has no field `{name}`; {known}")
            if value is not None and (isinstance(value, bool) or not isinstance(value, self.known[name])):
                raise ConnectionUnusable(f"`{name}` of the {self.family} connection is a {type(value).__name__}")
        for name in self.required_fields:
            if self.get(name) in (None, ""):
                raise ConnectionUnusable(f"the {self.family} connection lacks `{name}`")
        fields = {name: value for name, value in self.items() if value is not None}
        for name in ("port", "connect_timeout"):
            if name in fields:
                fields[name] = self._number(name, fields[name])
        return {name: value if name in ("port", "connect_timeout") else str(value) for name, value in fields.items()}

    def _number(self, name: str, value: Any) -> int:
        try:  # the value of `${PORT}` is a text
            number = int(value)
        except ValueError:
            number = 0
        if not 0 < number < 65536:
            raise ConnectionUnusable(f"`{name}` of the {self.family} connection is not a number from 1 to 65535")
        return number

    def address(self) -> str:
        """The server, database and user, for messages; never the password."""
        server = self.get("socket") or f"{self.get('host', 'localhost')}:{self.get('port', self.default_port)}"
        return f"{self.family} at {server}, database `{self.get('database')}`, user `{self.get('user')}`"

    def failure(self, why: str) -> str:
        return f"no connection to {self.address()}: {without_password(why, self)}"

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
        "host": _TEXT,  # may also be the folder of the server's socket
        "port": (int, str),
        "user": _TEXT_OR_NUMBER,
        "password": _TEXT_OR_NUMBER,
        "database": _TEXT_OR_NUMBER,
        "sslmode": _TEXT,
        "sslrootcert": _TEXT,
        "connect_timeout": (int, str),
    }


class DatabaseFile(Connection):
    """A connection to a database that is one file."""

    secret_fields: ClassVar[tuple[str, ...]] = ()
    required_fields: ClassVar[tuple[str, ...]] = ("path",)
    family: ClassVar[str] = ""

    def file(self) -> str:
        for name in self:
            if name != "path":
                raise ConnectionUnusable(f"a {self.family} connection has no field `{name}`; its only field is `path`")
        path = self.get("path")
        if not isinstance(path, str) or not path:
            raise ConnectionUnusable(f"the {self.family} connection lacks `path`: the database file")
        return path


class DuckDbConnection(DatabaseFile):
    family = "DuckDB"
    families = ("duckdb",)


class SqliteConnection(DatabaseFile):
    family = "SQLite"
    families = ("sqlite",)
