"""`compare_entries`: every kind of difference between what was consumed and what would be consumed now."""

from __future__ import annotations

from typing import Any

import pytest

from whyrun.planning.consume import Entry, Members
from whyrun.planning.input_changes import InputChanged, compare_entries, wide_digest

X, Y, Z = (Entry(f"Input:{name}", name * 4, "v", name) for name in "XYZ")
FILE = Entry("Input:F", "FFFF", "f.csv")


def was(*entries: Entry, **more: Any) -> list[dict[str, Any]]:
    return [{**entry.to_json(), **more} for entry in entries]


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (was(X), X),
        (was(FILE), FILE),
        (was(X), Entry("Input:Other", X.sha256, "v", "X")),  # the same content from another source
        (was(X, listed=True), Members([X])),
        (was(X, Y), Members([X, Y])),
        ([], Members([])),
        (None, None),
    ],
)
def test_the_same_is_no_difference(before: Any, now: Entry | Members | None) -> None:
    assert compare_entries("x", before, now) == []


def changed(**fields: Any) -> InputChanged:
    return InputChanged("x", **fields)


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (
            was(X), Entry("Input:X", "new!", "v", "new"),
            [changed(source="Input:X", old="XXXX", new="new!", old_value="X", new_value="new")],
        ),
        (
            was(X), Y,
            [changed(source="Input:Y", old_source="Input:X", old="XXXX", new="YYYY", old_value="X", new_value="Y")],
        ),
        (
            was(X), Entry("Input:X", "new!", "v", "n" * 300),
            [changed(source="Input:X", old="XXXX", new="new!", old_value="X")],
        ),
        (
            was(FILE), Entry("Input:F", "FFFF", "f.tsv"),
            [changed(source="Input:F", old="FFFF", new="FFFF", old_as="f.csv", new_as="f.tsv")],
        ),
        (
            was(X), Members([X]),
            [changed(source="Input:X", old="XXXX", new="XXXX", old_value="X", new_value="X", old_as="v", new_as="v[]")],
        ),
        (
            was(X, listed=True), X,
            [changed(source="Input:X", old="XXXX", new="XXXX", old_value="X", new_value="X", old_as="v[]", new_as="v")],
        ),
        (None, X, [changed(source="Input:X", new="XXXX", new_value="X")]),
        (was(X), None, [changed(old_source="Input:X", old="XXXX", old_value="X")]),
        (None, Members([]), [changed()]),
        ([], None, [changed()]),
        (was(X, listed=True), Members([X, Y]), [changed(source="Input:Y", new="YYYY", new_value="Y")]),
        (was(X, Y), Members([Y]), [changed(old_source="Input:X", old="XXXX", old_value="X")]),
        (was(X, listed=True), Members([]), [changed(old_source="Input:X", old="XXXX", old_value="X")]),
        (
            was(X, Y), Members([X, Entry("Input:Y", "new!", "v", "new"), Z]),
            [
                changed(source="Input:Y", old="YYYY", new="new!", old_value="Y", new_value="new"),
                changed(source="Input:Z", new="ZZZZ", new_value="Z"),
            ],
        ),
        (
            was(X, Y, Z), Members([X, Z, Y]),
            [changed(source="Input:Z", old_source="Input:Y", old="YYYY", new="ZZZZ", old_value="Y", new_value="Z")],
        ),
    ],
)  # fmt: skip
def test_a_difference(before: Any, now: Entry | Members | None, expected: list[InputChanged]) -> None:
    assert compare_entries("x", before, now) == expected


def test_a_wide_list_with_lost_members_is_compared_by_its_digest() -> None:
    members = Members([X, Y])
    before = {"count": 2, "digest": wide_digest(members.recorded), "blob": "lost"}
    assert compare_entries("x", before, members) == []
    assert compare_entries("x", before, Members([Y, X])) == [changed(old=before["digest"])]
    assert compare_entries("x", before, X) == [changed(old=before["digest"])]
    assert compare_entries("x", before, None) == [changed(old=before["digest"])]
    assert compare_entries("x", {**before, "digest": wide_digest([])}, None) == []
