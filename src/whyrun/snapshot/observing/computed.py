"""Inputs at computed paths: one file for each combination of the input's loops, `Input:Network[asia]`."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, Protocol

from msgspec.structs import replace

from whyrun.errors import Diagnostic
from whyrun.graph.fingerprint import array_sha256
from whyrun.graph.inputs import Scope
from whyrun.graph.loops import loop_values
from whyrun.graph.ragged import Results, axis_at, rows_over, texts_of
from whyrun.graph.slots import values_of
from whyrun.graph.tables import JobTable
from whyrun.graph.template import inputs_in, inputs_of_loop
from whyrun.ids import Index
from whyrun.workflow.inputs import InputValue
from whyrun.workflow.model import ImportDecl, InputDecl, JobDecl, Place, Type, Workflow
from whyrun.workflow.nodes import Problems, kind_of_value, plain_value
from whyrun.workflow.values import MAX_INSTANCES, TOO_LONG, Keys, absent_value, value_problem
from whyrun.workflow.yaml_source import read_source, read_yaml

_LOOKED = "its `path:` computes it; with `required: false` it may be missing"


class Files(Protocol):
    """Observes files: `InputObserver.files`."""

    def __call__(self, ids: Sequence[str], decl: InputDecl, paths: Sequence[str], hint: str) -> list[InputValue | None]:
        """By path; None after a problem, which is reported. A missing file is absent if the input is not required."""


def computed_input(
    workflow: Workflow,
    decl: InputDecl,
    prefix: str,
    found: Mapping[str, InputValue],
    files: Files,
    problems: list[Diagnostic],
) -> InputValue | None:
    """None if it is not known; what is wrong with it is reported, here or where its loops are expanded."""
    if any(f"Input:{prefix}{name}" not in found for name in inputs_in([decl.path])):
        return None
    loops = known_loops(workflow, decl.loops, prefix, found)
    if loops is None:
        return None
    number = prod(map(len, loops.values()))  # at least as many as there are
    if number > MAX_INSTANCES:
        message = f"input `{decl.name}` has {number} files; the limit is {MAX_INSTANCES}"
        problems.append(decl.place.diagnostic("WRONG_TYPE", message, TOO_LONG))
        return None
    paths = _paths(decl, prefix, loops, found, problems)
    if paths is None:
        return None
    there = [(id_, path) for id_, path in paths if path]
    observed = iter(files([id_ for id_, _ in there], decl, [path for _, path in there], _LOOKED))
    items = [next(observed) if path else absent_value(decl.type) for _, path in paths]
    if any(item is None for item in items):
        return None
    return _nested(decl.type, {}, loops, iter([item for item in items if item is not None]))


def known_loops(
    workflow: Workflow, names: Sequence[str], prefix: str, found: Mapping[str, InputValue]
) -> dict[str, Sequence[Index]] | None:
    """The values of these loops over inputs, as `for:` names them: each behind those that it depends on. None if some
    are not known, which is reported where loops are expanded. In an import with loops, at the indices of the prefix."""
    loops: dict[str, Sequence[Index]] = {}
    if any(name not in workflow.loops for name in names):
        return None
    for name in names:
        decl = workflow.loops[name]
        decl = replace(decl, after=tuple(other for other in decl.after if not other.startswith("/")))
        problems: list[Diagnostic] = []
        if any(f"Input:{prefix}{used}" not in found for used in inputs_of_loop(decl)):
            return None
        loops[name] = loop_values(decl, prefix, found, problems, loops, Results())
        if problems:
            return None
    return loops


def indices_of_import(
    workflow: Workflow, imported: ImportDecl, prefix: str, found: Mapping[str, InputValue]
) -> list[dict[str, Index]]:
    """The indices of an import that runs for loops."""
    loops = known_loops(workflow, imported.loops, prefix, found)
    if loops is None:
        return []
    return [dict(zip(imported.loops, row, strict=True)) for row in rows_over(imported.loops, loops)]


def _paths(
    decl: InputDecl,
    prefix: str,
    loops: Mapping[str, Sequence[Index]],
    found: Mapping[str, InputValue],
    problems: list[Diagnostic],
) -> list[tuple[str, str]] | None:
    """(ID, path) of each file; an empty path is absent. None after a problem."""
    rows = rows_over(list(loops), loops)
    position = {name: {value: i for i, value in enumerate(values)} for name, values in loops.items()}
    scope = Scope(prefix, loops, position, {}, {}, found, problems)
    template = JobDecl(name=decl.name, place=decl.place, loops=decl.loops)
    table = JobTable(0, prefix + decl.name, template, rows, texts_of(rows), 0)
    before = len(problems)
    values = values_of(scope, table, decl.path, decl.place, "Input")
    if len(problems) > before:
        return None
    paths: list[tuple[str, str]] = []
    for text, value in zip(table.texts, values, strict=True):
        id_ = f"Input:{prefix}{decl.name}{text}"
        if value in (None, "") and not decl.required:
            paths.append((id_, ""))
        elif isinstance(value, str) and value and "\0" not in value:
            paths.append((id_, value))
        else:
            message = f"`{id_}`: its path is {'empty' if value in (None, '') else repr(value)}"
            hint = "with `required: false` a file without a path is absent" if value in (None, "") else None
            problems.append(decl.place.diagnostic("INPUT_TYPE", message, hint))
    return paths if len(problems) == before else None


def _nested(
    type_: Type, row: Mapping[str, Index], loops: Mapping[str, Sequence[Index]], items: Iterator[InputValue]
) -> InputValue:
    """The files as an array for each loop, whose values are its keys. `items`: in the order of the rows."""
    names = list(loops)
    if len(row) == len(names):
        return next(items)
    name = names[len(row)]
    axis = axis_at(name, row, loops)
    parts = [_nested(type_, {**row, name: value}, loops, items) for value in axis]
    keys = None if isinstance(axis, range) and axis.start == 0 else Keys(axis)
    depth = len(names) - len(row)
    return InputValue(
        Type(type_.base, depth), [part.value for part in parts], array_sha256(parts), tuple(parts), None, keys
    )


# --- sample sheets: a file as an array of JSON, one object a row. `.csv` and `.tsv` have a head and only texts --------


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
