"""The table of built-in actions. An action is imported only when a workflow uses it.

In: a name. Out: its version, module, summary and the packages it needs. The version is part of the fingerprint. It
changes only when an action gives other results for the same parameters, so an upgrade of Whyrun re-runs nothing.
Start with `file_copy.py`, the smallest action; `python.py` and `shell.py` are here too, the others in `data/`,
`movers/` and `http/`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import msgspec


class Extra(msgspec.Struct, frozen=True):
    """An extra of the distribution, and the packages it installs."""

    name: str
    packages: tuple[str, ...]
    always: tuple[str, ...] = ("duckdb",)  # those of them that every action imports

    def missing(self) -> list[str]:
        from importlib.util import find_spec

        return [package for package in self.packages if find_spec(package) is None]


# Actions that save what they execute in the step's folder, as `script.sh` or `query.sql`.
SAVES_SCRIPT = frozenset(
    {
        "shell",
        "mysql/extract",
        "postgres/extract",
        "postgres/load",
        "duckdb/query",
        "duckdb/load",
        "sqlite/extract",
        "sqlite/load",
    }
)

# Actions that change something outside the project. An earlier result is not valid after a later, different execution.
EFFECTFUL = frozenset({"postgres/load", "duckdb/load", "sqlite/load"})

DATA = Extra("data", ("duckdb", "pyarrow", "pyreadstat", "openpyxl"))
# Only the packages that an action needs: MySQL works without the driver of PostgreSQL.
_MYSQL = Extra("db", ("duckdb", "pyarrow", "pymysql"), ("duckdb", "pyarrow"))
_POSTGRES = Extra("db", ("duckdb", "pyarrow", "adbc_driver_postgresql"), ("duckdb", "pyarrow"))


class Builtin(msgspec.Struct, frozen=True):
    """`target`: a module below `whyrun.actions`, or `module:Class` of an `Action` subclass.

    A class declares its parameters, outputs and example itself. A module has `run(parameters, context, logger)` and its
    own check, because its parameters depend on the job; this table describes them.
    """

    version: str
    target: str
    summary: str
    parameters: tuple[tuple[str, str, str], ...] = ()  # of a module: (name, type, description)
    example: str = ""  # of a module
    extra: Extra | None = None  # the extra that must be installed

    @property
    def is_class(self) -> bool:
        return ":" in self.target

    def load(self) -> Any:
        """The module or class. It is our own code, so the host may import it, too."""
        name, _, attribute = self.target.partition(":")
        module = import_module(f"whyrun.actions.{name}")
        return getattr(module, attribute) if attribute else module


_PYTHON = """\
jobs:
  Script:
    uses: python
    with: {call: "story:write", topic: cinema}
    outputs: {Story: {type: json}}
"""
_SHELL = """\
jobs:
  Count:
    uses: shell
    with: {run: 'wc -l < "$text" > "$out_Lines"', text: "${{ inputs.Text }}"}
    outputs: {Lines: {type: text}}
"""

BUILTIN: dict[str, Builtin] = {
    "python": Builtin(
        "1",
        "builtin.python",
        "Call a function of the project, or run a script of it.",
        (
            ("call", 'a text, "module:function"', "imported from the project folder and called with the other entries"),
            ("script", "a path", "a file of the project, run instead of a function"),
            ("…", "any value", "parameters of the function, or `inputs` of the script"),
        ),
        _PYTHON,
    ),
    "shell": Builtin(
        "1",
        "builtin.shell",
        "Run a script; values arrive as shell variables, outputs are written to `$out_NAME`.",
        (
            ("run", "a text", "the script, without `${{ }}`"),
            ("shell", "a text", "the interpreter instead of bash with `set -euo pipefail`"),
            ("…", "any value", "a shell variable of that name; a list is an array"),
        ),
        _SHELL,
    ),
    "file/copy": Builtin("1", "builtin.file_copy:FileCopy", "Copy a file or a directory to the job's one output."),
    "http/json": Builtin(
        "1", "http.http_json:HttpJson", "Ask a web service for JSON, with retries; or submit a request once and poll."
    ),
    "data/merge": Builtin(
        "2", "data.joining.merge:DataMerge", "Join datasets on keys, checked and counted.", extra=DATA
    ),
    "data/append": Builtin("1", "data.append:DataAppend", "Stack datasets that have the same columns.", extra=DATA),
    "data/aggregate": Builtin(
        "3", "data.aggregate:DataAggregate", "Stack or summarise the results of parallel steps.", extra=DATA
    ),
    "data/sql": Builtin("1", "data.sql:DataSql", "Answer one SQL query over datasets.", extra=DATA),
    "data/check": Builtin("1", "data.check:DataCheck", "Compute named diagnostics of datasets, as JSON.", extra=DATA),
    "csv/read": Builtin("1", "movers.csv_files:CsvRead", "Read CSV as a dataset whose columns have types.", extra=DATA),
    "csv/write": Builtin("1", "movers.csv_files:CsvWrite", "Write a dataset as CSV, in a chosen format.", extra=DATA),
    "parquet/read": Builtin(
        "1", "movers.parquet_files:ParquetRead", "Read Parquet as a dataset: all of it, or some columns.", extra=DATA
    ),
    "parquet/write": Builtin(
        "1", "movers.parquet_files:ParquetWrite", "Write a dataset as Parquet, sorted and compressed.", extra=DATA
    ),
    "duckdb/query": Builtin(
        "1", "movers.duckdb_query:DuckDbQuery", "Answer one SQL query over named files and a database file.", extra=DATA
    ),
    "duckdb/load": Builtin(
        "1",
        "movers.duckdb_load:DuckDbLoad",
        "Load a dataset into a table of a DuckDB file: all or nothing.",
        extra=DATA,
    ),
    "sqlite/extract": Builtin(
        "1", "movers.sqlite:SqliteExtract", "Read a query or a table of a SQLite file.", extra=DATA
    ),
    "sqlite/load": Builtin(
        "1", "movers.sqlite:SqliteLoad", "Load a dataset into a table of a SQLite file: all or nothing.", extra=DATA
    ),
    "mysql/extract": Builtin(
        "1", "movers.mysql_extract:MySqlExtract", "Read a query or a table of MySQL or MariaDB.", extra=_MYSQL
    ),
    "postgres/extract": Builtin(
        "1", "movers.postgres.extract:PostgresExtract", "Read a query or a table of PostgreSQL.", extra=_POSTGRES
    ),
    "postgres/load": Builtin(
        "1",
        "movers.postgres.load:PostgresLoad",
        "Load a dataset into a table of PostgreSQL: all or nothing.",
        extra=_POSTGRES,
    ),
}
