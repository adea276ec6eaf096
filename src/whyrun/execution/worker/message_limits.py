"""Limits on the messages of a step: their length, and which values they may contain. A violation fails only the
step."""

from __future__ import annotations

import math
import os
from typing import Any

import msgspec

from whyrun.execution.worker.failure import utf8
from whyrun.json_values import limit_problem

_NAME_LIMIT = 256  # characters of a key, a status, the name or unit of a metric
_MESSAGE_LIMIT = 4_000  # characters of a task's message
_VALUE_LIMIT = 64_000  # bytes of a task's details, or of a remembered value
_BINARY = (bytes, bytearray, memoryview)
_SHALLOW = 8  # levels that the quick check looks at


class _NotJson(Exception):
    """The text says which value is not JSON."""


def check_name(what: str, name: str) -> None:
    if len(name) > _NAME_LIMIT:
        raise ValueError(f"{what} may have at most {_NAME_LIMIT} characters, this has {len(name)}")
    _check_text(what, name)


def check_size(what: str, value: Any) -> None:
    size = len(msgspec.json.encode(value))
    if size > _VALUE_LIMIT:
        raise ValueError(f"{what} may have at most {_VALUE_LIMIT} bytes, this has {size}")


def shortened(message: str) -> str:
    if len(message) <= _MESSAGE_LIMIT:
        return message
    return f"{message[:_MESSAGE_LIMIT]} … ({len(message) - _MESSAGE_LIMIT} characters left out)"


def as_json(what: str, value: Any, exact: bool) -> Any:
    """The value as plain JSON. `exact`: raise ValueError unless it already is; else convert it for display."""
    problem = limit_problem(value) if exact else None
    if problem is not None:
        raise ValueError(f"{what} cannot be kept: it {problem}")
    try:
        if not exact:
            if _is_plain(value):
                return value
            value = msgspec.to_builtins(value, builtin_types=_BINARY, str_keys=True, enc_hook=_plain)
        return _json(what, value, exact)
    except _NotJson as part:
        raise ValueError(f"{what} must be JSON, this has {part}") from None
    except RecursionError:
        raise ValueError(f"{what} must be JSON, this is nested too deeply") from None
    except TypeError as problem:  # a key that is not a string
        raise ValueError(f"{what} must be JSON: {problem}") from None


def _is_plain(value: Any, depth: int = _SHALLOW) -> bool:
    """Whether the value already is JSON, as nearly all are: a third of the cost of converting it. Compares exact types,
    so that no method of a user's own class is called."""
    kind = type(value)
    if kind is str:
        return bool(value.isascii())
    if kind is float:
        return math.isfinite(value)
    if kind is list:
        return depth > 0 and all(_is_plain(member, depth - 1) for member in value)
    if kind is dict:
        return depth > 0 and all(type(k) is str and k.isascii() and _is_plain(v, depth - 1) for k, v in value.items())
    return value is None or kind is bool or kind is int


def _json(what: str, value: Any, exact: bool) -> Any:
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        if exact:
            raise _NotJson(str(value))
        return str(value)
    if isinstance(value, str):
        if exact:
            _check_text(what, value)
        return utf8(value)
    if isinstance(value, (list, tuple)):
        return [_json(what, member, exact) for member in value]
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise _NotJson(f"the key {key!r:.100}")
        return {_json(what, key, exact): _json(what, member, exact) for key, member in value.items()}
    raise _NotJson(f"a {type(value).__name__}")


def _plain(value: Any) -> Any:
    if isinstance(value, str):  # a user's own subclass
        return str.__str__(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return value.tolist()
    raise _NotJson(f"a {type(value).__name__}")


def _check_text(what: str, text: str) -> None:
    if utf8(text) != text:
        raise ValueError(f"{what} cannot be written as UTF-8: {text!r:.100}")
