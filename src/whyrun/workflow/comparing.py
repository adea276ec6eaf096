"""Whether values of two kinds can be compared at all: what is known before anything runs. Pure.

A kind is known of plain values, of inputs and outputs with a declared type, and of what some functions give. Asked is
the comparison itself, with one value of each kind: so what is refused is what would have no answer in the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whyrun.workflow.functions import COMPARISON, ExpressionError

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
_OF_TYPE = {"string": "a string", "integer": "a number", "number": "a number", "boolean": "a boolean"}
_GIVEN_BY = {  # function → the kind of its value, whatever it is given
    **dict.fromkeys(("len", "sum", "int", "float", "round"), "a number"),
    **dict.fromkeys(("str", "lower", "upper"), "a string"),
    **dict.fromkeys(("any", "all", "bool", "startswith", "endswith", "contains", "matches", "exists"), "a boolean"),
    "sorted": "a list",
}
_NUMERIC = ("a number", "a boolean")  # Python takes True for 1


def kind_of_type(base: str, is_list: bool) -> str | None:
    """Of a declared type; None where it may be anything (JSON)."""
    return "a list" if is_list else _OF_TYPE.get(base)


def kind_given_by(function: str | None) -> str | None:
    return _GIVEN_BY.get(function or "")


def kind_of_plain(value: Any) -> str | None:
    return next((kind for kind, sample in _SAMPLES.items() if type(sample) is type(value)), _number(value))


def _number(value: Any) -> str | None:
    return "a number" if isinstance(value, float) else None


def never_compares(op: str, left: str | None, right: str | None) -> bool:
    """Whether no two values of these kinds can be compared so. `op` is Python's name for it: `Lt`."""
    if left is None or right is None:
        return False
    if op in ("Eq", "NotEq"):  # of two kinds the answer is always the same, and so no question
        return not (left == right or "None" in (left, right) or (left in _NUMERIC and right in _NUMERIC))
    try:
        COMPARISON[op](_SAMPLES[left], _SAMPLES[right])
    except (ExpressionError, TypeError):  # a list is no key of a map
        return True
    return False
