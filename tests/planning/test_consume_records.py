"""How a consumed entry is recorded, and which values are small enough for events and reasons."""

from __future__ import annotations

from typing import Any

import pytest

from whyrun.planning.consume import Consumption, Entry, Members, is_small


@pytest.mark.parametrize(
    ("largest", "too_large"),
    [
        ("x" * 254, "x" * 255),
        ("\x01" * 42, "\x01" * 43),  # six bytes each, as JSON writes them
        (10**255, 10**256),
        (-(10**254), -(10**255)),
        ([0] * 127, [0] * 128),
    ],
    ids=["text", "escaped", "positive", "negative", "list"],
)
def test_a_value_is_small_up_to_256_bytes_of_json(largest: Any, too_large: Any) -> None:
    assert is_small(largest) is True
    assert is_small(too_large) is False


@pytest.mark.parametrize("value", [None, True, 1.5, "", 0, 1 << 64, -(1 << 64), [], {}])
def test_short_values_are_small(value: Any) -> None:
    assert is_small(value) is True


def test_a_record_leaves_out_defaults_and_large_values() -> None:
    assert Entry("Input:X", "ab", "v", "x" * 254).to_json() == {"id": "Input:X", "sha256": "ab", "value": "x" * 254}
    assert Entry("Input:X", "ab", "v", "x" * 255).to_json() == {"id": "Input:X", "sha256": "ab"}
    assert Entry("Input:X", "ab", "f.png").to_json() == {"id": "Input:X", "sha256": "ab", "as": "f.png"}


def test_the_only_member_of_a_list_says_that_it_stood_in_one() -> None:
    one = Entry("Input:X[0]", "ab", "f.png")
    assert Members([]).recorded == []
    assert Members([one]).recorded == [{"id": "Input:X[0]", "sha256": "ab", "as": "f.png", "listed": True}]
    assert Members([one, one]).recorded == [one.to_json(), one.to_json()]


def test_a_slot_with_a_problem_is_not_known() -> None:
    assert Consumption().known
    assert not Consumption(unknown=["x"]).known
    assert not Consumption(problems={"x": "division by zero"}).known
