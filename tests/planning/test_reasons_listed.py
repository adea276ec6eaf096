"""At most 20 particulars of one code, and a count of the rest; and how a reason is written."""

from __future__ import annotations

import pytest

from whyrun.planning.reasons import (
    InputChanged,
    MissingOutput,
    More,
    UpstreamDirty,
    bounded,
    listed_reasons,
    reason_json,
    version_changes,
)


@pytest.mark.parametrize(("number", "more"), [(0, []), (19, []), (20, []), (21, [1]), (50, [30])])
def test_twenty_are_listed_and_the_rest_is_counted(number: int, more: list[int]) -> None:
    reasons = [UpstreamDirty(f"{i:02}") for i in range(number)]
    counted = [More("UPSTREAM_DIRTY", n) for n in more]
    assert bounded(reasons) == [*reasons[:20], *counted]
    assert listed_reasons("UPSTREAM_DIRTY", [], [f"{i:02}" for i in range(number)], UpstreamDirty) == bounded(reasons)
    shared, own = [f"{i:02}" for i in range(0, number, 2)], [f"{i:02}" for i in range(1, number, 2)]
    assert listed_reasons("UPSTREAM_DIRTY", shared, own, UpstreamDirty) == bounded(reasons)


def test_so_many_as_are_asked_for_are_listed_or_all_of_them() -> None:
    reasons = [UpstreamDirty(f"{i:02}") for i in range(50)]
    assert bounded(reasons, None) == reasons
    assert bounded(reasons, 50) == reasons
    assert bounded(reasons, 49) == [*reasons[:49], More("UPSTREAM_DIRTY", 1)]
    assert listed_reasons("UPSTREAM_DIRTY", [], [reason.job for reason in reasons], UpstreamDirty, None) == reasons


def test_versions_that_differ_are_told_where_any_were_recorded() -> None:
    assert version_changes({"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "4"}) == ("b 2 → 3", "c none → 4")
    assert version_changes({"z": "1", "a": "2"}, {}) == ("a 2 → none", "z 1 → none")
    assert version_changes({"a": "1"}, {"a": "1"}) is None
    assert version_changes({}, {"a": "1"}) is None
    assert version_changes({}, {}) is None


def test_a_reason_is_written_without_what_it_does_not_say() -> None:
    assert reason_json(MissingOutput()) == {"code": "MISSING_OUTPUT"}
    assert reason_json(More("FORCED", 3)) == {"code": "FORCED", "more": 3}
    assert reason_json(InputChanged("x", old_value=False, new_value=0, files=("a", "b"))) == {
        "code": "INPUT_CHANGED", "binding": "x", "old_value": False, "new_value": 0, "files": ["a", "b"],
    }  # fmt: skip
