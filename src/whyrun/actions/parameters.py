"""Typed parameters: an action declares `class Params(Parameters)`, and its `with:` block is checked before the run.

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

from whyrun.actions.base import CONNECTION_REFERENCE
from whyrun.actions.misfits import (
    NotBound,
    SecretInWorkflow,
    holds_bound,
    misfits,
    readable,
    reason_of,
    shown_value,
    written_secrets,
)
from whyrun.actions.problem import Bound, Problem, missing_parameter, unknown_parameter
from whyrun.actions.types import Connection, Secret
from whyrun.workflow.advice import Advice
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
    """Makes all fields keyword-only, so that a required field may follow one with a default.

    msgspec does not inherit `kw_only`. It also refuses a mutable record as a default; here such a default is copied for
    each use.
    """

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **settings: Any) -> _ByKeyword:
        for field in namespace.get("__annotations__", ()):
            default = namespace.get(field)
            if isinstance(default, msgspec.Struct) and not default.__struct_config__.frozen:
                namespace[field] = msgspec.field(default_factory=partial(deepcopy, default))
        return super().__new__(mcls, name, bases, namespace, **{"kw_only": True, **settings})


class Parameters(msgspec.Struct, metaclass=_ByKeyword, forbid_unknown_fields=True):
    """The base class of `Params`. Its fields are keyword-only; undeclared fields are refused.

    `uncounted`: parameters that the fingerprint leaves out, such as a timeout or a memory limit. The action receives
    them, but a new value does not make a step dirty.
    """

    uncounted: ClassVar[tuple[str, ...]] = ()


class File(PosixPath):
    """A parameter that takes a file, bound to an input or artifact. The action receives its path."""


class Directory(PosixPath):
    """A parameter that takes a folder, bound to an input or artifact. The action receives its path."""


class FileOrDirectory(PosixPath):
    """A parameter that takes a file or a folder, bound to an input or artifact."""


class Files(tuple[File, ...]):
    """A parameter that takes one file or a list of files, each bound. The action receives a tuple of paths."""

    as_list: bool = False  # the workflow binds a list, even if it has one member


class InvalidParameter(Exception):
    """A value that only became known during the run does not fit its parameter."""


@lru_cache(maxsize=1024)
def fields_of(params: type[Parameters]) -> dict[str, msgspec.structs.FieldInfo]:
    return {field.encode_name: field for field in msgspec.structs.fields(params)}


def defaults_of(params: type[Parameters]) -> dict[str, Any]:
    defaults = {}
    for name, field in fields_of(params).items():
        if field.default is not msgspec.NODEFAULT:
            defaults[name] = field.default
        elif field.default_factory is not msgspec.NODEFAULT:
            defaults[name] = field.default_factory()
    return defaults


# --- before the run ----------------------------------------------------------------------------------------------


def check_values(params: type[Parameters], given: Mapping[str, Any], what: str) -> list[Problem]:
    """All problems of these entries. Of a `Bound` entry only the type is known; its value is checked when the step
    starts."""
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
    """Run `__post_init__` with placeholders for bound files, and return its problem.

    Only for a `__post_init__` that opens no files, such as those of the built-in actions. If anything but a file is
    bound, the check has to wait for the run.
    """
    filled = {name: _with_placeholders(value) for name, value in given.items()}
    if not any(map(holds_bound, given.values())) or any(map(holds_bound, filled.values())):
        return []
    return _whole_block(params, filled)


class _PlaceholderFile(PosixPath):
    """Stands for a bound file that does not exist yet."""


def _with_placeholders(value: Any) -> Any:
    if isinstance(value, Bound) and value.type in FILE_TYPES:  # not for a list: its length is not known yet
        return _PlaceholderFile("file")
    if isinstance(value, list):
        return [_with_placeholders(member) for member in value]
    return {key: _with_placeholders(member) for key, member in value.items()} if isinstance(value, dict) else value


def _before_hook(type_: type, value: Any) -> Any:
    members = value if isinstance(value, list) else [value]
    return (_path_hook if all(isinstance(m, _PlaceholderFile) for m in members) else _literal_hook)(type_, value)


def _whole_block(params: type[Parameters], given: Mapping[str, Any]) -> list[Problem]:
    """The problem that a `__post_init__` reports for values that are valid one by one."""
    try:
        msgspec.convert(dict(given), params, dec_hook=_before_hook)
    except msgspec.ValidationError as problem:
        reason = reason_of(problem)
        named = _NAMED.match(reason)  # a message that starts with a parameter's name is about that parameter
        about = named[1] if named is not None and named[1] in given else None
        return [Problem(None, _said(problem) or reason, "see `whyrun actions` for what it takes", about=about)]
    return []


def _said(problem: msgspec.ValidationError) -> Advice | None:
    """What a `__post_init__` raised, if it words it for both kinds of files: msgspec knows only its text."""
    said = problem.__cause__.args[:1] if problem.__cause__ is not None else ()
    return said[0] if said and isinstance(said[0], Advice) else None


def _literal_hook(type_: type, value: Any) -> Any:
    if issubclass(type_, Path | Files):
        if type_ in (File, Directory, FileOrDirectory, Files):
            raise NotBound("a file or folder must be bound, not written as text")
        if isinstance(value, str) and issubclass(type_, Path):
            return type_(value)
    if issubclass(type_, Secret):
        raise SecretInWorkflow("a secret must be referred to by name, not written in the workflow")
    if issubclass(type_, Connection):
        if isinstance(value, str) and CONNECTION_REFERENCE.fullmatch(value):
            return type_()  # the reference is resolved later, with the whole workflow
        if isinstance(value, dict):
            if written_secrets(type_, value):
                raise SecretInWorkflow("a secret must be referred to by name, not written in the workflow")
            return type_(value)
        raise ValueError("a connection is written `@family.alias` or `@family`")
    raise TypeError(f"{shown_value(value)} is not a {type_.__name__}")


# --- in the worker -----------------------------------------------------------------------------------------------


def converted(params: type[Parameters], given: Mapping[str, Any], uses: str, *, files_exist: bool = True) -> Parameters:
    """The block as an instance of `Params`. Raises `InvalidParameter` with all problems.

    `files_exist`: check that bound files exist. Before a run, some of them may not exist yet.
    """
    fields = fields_of(params)
    what, hook = f"the action `{uses}`", _hook if files_exist else _path_hook
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
        except (ValueError, TypeError) as problem:  # raised by `__post_init__`
            problems.append(Problem(None, str(problem)))
    raise InvalidParameter("; ".join(str(problem.message) for problem in problems))


def _hook(type_: type, value: Any) -> Any:
    converted_value = _path_hook(type_, value)
    if type_ is Files and not all(path.is_file() for path in converted_value):
        raise ValueError("there is no such file")
    if type_ is File and not converted_value.is_file():
        raise ValueError("there is no such file")
    if type_ is Directory and not converted_value.is_dir():
        raise ValueError("there is no such folder")
    return converted_value


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
    raise TypeError(f"{shown_value(value)} is not a {type_.__name__}")
