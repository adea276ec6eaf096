"""How a function is called: for a plain one without `inspect`, and still as `inspect` sees its parameters."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from whyrun.actions.base import CallPlan, call_plan


def plain(context: Any, logger: Any, text: str, /, other: str = "", *, late: str, count: int) -> str:
    context = (logger, text, other, late, count)
    return str(context)


def evaluated(text: Any, number: Any, own: Any = None) -> None:
    logger = text
    del logger


evaluated.__annotations__.update(text=str, number=int)  # as without `from __future__ import annotations`


def open_ended(*texts: str, **context: Any) -> None: ...


def closing_over(logger: Any) -> Callable[..., Any]:
    def inner(text: str) -> Any:
        return logger, text

    return inner


@functools.wraps(plain)
def wrapping(*args: Any, **kwargs: Any) -> Any: ...


class Called:
    def __call__(self, context: Any, text: str) -> None: ...


TEXTS = frozenset({"text"})
PLANS = {
    plain: CallPlan(True, True, frozenset({"text", "other", "late"})),
    evaluated: CallPlan(False, False, TEXTS),
    open_ended: CallPlan(True, False, frozenset({"texts"})),
    closing_over(0): CallPlan(False, False, TEXTS),
    wrapping: CallPlan(True, True, frozenset({"text", "other", "late"})),
    Called(): CallPlan(True, False, TEXTS),
    functools.partial(plain, 1): CallPlan(False, True, frozenset({"text", "other", "late"})),
    getattr: CallPlan(False, False, frozenset()),
}


@pytest.mark.parametrize(("function", "plan"), PLANS.items(), ids=[str(number) for number in range(len(PLANS))])
def test_a_function_is_called_by_its_parameters(function: Callable[..., Any], plan: CallPlan) -> None:
    assert call_plan(function) == plan


@pytest.mark.parametrize("function", [plain, evaluated, open_ended, closing_over(0)])
def test_a_plain_function_has_the_parameters_that_inspect_sees(function: Callable[..., Any]) -> None:
    seen = inspect.signature(function).parameters
    assert call_plan(function).takes_context == ("context" in seen)
    assert call_plan(function).takes_logger == ("logger" in seen)
