"""`whyrun connections discover @family.alias [TABLE]`: the tables of a database, or the columns of one."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whyrun.cli.output import columns, print_json, print_lines, print_note
from whyrun.errors import error, to_install

if TYPE_CHECKING:
    from whyrun.connections.resolve import Connections, WrittenConnection

# Family, fields and the driver's exception → what the error means; None: unknown.
ErrorText = Callable[[str, Mapping[str, Any], BaseException], str | None]


def discover(
    connections: Connections, words: Sequence[str], project: Path, error_text: ErrorText, *, as_json: bool
) -> None:
    from whyrun.actions.base import SECRET_FIELDS
    from whyrun.actions.movers.discovery import FAMILIES, columns_of, tables_of
    from whyrun.cli.commands.connections import chosen
    from whyrun.connections.redact import Redactor
    from whyrun.connections.resolve import ready

    usage = "write `whyrun connections discover @family.alias [TABLE]`"
    if not 1 <= len(words) <= 2:
        raise error("USAGE", "`discover` takes one connection, and a table", hint=usage)
    found = chosen(connections, words[:1])
    if len(found) != 1:
        raise error("USAGE", f"`{words[0]}` stands for {len(found)} connections", hint=usage)
    (connection,) = found
    if connection.family not in FAMILIES:
        known = ", ".join(f"`{name}`" for name in FAMILIES)
        raise error("USAGE", f"connections of the family `{connection.family}` are not known", hint=f"known: {known}")
    given = ready(connection, SECRET_FIELDS, os.environ)
    if given.missing:
        names = ", ".join(f"`{name}`" for name in dict.fromkeys(given.missing))
        raise error("SECRET_MISSING", f"not in the environment: {names}", hint="set them, then call it again")
    table = words[1] if len(words) == 2 else None
    try:
        if table is None:
            _tables(connection, tables_of(connection.family, given.real(), project), as_json=as_json)
        else:
            found_columns = columns_of(connection.family, given.real(), project, table)
            _columns(connection, table, found_columns, as_json=as_json)
    except ImportError as missing:
        raise error("USAGE", f"it needs `{missing.name}`", hint=to_install("db")) from None
    except _driver_errors() as problem:
        text = error_text(connection.family, given.real(), problem) or " ".join(str(problem).split())
        shown = Redactor(given.secrets).text(text)
        hint = f"`whyrun connections test {connection.reference}` tests the connection"
        raise error("CONNECTION_INVALID", f"{connection.reference}: {shown}", hint=hint) from None


def _driver_errors() -> tuple[type[Exception], ...]:
    """The exceptions of the drivers that are installed, and of our own checks."""
    import sqlite3
    from importlib.util import find_spec

    from whyrun.actions.data.params import DataError

    found: list[type[Exception]] = [DataError, sqlite3.Error, OSError]
    if find_spec("duckdb") is not None:
        import duckdb

        found.append(duckdb.Error)
    if find_spec("pymysql") is not None:
        import pymysql

        found.append(pymysql.MySQLError)
    if find_spec("adbc_driver_manager") is not None:
        import adbc_driver_manager

        found.append(adbc_driver_manager.Error)
    return tuple(found)


def _tables(connection: WrittenConnection, found: Sequence[Any], *, as_json: bool) -> None:
    if as_json:
        print_json({"connection": connection.reference, "tables": [asdict(one) for one in found]})
        return
    rows = [
        (".".join(filter(None, (one.schema, one.name))), one.kind, "" if one.rows is None else f"~{one.rows:,} rows")
        for one in found
    ]
    print_lines(columns(rows, 0))
    if not rows:
        print_note(f"{connection.reference} has no tables")


def _columns(connection: WrittenConnection, table: str, found: Sequence[Any], *, as_json: bool) -> None:
    if not found:
        hint = f"`whyrun connections discover {connection.reference}` lists the tables"
        raise error("USAGE", f"{connection.reference} has no table `{table}`", hint=hint)
    if as_json:
        described = [asdict(one) for one in found]
        print_json({"connection": connection.reference, "table": table, "columns": described})
        return
    rows = [(one.name, one.type, "" if one.nullable else "not null", "key" if one.key else "") for one in found]
    print_lines(columns(rows, 0))
