"""Details of a task: plain JSON stays as it is, other values are converted for display."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyrun.execution.worker import outbox as words
from whyrun.execution.worker.outbox import as_json


class Colour(enum.Enum):
    RED = "red"


class Text(str):
    pass


@dataclass
class Quarrelsome:
    x: int

    def __eq__(self, other: object) -> bool:
        raise AttributeError("compares with nothing else")

    __hash__ = None  # type: ignore[assignment]


class Agreeable(dict[str, Any]):
    """Equal to everything."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"a": [1, 2.5, True, None, "é"]}, {"a": [1, 2.5, True, None, "é"]}),
        (math.nan, "nan"),
        ([math.inf], ["inf"]),
        ((1, 2), [1, 2]),
        ({1: "a"}, {"1": "a"}),
        (Colour.RED, "red"),
        ([Text("t")], ["t"]),
        (Decimal("1.50"), "1.50"),
        (date(2026, 11, 16), "2026-11-16"),
        (PurePosixPath("a/b"), "a/b"),
        ("\udc80", "\\udc80"),
        (Quarrelsome(3), {"x": 3}),
        ({"in": Quarrelsome(3)}, {"in": {"x": 3}}),
        (Agreeable(n=math.nan), {"n": "nan"}),
        ([Agreeable(n=math.nan)], [{"n": "nan"}]),
    ],
    ids=repr,
)
def test_a_value_is_converted_for_display(value: Any, shown: Any) -> None:
    found = as_json("the details of a task", value, exact=False)
    assert found == shown
    assert [type(part) for part in _parts(found)] == [type(part) for part in _parts(shown)]


@pytest.mark.parametrize("value", [b"raw", {"a": b"raw"}, [object()]], ids=["bytes", "inside", "object"])
def test_a_value_that_cannot_be_converted_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="the details of a task must be JSON, this has a "):
        as_json("the details of a task", value, exact=False)


def test_a_value_that_is_nested_too_deeply_is_refused() -> None:
    deep: Any = 1
    for _ in range(600):
        deep = [deep]
    with pytest.raises(ValueError, match="the details of a task must be JSON, this is nested too deeply"):
        as_json("the details of a task", deep, exact=False)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


@given(JSON)
def test_the_quick_check_and_the_conversion_agree(value: Any) -> None:
    quick = as_json("it", value, exact=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(words, "_is_plain", lambda value: False)
        assert quick == as_json("it", value, exact=False)


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [value, *(part for member in value.values() for part in _parts(member))]
    return [value, *(part for member in value for part in _parts(member))] if isinstance(value, list) else [value]
