"""The operators and functions of expressions. Each is bounded, so that no expression can exhaust time or memory."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

MAX_STRING = 1 << 20
MAX_ITEMS = 100_000
MAX_NUMBER = 2**63 - 1
MAX_PATTERN = 256
MAX_MATCHED = 4096
MAX_DEPTH = 64


class ExpressionError(Exception):
    """An expression has no value: wrong types, division by zero, a result that is too large."""


def format_value(value: Any) -> str:
    """A value inside a longer string: a string as it is, any other value as canonical JSON."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError):
        raise ExpressionError("the value cannot be put into a string") from None


def bounded(value: Any) -> Any:
    """The value itself, if it is JSON-like and not too large."""
    kind = type(value)
    if kind is bool or value is None:
        return value
    if kind is int:
        if abs(value) > MAX_NUMBER:
            raise ExpressionError("the number is too large")
    elif kind is float:
        if not math.isfinite(value):
            raise ExpressionError("the number is not finite")
    elif kind is str:
        if len(value) > MAX_STRING:
            raise ExpressionError("the string is too long")
    elif kind is list or kind is dict:
        _check_collection(value)
    else:
        raise ExpressionError("the result is not a plain value")
    return value


def _check_collection(value: Any) -> None:
    """Count all nested parts: a list of many lists of long strings is refused, too."""
    items, characters = 0, 0
    waiting = [(value, 0)]
    while waiting:
        part, depth = waiting.pop()
        items += 1
        if depth > MAX_DEPTH:
            raise ExpressionError("the value nests too deeply")
        if isinstance(part, list):
            waiting.extend((member, depth + 1) for member in part)
        elif isinstance(part, dict):
            characters += sum(len(key) for key in part)
            waiting.extend((member, depth + 1) for member in part.values())
        elif isinstance(part, str):
            characters += len(part)
        if items + len(waiting) > MAX_ITEMS + 1 or characters > MAX_STRING:
            raise ExpressionError("the list is too long")


def _number(value: Any, symbol: str) -> Any:
    if isinstance(value, int | float):
        return value
    raise ExpressionError(f"`{symbol}` needs numbers, not {_kind(value)}")


def _kind(value: Any) -> str:
    names = {type(None): "None", bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list"}
    return names.get(type(value), "a map" if isinstance(value, dict) else "this value")


def _add(left: Any, right: Any) -> Any:
    if type(left) is type(right) and isinstance(left, str | list):
        if len(left) + len(right) > (MAX_STRING if isinstance(left, str) else MAX_ITEMS):
            raise ExpressionError("the result is too long")
        return operator.add(left, right)
    if isinstance(left, int | float) and isinstance(right, int | float):
        return bounded(left + right)
    raise ExpressionError(f"`+` cannot join {_kind(left)} and {_kind(right)}")


def _multiply(left: Any, right: Any) -> Any:
    if isinstance(right, str | list):
        left, right = right, left
    if isinstance(left, str | list):
        if type(right) is not int:
            raise ExpressionError(f"`*` cannot repeat by {_kind(right)}")
        if len(left) * right > (MAX_STRING if isinstance(left, str) else MAX_ITEMS):
            raise ExpressionError("the result is too long")
        return left * right
    return bounded(_number(left, "*") * _number(right, "*"))


def _power(left: Any, right: Any) -> Any:
    base, exponent = _number(left, "**"), _number(right, "**")
    # Except for -1, 0 and 1, no power above 63 of a whole number fits; refuse it before it is computed.
    if isinstance(base, int) and isinstance(exponent, int) and abs(base) > 1 and abs(exponent) > 63:
        raise ExpressionError("the exponent is too large")
    result = base**exponent
    if isinstance(result, complex):
        raise ExpressionError("the root of a negative number is not a number")
    return bounded(result)


def _arithmetic(symbol: str, function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def compute(left: Any, right: Any) -> Any:
        return bounded(function(_number(left, symbol), _number(right, symbol)))

    return compute


BINARY: Mapping[str, Callable[[Any, Any], Any]] = {
    "Add": _add,
    "Sub": _arithmetic("-", operator.sub),
    "Mult": _multiply,
    "Div": _arithmetic("/", operator.truediv),
    "FloorDiv": _arithmetic("//", operator.floordiv),
    "Mod": _arithmetic("%", operator.mod),  # numbers only: `"%999999999d" % 1` would fill the memory
    "Pow": _power,
}
UNARY: Mapping[str, Callable[[Any], Any]] = {
    "Not": operator.not_,
    "USub": lambda value: bounded(-_number(value, "-")),
    "UAdd": lambda value: bounded(+_number(value, "+")),
}


def _contained(left: Any, right: Any) -> bool:
    if isinstance(right, str) and not isinstance(left, str):
        raise ExpressionError(f"`in` a string needs a string, not {_kind(left)}")
    if not isinstance(right, str | list | dict):
        raise ExpressionError(f"`in` needs a list, a map or a string, not {_kind(right)}")
    return left in right


def _ordered(symbol: str, function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def compare(left: Any, right: Any) -> Any:
        try:
            return function(left, right)
        except TypeError:
            raise ExpressionError(f"`{symbol}` cannot compare {_kind(left)} with {_kind(right)}") from None

    return compare


COMPARISON: Mapping[str, Callable[[Any, Any], Any]] = {
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Lt": _ordered("<", operator.lt),
    "LtE": _ordered("<=", operator.le),
    "Gt": _ordered(">", operator.gt),
    "GtE": _ordered(">=", operator.ge),
    "In": _contained,
    "NotIn": lambda left, right: not _contained(left, right),
}


def _members(name: str, arguments: tuple[Any, ...]) -> list[Any]:
    """`max(list)` or `max(a, b, …)`."""
    if len(arguments) > 1:
        return list(arguments)
    (only,) = arguments
    if not isinstance(only, list):
        raise ExpressionError(f"`{name}` needs a list, not {_kind(only)}")
    return only


def _string(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ExpressionError(f"`{name}` needs a string, not {_kind(value)}")
    return value


def _length(value: Any) -> int:
    if not isinstance(value, str | list | dict):
        raise ExpressionError(f"`len` needs a list, a map or a string, not {_kind(value)}")
    return len(value)


def _sum(value: Any) -> Any:
    total: Any = 0
    for member in _members("sum", (value,)):
        total = _add(total, _number(member, "sum"))
    return total


def _extreme(name: str, choose: Callable[[list[Any]], Any]) -> Callable[..., Any]:
    def compute(*arguments: Any) -> Any:
        members = _members(name, arguments)
        if not members:
            raise ExpressionError(f"`{name}` of an empty list")
        return choose(members)

    return compute


def _to_int(value: Any) -> Any:
    if isinstance(value, str) and len(value) > 32:
        raise ExpressionError("the string is too long for a number")
    if not isinstance(value, str | int | float):
        raise ExpressionError(f"`int` cannot be made of {_kind(value)}")
    return bounded(int(value))


def _to_float(value: Any) -> Any:
    if not isinstance(value, str | int | float) or (isinstance(value, str) and len(value) > 400):
        raise ExpressionError(f"`float` cannot be made of {_kind(value)}")
    return bounded(float(value))


def _round(value: Any, digits: Any = None) -> Any:
    if digits is not None and (type(digits) is not int or abs(digits) > 100):
        raise ExpressionError("`round` takes up to 100 digits")
    return bounded(round(_number(value, "round"), digits))


def _matches(text: Any, pattern: Any) -> bool:
    _string("matches", text)
    _string("matches", pattern)
    if len(pattern) > MAX_PATTERN or len(text) > MAX_MATCHED:
        raise ExpressionError(f"`matches` takes up to {MAX_MATCHED} characters and a pattern of up to {MAX_PATTERN}")
    from whyrun.workflow.expressions.linear_regex import PatternError, compile_pattern

    try:
        return compile_pattern(pattern).matches(text)
    except PatternError as problem:
        raise ExpressionError(f"`{pattern}` cannot be matched: {problem}") from None


def _contains(whole: Any, part: Any) -> bool:
    return _contained(part, whole)


# name → (least arguments, most arguments, function). The compiler handles `first` and `exists`, which take references.
FUNCTIONS: Mapping[str, tuple[int, int, Callable[..., Any]]] = {
    "len": (1, 1, _length),
    "min": (1, 50, _extreme("min", min)),
    "max": (1, 50, _extreme("max", max)),
    "sum": (1, 1, _sum),
    "any": (1, 1, lambda value: any(_members("any", (value,)))),
    "all": (1, 1, lambda value: all(_members("all", (value,)))),
    "sorted": (1, 1, lambda value: sorted(_members("sorted", (value,)))),
    "str": (1, 1, format_value),
    "int": (1, 1, _to_int),
    "float": (1, 1, _to_float),
    "bool": (1, 1, bool),
    "round": (1, 2, _round),
    "lower": (1, 1, lambda value: _string("lower", value).lower()),
    "upper": (1, 1, lambda value: _string("upper", value).upper()),
    "startswith": (2, 2, lambda value, start: _string("startswith", value).startswith(_string("startswith", start))),
    "endswith": (2, 2, lambda value, end: _string("endswith", value).endswith(_string("endswith", end))),
    "contains": (2, 2, _contains),
    "matches": (2, 2, _matches),
}


# --- comparability -----------------------------------------------------------------------------------------------
# Known before anything runs: the kinds of plain values, of inputs and outputs with a declared type, and of the results
# of some functions. `never_compares` evaluates the comparison with one sample of each kind, so it refuses exactly what
# would fail in the run.

SYMBOLS = {
    "Eq": "==",
    "NotEq": "!=",
    "Lt": "<",
    "LtE": "<=",
    "Gt": ">",
    "GtE": ">=",
    "In": "in",
    "NotIn": "not in",
}
_SAMPLES: Mapping[str, Any] = {
    "a string": "text",
    "a number": 1,
    "a boolean": True,
    "a list": [],
    "a map": {},
    "None": None,
}
_KIND_OF_TYPE = {"string": "a string", "integer": "a number", "number": "a number", "boolean": "a boolean"}
_RESULT_KINDS = {  # function → the kind of its result, for all arguments
    **dict.fromkeys(("len", "sum", "int", "float", "round"), "a number"),
    **dict.fromkeys(("str", "lower", "upper"), "a string"),
    **dict.fromkeys(("any", "all", "bool", "startswith", "endswith", "contains", "matches", "exists"), "a boolean"),
    "sorted": "a list",
}
_NUMERIC = ("a number", "a boolean")  # in Python `True == 1`


def kind_of_type(base: str, is_list: bool) -> str | None:
    """The kind of values of a declared type; None if they may be of any kind (JSON)."""
    return "a list" if is_list else _KIND_OF_TYPE.get(base)


def result_kind(function: str | None) -> str | None:
    return _RESULT_KINDS.get(function or "")


def kind_of_plain(value: Any) -> str | None:
    if isinstance(value, float):
        return "a number"
    return next((kind for kind, sample in _SAMPLES.items() if type(sample) is type(value)), None)


def never_compares(op: str, left: str | None, right: str | None) -> bool:
    """Whether values of these kinds can never be compared, or are never equal. `op` is a name of `ast`: `Lt`."""
    if left is None or right is None:
        return False
    if op in ("Eq", "NotEq"):  # values of different kinds are never equal
        return not (left == right or "None" in (left, right) or (left in _NUMERIC and right in _NUMERIC))
    try:
        COMPARISON[op](_SAMPLES[left], _SAMPLES[right])
    except (ExpressionError, TypeError):  # a list cannot be a key of a map
        return True
    return False
