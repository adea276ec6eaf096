"""Typed parameters of an action: `class Params(Parameters)` inside it, checked before anything runs.

class Params(Parameters):
    data: File
    algorithm: Literal["pc", "hc"] = "pc"
    alpha: Annotated[float, Meta(gt=0, lt=1)] = 0.05
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from pathlib import Path, PosixPath
from typing import Any

import msgspec
from msgspec import Meta

from whyrun.actions.base import TextFile
from whyrun.actions.problem import Bound, Problem, missing_parameter, unknown_parameter
from whyrun.actions.types import accepts, type_text

__all__ = [
    "Directory",
    "File",
    "FileOrDirectory",
    "Files",
    "InvalidParameter",
    "Meta",
    "Parameters",
    "check_values",
    "converted",
]

_LONGEST = 60  # characters of a value in a message


class _ByKeyword(msgspec.StructMeta):
    """msgspec does not inherit `kw_only`: without it, a required field could not follow one with a default."""

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **settings: Any) -> _ByKeyword:
        return super().__new__(mcls, name, bases, namespace, **{"kw_only": True, **settings})


class Parameters(msgspec.Struct, metaclass=_ByKeyword, forbid_unknown_fields=True):
    """The base of `Params`: fields by keyword, and none beyond the declared ones."""


class File(PosixPath):
    """A parameter that is a file, bound to an input or artifact. The action receives its path."""


class Directory(PosixPath):
    """A parameter that is a folder, bound to an input or artifact. The action receives its path."""


class FileOrDirectory(PosixPath):
    """A parameter that is either, bound to an input or artifact."""


class Files(tuple[File, ...]):
    """A parameter that is one file or a list of them, each bound. The action receives a tuple of paths."""

    as_list: bool = False  # whether a list was bound, be it of one


class InvalidParameter(Exception):
    """A value that came with the run does not fit the parameter."""


@lru_cache(maxsize=1024)
def fields_of(params: type[Parameters]) -> dict[str, msgspec.structs.FieldInfo]:
    return {field.encode_name: field for field in msgspec.structs.fields(params)}


def defaults_of(params: type[Parameters]) -> dict[str, Any]:
    found = {}
    for name, field in fields_of(params).items():
        if field.default is not msgspec.NODEFAULT:
            found[name] = field.default
        elif field.default_factory is not msgspec.NODEFAULT:
            found[name] = field.default_factory()
    return found


# --- before the run ----------------------------------------------------------------------------------------------


def check_values(params: type[Parameters], given: Mapping[str, Any], what: str) -> list[Problem]:
    """Everything about these entries that does not fit: not only the first. Entries that are `Bound` are known by type
    only; what they hold is checked when the step starts."""
    fields = fields_of(params)
    problems = [missing_parameter(what, name) for name, field in fields.items() if field.required and name not in given]
    for name, value in given.items():
        if name not in fields:
            problems.append(unknown_parameter(what, name, list(fields)))
            continue
        problem = _misfit(name, fields[name].type, value)
        if problem is not None:
            problems.append(problem)
    if not problems and not any(isinstance(value, Bound) for value in given.values()):
        problems += _whole_block(params, given)
    return problems


def _misfit(name: str, type_: Any, value: Any) -> Problem | None:
    wanted = type_text(type_)
    if isinstance(value, Bound):
        if value.type is None or accepts(type_, value.type):
            return None
        message = f"`{name}` is bound to something of type `{value.type}`; it takes {wanted}"
        return Problem(name, message, "bind something else", brief=("invalid", f"{name}={value.type}"))
    try:
        msgspec.convert(value, type_, dec_hook=_literal_hook)
    except msgspec.ValidationError as problem:
        shown = shown_value(value)
        brief = ("invalid", f"{name}={shown}")
        if isinstance(problem.__cause__, _NotBound):
            message = f"`{name}` is {shown} as written, where content is due; it takes {wanted}"
            kind = "directory" if "directory" in wanted else "file"
            hint = f"declare an input of type `{kind}` and write `{name}: ${{{{ inputs.Name }}}}`: its content counts"
            return Problem(name, message, hint, brief=brief)
        where = _inner_place(str(problem))
        # A place inside, or what a `__post_init__` says: more than that the type is wrong.
        detail = f" ({_reason(str(problem))}{where})" if where or problem.__cause__ is not None else ""
        message = f"`{name}` is {shown}{detail}; it takes {wanted}"
        return Problem(name, message, f"correct `{name}:`", brief=brief)
    return None


def _whole_block(params: type[Parameters], given: Mapping[str, Any]) -> list[Problem]:
    """What a `__post_init__` of the user's says of values that fit one by one."""
    try:
        msgspec.convert(dict(given), params, dec_hook=_literal_hook)
    except msgspec.ValidationError as problem:
        return [Problem(None, _reason(str(problem)), "see `whyrun actions` for what it takes")]
    return []


class _NotBound(ValueError):
    """A path written down where content is due: nobody would notice when the file changes."""


def _literal_hook(type_: type, value: Any) -> Any:
    if issubclass(type_, Path | Files):
        if type_ in (File, Directory, FileOrDirectory, Files):
            raise _NotBound("a file or folder is bound, not written down")
        if isinstance(value, str) and issubclass(type_, Path):
            return type_(value)
    raise TypeError(f"{shown_value(value)} is no {type_.__name__}")


# --- in the worker -----------------------------------------------------------------------------------------------


def converted(params: type[Parameters], given: Mapping[str, Any], uses: str, *, made: bool = True) -> Parameters:
    """The block as the action declares it, or `InvalidParameter` with everything that does not fit.

    `made`: the files are there; before a run, some are still to be made.
    """
    fields = fields_of(params)
    what = f"the action `{uses}`"
    problems = [missing_parameter(what, name) for name, field in fields.items() if field.required and name not in given]
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in fields:
            problems.append(unknown_parameter(what, name, list(fields)))
            continue
        type_ = fields[name].type
        try:
            values[fields[name].name] = msgspec.convert(
                _readable(value, type_), type_, dec_hook=_hook if made else _path_hook
            )
        except msgspec.ValidationError as problem:
            shown = shown_value(value)
            message = f"`{name}` is {shown}: {_reason(str(problem))}{_inner_place(str(problem))}"
            problems.append(Problem(name, f"{message}; it takes {type_text(type_)}"))
    if not problems:
        try:
            return params(**values)
        except (ValueError, TypeError) as problem:  # what a `__post_init__` says
            problems.append(Problem(None, str(problem)))
    raise InvalidParameter("; ".join(problem.message for problem in problems))


def _readable(value: Any, type_: Any) -> Any:
    """A text file as its content where `str` is asked for, else as its path."""
    if isinstance(value, TextFile):
        return value.path.read_text(encoding="utf-8") if accepts(type_, "string") else value.path
    if isinstance(value, list):
        return [item.path if isinstance(item, TextFile) else item for item in value]
    return value


def _hook(type_: type, value: Any) -> Any:
    found = _path_hook(type_, value)
    if type_ is Files and not all(path.is_file() for path in found):
        raise ValueError("there is no such file")
    if type_ is File and not found.is_file():
        raise ValueError("there is no such file")
    if type_ is Directory and not found.is_dir():
        raise ValueError("there is no such folder")
    return found


def _path_hook(type_: type, value: Any) -> Any:
    if issubclass(type_, Path) and isinstance(value, str | Path):
        return type_(value)
    if type_ is Files:
        members = value if isinstance(value, list) else [value]
        if all(isinstance(member, str | Path) for member in members):
            files = Files(File(member) for member in members)
            files.as_list = isinstance(value, list)
            return files
    raise TypeError(f"{shown_value(value)} is no {type_.__name__}")


# --- words -------------------------------------------------------------------------------------------------------


def shown_value(value: Any) -> str:
    """As it would be written in a workflow, cut where it is long."""
    if isinstance(value, TextFile | Path):
        text = Path(value.path if isinstance(value, TextFile) else value).name
    elif isinstance(value, Enum):
        text = str(value.value)
    else:
        try:
            text = json.dumps(msgspec.to_builtins(value, enc_hook=str), ensure_ascii=False)
        except (TypeError, ValueError):
            text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _reason(message: str) -> str:
    """msgspec's words without its place: `Expected `int`, got `str` - at `$[2]``."""
    return message.partition(" - at `$")[0]


def _inner_place(message: str) -> str:
    _, _, place = message.partition(" - at `$")
    return f" at `{place.rstrip('`')}`" if place.rstrip("`") else ""
