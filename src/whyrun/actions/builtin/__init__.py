"""The built-in actions, as data: nothing of them is imported until a workflow uses one.

The version belongs to the fingerprint. It changes only when an action would give other results for the same
parameters: it is not Whyrun's own, so an upgrade re-runs nothing by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any


@dataclass(frozen=True, slots=True)
class Extra:
    """An extra of the distribution, and the packages that it brings."""

    name: str
    packages: tuple[str, ...]

    def missing(self) -> list[str]:
        return [package for package in self.packages if find_spec(package) is None]


# Actions that put down what they really execute, for the step's folder: `script.sh`, or `query.sql`.
WRITTEN_DOWN = frozenset({"shell", "mysql/extract", "postgres/extract", "postgres/load", "duckdb/query"})

# What these do stands outside of the project: an earlier result of theirs says nothing once they did something else.
EFFECTFUL = frozenset({"postgres/load"})

DATA = Extra("data", ("duckdb", "pyarrow", "pyreadstat", "openpyxl"))
# Only what an action itself needs: whoever reads MySQL can do without the driver of PostgreSQL.
_MYSQL = Extra("db", ("duckdb", "pyarrow", "pymysql"))
_POSTGRES = Extra("db", ("duckdb", "pyarrow", "adbc_driver_postgresql"))


@dataclass(frozen=True, slots=True)
class Builtin:
    """`target` is the module below this package, or `module:Class` of an `Action` subclass.

    Of a class, parameters, outputs and the example are its own (`Params`, `outputs`, `example`). A module says them
    here, since its parameters depend on the job: it has `run(parameters, context, logger)`, and a check of its own.
    """

    version: str
    target: str
    summary: str
    parameters: tuple[tuple[str, str, str], ...] = ()  # (name, type, what it is), of a module
    example: str = ""  # of a module
    extra: Extra | None = None  # what must be installed beside Whyrun

    @property
    def is_class(self) -> bool:
        return ":" in self.target

    def load(self) -> Any:
        """The module or class. Ours, so the host may import it too."""
        name, _, attribute = self.target.partition(":")
        module = import_module(f"{__name__}.{name}")
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
        "python",
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
        "shell",
        "Run a script; values arrive as shell variables, outputs are written to `$out_NAME`.",
        (
            ("run", "a text", "the script, without `${{ }}`"),
            ("shell", "a text", "the interpreter instead of bash with `set -euo pipefail`"),
            ("…", "any value", "a shell variable of that name; a list is an array"),
        ),
        _SHELL,
    ),
    "file/copy": Builtin("1", "file_copy:FileCopy", "Copy a file or a directory to the job's one output."),
    "http/json": Builtin(
        "1", "http_json:HttpJson", "Ask a web service for JSON, with retries; or submit a request once and poll."
    ),
    "data/merge": Builtin("1", "data.merge:DataMerge", "Join datasets on keys, checked and counted.", extra=DATA),
    "data/append": Builtin("1", "data.append:DataAppend", "Stack datasets that have the same columns.", extra=DATA),
    "data/aggregate": Builtin(
        "1", "data.aggregate:DataAggregate", "Stack or summarise the results of parallel steps.", extra=DATA
    ),
    "data/sql": Builtin("1", "data.sql:DataSql", "Answer one SQL query over datasets.", extra=DATA),
    "data/check": Builtin("1", "data.check:DataCheck", "Compute named diagnostics of datasets, as JSON.", extra=DATA),
    "csv/read": Builtin("1", "movers.csv_files:CsvRead", "Read CSV as a dataset whose columns have types.", extra=DATA),
    "csv/write": Builtin("1", "movers.csv_files:CsvWrite", "Write a dataset as CSV, as others want it.", extra=DATA),
    "parquet/read": Builtin(
        "1", "movers.parquet_files:ParquetRead", "Read Parquet as a dataset: all of it, or some columns.", extra=DATA
    ),
    "parquet/write": Builtin(
        "1", "movers.parquet_files:ParquetWrite", "Write a dataset as Parquet, sorted and compressed.", extra=DATA
    ),
    "duckdb/query": Builtin(
        "1", "movers.duckdb_query:DuckDbQuery", "Answer one SQL query over named files and a database file.", extra=DATA
    ),
    "mysql/extract": Builtin(
        "1", "movers.mysql_extract:MySqlExtract", "Read a query or a table of MySQL or MariaDB.", extra=_MYSQL
    ),
    "postgres/extract": Builtin(
        "1", "movers.postgres_extract:PostgresExtract", "Read a query or a table of PostgreSQL.", extra=_POSTGRES
    ),
    "postgres/load": Builtin(
        "1",
        "movers.postgres_load:PostgresLoad",
        "Load a dataset into a table of PostgreSQL: all or nothing.",
        extra=_POSTGRES,
    ),
}
