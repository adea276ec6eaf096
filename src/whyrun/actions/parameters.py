"""Typed parameters of an action: `class Params(Parameters)` inside it, checked before anything runs.

class Params(Parameters):
    data: File
    algorithm: Literal["pc", "hc"] = "pc"
    alpha: Annotated[float, Meta(gt=0, lt=1)] = 0.05
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import deepcopy
from functools import lru_cache, partial
from pathlib import Path, PosixPath
from typing import Any, ClassVar

import msgspec
from msgspec import Meta

from whyrun.actions.misfits import (
    NotBound,
    WrittenDown,
    holds_bound,
    misfits,
    readable,
    reason_of,
    shown_value,
    written_secrets,
)
from whyrun.actions.places import REFERENCE
from whyrun.actions.problem import Bound, Problem, missing_parameter, unknown_parameter
from whyrun.actions.types import Connection, Secret
from whyrun.workflow.model import FILE_TYPES

_NAMED = re.compile(r"`(\w+)`")

__all__ = [
    "Connection",
    "Directory",
    "File",
    "FileOrDirectory",
    "Files",
    "InvalidParameter",
    "Meta",
    "Parameters",
    "Secret",
    "check_values",
    "converted",
]


class _ByKeyword(msgspec.StructMeta):
    """msgspec does not inherit `kw_only`: without it, a required field could not follow one with a default.

    A record as the default of a field is copied for each use: msgspec itself refuses one that can be changed.
    """

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **settings: Any) -> _ByKeyword:
        for field in namespace.get("__annotations__", ()):
            default = namespace.get(field)
            if isinstance(default, msgspec.Struct) and not default.__struct_config__.frozen:
                namespace[field] = msgspec.field(default_factory=partial(deepcopy, default))
        return super().__new__(mcls, name, bases, namespace, **{"kw_only": True, **settings})


class Parameters(msgspec.Struct, metaclass=_ByKeyword, forbid_unknown_fields=True):
    """The base of `Params`: fields by keyword, and none beyond the declared ones.

    `uncounted`: parameters that say how to work and not what to make: a time-out, a limit of memory. They reach the
    action, but another value of them is no change.
    """

    uncounted: ClassVar[tuple[str, ...]] = ()


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
        problems += misfits(fields[name].type, value, name, _literal_hook)
    if not problems and not any(map(holds_bound, given.values())):
        problems += _whole_block(params, given)
    return problems


def check_beside_files(params: type[Parameters], given: Mapping[str, Any]) -> list[Problem]:
    """What a `__post_init__` says of entries of which some are bound files: for one that asks what there is and opens
    nothing, as those of the built-in actions. Where anything else is bound, nobody can tell yet."""
    placed = {name: _placed(value) for name, value in given.items()}
    if not any(map(holds_bound, given.values())) or any(map(holds_bound, placed.values())):
        return []
    return _whole_block(params, placed)


class _Somewhere(PosixPath):
    """Stands for a bound file before there is one."""


def _placed(value: Any) -> Any:
    if isinstance(value, Bound) and value.type in FILE_TYPES:  # of a fan-in, nobody knows how many there will be
        return _Somewhere("file")
    if isinstance(value, list):
        return [_placed(member) for member in value]
    return {key: _placed(member) for key, member in value.items()} if isinstance(value, dict) else value


def _before_hook(type_: type, value: Any) -> Any:
    members = value if isinstance(value, list) else [value]
    return (_path_hook if all(isinstance(m, _Somewhere) for m in members) else _literal_hook)(type_, value)


def _whole_block(params: type[Parameters], given: Mapping[str, Any]) -> list[Problem]:
    """What a `__post_init__` of the user's says of values that fit one by one."""
    try:
        msgspec.convert(dict(given), params, dec_hook=_before_hook)
    except msgspec.ValidationError as problem:
        reason = reason_of(problem)
        named = _NAMED.match(reason)  # what it begins with is what it is about
        about = named[1] if named is not None and named[1] in given else None
        return [Problem(None, reason, "see `whyrun actions` for what it takes", about=about)]
    return []


def _literal_hook(type_: type, value: Any) -> Any:
    if issubclass(type_, Path | Files):
        if type_ in (File, Directory, FileOrDirectory, Files):
            raise NotBound("a file or folder is bound, not written down")
        if isinstance(value, str) and issubclass(type_, Path):
            return type_(value)
    if issubclass(type_, Secret):
        raise WrittenDown("a secret is named, not written down")
    if issubclass(type_, Connection):
        if isinstance(value, str) and REFERENCE.fullmatch(value):
            return type_()  # what it refers to is looked up with the whole workflow
        if isinstance(value, dict):
            if written_secrets(type_, value):
                raise WrittenDown("a secret is named, not written down")
            return type_(value)
        raise ValueError("a connection is written `@family.alias` or `@family`")
    raise TypeError(f"{shown_value(value)} is no {type_.__name__}")


# --- in the worker -----------------------------------------------------------------------------------------------


def converted(params: type[Parameters], given: Mapping[str, Any], uses: str, *, made: bool = True) -> Parameters:
    """The block as the action declares it, or `InvalidParameter` with everything that does not fit.

    `made`: the files are there; before a run, some are still to be made.
    """
    fields = fields_of(params)
    what, hook = f"the action `{uses}`", _hook if made else _path_hook
    problems = [missing_parameter(what, name) for name, field in fields.items() if field.required and name not in given]
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in fields:
            problems.append(unknown_parameter(what, name, list(fields)))
            continue
        type_ = fields[name].type
        read = readable(value, type_)
        try:
            values[fields[name].name] = msgspec.convert(read, type_, dec_hook=hook)
        except msgspec.ValidationError:
            problems += misfits(type_, read, name, hook)
    if not problems:
        try:
            return params(**values)
        except (ValueError, TypeError) as problem:  # what a `__post_init__` says
            problems.append(Problem(None, str(problem)))
    raise InvalidParameter("; ".join(problem.message for problem in problems))


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
    if issubclass(type_, Connection) and isinstance(value, dict):
        return type_(value)
    if issubclass(type_, Secret) and isinstance(value, str):
        return type_(value)
    raise TypeError(f"{shown_value(value)} is no {type_.__name__}")
