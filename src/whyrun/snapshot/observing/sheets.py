"""Sample sheets: a file as an array of JSON, one object a row. `.csv` and `.tsv` have a head and only texts."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from whyrun.errors import Diagnostic
from whyrun.workflow.model import Place, Type
from whyrun.workflow.nodes import Problems, kind_of_value, plain_value
from whyrun.workflow.values import value_problem
from whyrun.workflow.yaml_source import read_source, read_yaml

_TEXT_HINT = "each row has one text for each column of the head; a text with a comma stands in quotes"


class _Unreadable(Exception):
    """Why the file is no sheet; `line` counts from 1."""

    def __init__(self, message: str, hint: str | None, line: int | None = None) -> None:
        super().__init__(message)
        self.message, self.hint, self.line = message, hint, line


def read_sheet(id_: str, file: Path, shown: str, place: Place) -> tuple[list[Any], list[Diagnostic]]:
    """The rows, and the problems of the file. `shown`: its path as the user knows it."""
    try:
        return _rows(file, shown), []
    except FileNotFoundError:
        hint = "looked in the project folder: that of `whyrun.toml`, else of the workflow file"
        return [], [place.diagnostic("INPUT_MISSING", f"`{id_}`: there is no file `{shown}`", hint)]
    except OSError as problem:
        return [], [place.diagnostic("FILE_MISSING", f"`{id_}`: `{shown}` cannot be read: {problem.strerror}")]
    except UnicodeDecodeError:
        return [], [
            Diagnostic("INPUT_TYPE", f"`{id_}`: the file is not UTF-8 text", file=shown, hint="save it as UTF-8")
        ]
    except _Unreadable as problem:
        message = f"`{id_}`: {problem.message}"
        return [], [Diagnostic("INPUT_TYPE", message, file=shown, line=problem.line, hint=problem.hint)]


def _rows(file: Path, shown: str) -> list[Any]:
    text = read_source(file).removeprefix("\ufeff")  # as spreadsheets write it
    kind = file.suffix.lower()
    if kind in (".csv", ".tsv"):
        return _table(text, "," if kind == ".csv" else "\t")
    rows = _json(text) if kind == ".json" else _yaml(text, shown)
    if not isinstance(rows, list):
        hint = 'write one object a row: `[{"id": "a"}, …]`' if kind == ".json" else "write `- {id: a}`, one a row"
        raise _Unreadable(f"it holds {kind_of_value(rows)}, not a list of objects", hint)
    problem = value_problem(Type("json", 1), rows)
    if problem is not None:
        raise _Unreadable(problem, None)
    return rows


def _table(text: str, delimiter: str) -> list[dict[str, str]]:
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        head = next(lines, None)
        if head is None:
            raise _Unreadable("it is empty: a head with the names of the columns is expected", "write `id,…` above", 1)
        _check_head(head)
        found = []
        for row in lines:
            if not row:
                continue  # an empty line
            if len(row) != len(head):
                raise _Unreadable(f"this row has {len(row)} texts for {len(head)} columns", _TEXT_HINT, lines.line_num)
            found.append(dict(zip(head, row, strict=True)))
        return found
    except csv.Error as problem:
        raise _Unreadable(f"it is no table: {problem}", _TEXT_HINT, lines.line_num) from None


def _check_head(head: Sequence[str]) -> None:
    if "" in head:
        raise _Unreadable(f"column {head.index('') + 1} has no name", "the first line names the columns", 1)
    twice = next((name for name in head if head.count(name) > 1), None)
    if twice is not None:
        raise _Unreadable(f"two columns are named `{twice}`", "rename one", 1)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as problem:
        raise _Unreadable(f"it is no JSON: {problem.msg}", None, problem.lineno) from None
    except RecursionError:
        raise _Unreadable("it is nested too deep", None) from None


def _yaml(text: str, shown: str) -> Any:
    problems = Problems()
    node = read_yaml(text, shown, problems)
    for problem in problems:
        raise _Unreadable(problem.message, problem.hint, problem.line)
    return None if node is None else plain_value(node)
