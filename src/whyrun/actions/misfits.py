"""Finds all parts of a value that do not fit a parameter's type, also inside nested records and lists."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec

from whyrun.actions.base import TextFile
from whyrun.actions.problem import BIND_ANOTHER, Bound, Problem
from whyrun.actions.types import Record, accepts, connection_type, key_type, members_of, record_for, type_text
from whyrun.errors import did_you_mean
from whyrun.workflow import advice
from whyrun.workflow.advice import Advice
from whyrun.workflow.nodes import below

Hook = Callable[[type, Any], Any]

_LONGEST = 60  # characters of a value in a message
_MEMBERS = 3  # so many invalid members of a list are reported one by one


class NotBound(ValueError):
    """A path as literal text instead of a bound file: a change of the file would go unnoticed."""


class SecretInWorkflow(ValueError):
    """A secret as a literal or an input: the workflow's copy, the log and every plan would contain it."""


def misfits(type_: Any, value: Any, entry: str, hook: Hook, inner: str = "") -> Iterator[Problem]:
    """All problems of the value at `entry` or, within the entry, at `inner`. It may contain `Bound` values.

    `hook` converts types that msgspec does not know, and raises if it refuses a value.
    """
    if isinstance(value, Bound):
        if value.type is not None and not accepts(type_, value.type):
            yield _wrongly_bound(entry + inner, type_, value.type, entry, inner)
        return
    error = None if holds_bound(value) else _validation_error(type_, value, hook)
    if error is None and not holds_bound(value):
        return
    problems = list(_inside(type_, value, entry, hook, inner))
    if problems:
        yield from problems
    elif error is not None:
        yield _misfit(type_, value, error, entry, inner)


def _validation_error(type_: Any, value: Any, hook: Hook) -> msgspec.ValidationError | None:
    try:
        msgspec.convert(value, type_, dec_hook=hook)
    except msgspec.ValidationError as problem:
        return problem
    return None


def written_secrets(type_: Any, value: dict[str, Any]) -> list[str]:
    """The secret fields of a connection whose values are written in the workflow."""
    cls = connection_type(type_)
    secret = cls.secret_fields if cls is not None else ()
    return [name for name in secret if not isinstance(value.get(name), Bound) and value.get(name) not in (None, "")]


def holds_bound(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(holds_bound, value.values()))
    if isinstance(value, list):
        return any(map(holds_bound, value))
    return isinstance(value, Bound)


# --- inside ------------------------------------------------------------------------------------------------------


def _inside(type_: Any, value: Any, entry: str, hook: Hook, inner: str) -> Iterator[Problem]:
    if isinstance(value, dict):
        for name in written_secrets(type_, value):
            yield _secret_in_workflow(entry, below(inner, name))
        record = record_for(type_, value)
        if record is not None:
            yield from _in_record(record, value, entry, hook, inner)
            return
        yield from _wrong_keys(key_type(type_), value, entry, hook, inner)
    wrong = 0
    for key, member_type, member in members_of(type_, value):
        problems = list(misfits(member_type, member, entry, hook, below(inner, key)))
        wrong += bool(problems)
        if wrong <= _MEMBERS or isinstance(value, dict):
            yield from problems
    if wrong > _MEMBERS and isinstance(value, list):
        more, name = wrong - _MEMBERS, entry + inner
        message = f"`{name}` has {more} more member{'' if more == 1 else 's'} that {_do(more)} not fit"
        yield Problem(entry, message, _correct(entry, inner), brief=("invalid", f"{more} more of {name}"), inner=inner)


def _wrong_keys(type_: Any, value: dict[str, Any], entry: str, hook: Hook, inner: str) -> Iterator[Problem]:
    for key in value if type_ is not None else ():
        if _validation_error(type_, key, hook) is not None:
            message = f"`{entry}{inner}` has the key {shown_value(key)}; a key is {type_text(type_)}"
            brief = ("invalid", f"{entry}{inner}: {shown_value(key)}")
            yield Problem(entry, message, "correct the key", at_name=True, brief=brief, inner=below(inner, key))


def _in_record(record: Record, value: dict[str, Any], entry: str, hook: Hook, inner: str) -> Iterator[Problem]:
    name = entry + inner
    for key, (_, required) in record.fields.items():
        if required and key not in value:
            yield Problem(
                entry,
                f"`{name}` needs `{key}`",
                advice.add_field(key, name),
                brief=("missing required", name + below("", key)),
                inner=inner,
            )
    for key, member in value.items():
        if key in record.fields:
            yield from misfits(record.fields[key][0], member, entry, hook, below(inner, key))
        elif record.closed:
            yield Problem(
                entry,
                f"`{name}` has no `{key}`",
                _known(key, list(record.fields)),
                at_name=True,
                brief=("unknown", name + below("", key)),
                inner=below(inner, key),
            )


def _known(key: str, fields: list[str]) -> str:
    all_of_them = "known: " + (", ".join(f"`{name}`" for name in fields) or "none")
    near = did_you_mean(key, fields)
    return f"{near} {all_of_them}" if near is not None and near.startswith("did") else all_of_them


def readable(value: Any, type_: Any) -> Any:
    """A text file as its content where the type is `str`, else as its path; also inside records and lists."""
    if isinstance(value, TextFile):
        return value.path.read_text(encoding="utf-8") if accepts(type_, "string") else value.path
    if isinstance(value, dict):
        record = record_for(type_, value)
        fields = record.fields if record is not None else {}
        own = {key: fields[key][0] for key in value if key in fields} or {k: t for k, t, _ in members_of(type_, value)}
        return {key: readable(member, own.get(key, Path)) for key, member in value.items()}
    if isinstance(value, list):
        own_types = [member_type for _, member_type, _ in members_of(type_, value)]
        return [readable(member, own_types[i] if own_types else Path) for i, member in enumerate(value)]
    return value


# --- messages ----------------------------------------------------------------------------------------------------


def _misfit(type_: Any, value: Any, error: msgspec.ValidationError, entry: str, inner: str) -> Problem:
    name, shown, wanted = entry + inner, shown_value(value), type_text(type_)
    reason, path = _reason_and_path(error)
    brief = ("invalid", f"{name}={shown}")
    hint: str | Advice = _correct(entry, inner)
    if isinstance(error.__cause__, SecretInWorkflow):  # its message does not show the value
        return _secret_in_workflow(entry, inner)
    if isinstance(error.__cause__, NotBound):
        message = f"`{name}` is the text {shown}, not a bound file or folder; it takes {wanted}"
        kind = "directory" if "directory" in wanted else "file"
        hint = advice.bind_file(_key(entry, inner), kind, whole="." not in inner)
    elif error.__cause__ is not None and isinstance(value, dict) and not path:
        message = f"`{name}` is refused: {reason}"  # the reason comes from `__post_init__`
    elif error.__cause__ is not None:
        message = f"`{name}` is {shown}: {reason}; it takes {wanted}"
    else:
        message = f"`{name}` is {shown}{f' (see its `{path}`)' if path else ''}; it takes {wanted}"
    return Problem(entry, message, hint, brief=brief, inner=inner)


def _secret_in_workflow(entry: str, inner: str) -> Problem:
    name, hint = entry + inner, advice.name_secret(_key(entry, inner))
    message = f"`{name}` is a secret, and must not be written in the workflow"
    return Problem(entry, message, hint, brief=("invalid", name), inner=inner)


def _wrongly_bound(name: str, type_: Any, bound: str, entry: str, inner: str) -> Problem:
    message = f"`{name}` is bound to something of type `{bound}`; it takes {type_text(type_)}"
    return Problem(entry, message, BIND_ANOTHER, brief=("invalid", f"{name}={bound}"), inner=inner)


def _correct(entry: str, inner: str) -> str | Advice:
    return f"correct `{entry}{inner}`" if inner else advice.correct_parameter(entry)


def _key(entry: str, inner: str) -> str:
    return inner.rpartition(".")[2] if "." in inner else entry


def _do(number: int) -> str:
    return "does" if number == 1 else "do"


def shown_value(value: Any) -> str:
    """A value as a workflow would write it, shortened if it is long."""
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


def reason_of(problem: msgspec.ValidationError) -> str:
    return _reason_and_path(problem)[0]


def _reason_and_path(problem: msgspec.ValidationError) -> tuple[str, str]:
    """Split msgspec's message into reason and path: `Expected `int`, got `str` - at `$[2]``."""
    reason, _, path = str(problem).partition(" - at `$")
    return reason, path.rstrip("`")
