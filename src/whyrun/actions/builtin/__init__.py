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


DATA = Extra("data", ("duckdb", "pyarrow", "pyreadstat", "openpyxl"))


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
}
