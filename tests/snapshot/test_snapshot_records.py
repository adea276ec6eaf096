"""What the records of a log say of a step: which attempt counts, what it made, and where that came from."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from whyrun.log.events import NOT_PUBLISHED
from whyrun.snapshot.records import Attempt, InputRecord, Output, Records, StepRecord, run_name

A, B = Output("Artifact:J.A", "aa", 1, "file", "out/a"), Output("Artifact:J.B", "bb", 2, "integer", None, (None,))


def attempt(run: int = 1, fingerprint: str = "f", **fields: Any) -> Attempt:
    return Attempt(run, 2, 1, fingerprint, **{"ok": True, "outputs": (A, B), **fields})


def failed(run: int = 1, fingerprint: str = "f", **fields: Any) -> Attempt:
    return attempt(run, fingerprint, **{"ok": False, "outputs": (), "status": "FAILED", "error_type": "E", **fields})


def test_a_value_may_be_none_and_is_another_thing_than_no_value() -> None:
    assert (A.value, B.value) == (msgspec.UNSET, None)
    assert (InputRecord("aa").value, InputRecord("aa", (None,)).value, InputRecord("aa", (7,)).value) == (
        msgspec.UNSET,
        None,
        7,
    )


def test_bytes_are_looked_for_in_the_store_and_where_they_are_published() -> None:
    assert (A.bytes_key, B.bytes_key) == ("aa out/a", "bb")


def test_an_output_is_from_the_run_of_its_attempt_or_from_that_of_another() -> None:
    plain, reused = attempt(3), attempt(5, origin="reused", made=3)
    assert (plain.made_in, reused.made_in) == (3, 3)
    assert (plain.source_of(A.id), reused.source_of(A.id)) == ((3, ""), (5, "reused"))
    apart = attempt(5, origin="adopted", apart={A.id: (2, "reused")})
    assert (apart.source_of(A.id), apart.source_of(B.id)) == ((2, "reused"), (5, "adopted"))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {}),
        ({"origin": "reused"}, {}),
        ({"origin": "adopted"}, {A.id: 5, B.id: 5}),
        ({"origin": "adopted", "apart": {A.id: (2, "")}}, {B.id: 5}),
        ({"origin": "adopted", "apart": {A.id: (2, "adopted")}}, {A.id: 2, B.id: 5}),
        ({"origin": "reused", "apart": {A.id: (2, "adopted"), B.id: (3, "reused")}}, {A.id: 2}),
    ],
)
def test_what_was_adopted_is_named_with_the_run_that_did(fields: dict[str, Any], expected: dict[str, int]) -> None:
    assert attempt(5, **fields).adopted == expected


@pytest.mark.parametrize(
    ("of", "has_result", "settled"),
    [
        (attempt(), True, True),
        (attempt(outputs=()), True, True),
        (attempt(status="INTERRUPTED", error_type="InputChangedDuringRun"), True, True),
        (failed(), False, True),
        (failed(outputs=(A,)), False, True),
        (failed(error_type=NOT_PUBLISHED, outputs=(A, B)), True, True),
        (failed(error_type=NOT_PUBLISHED), False, True),
        (failed(status="TIMED_OUT"), False, True),
        (failed(status="INTERRUPTED"), False, False),
        (failed(error_type="InputChangedDuringRun"), False, False),
    ],
)
def test_what_has_a_result_and_what_says_something_about_the_fingerprint(
    of: Attempt, has_result: bool, settled: bool
) -> None:
    assert (of.has_result, of.settled) == (has_result, settled)


def test_the_last_success_is_the_latest_attempt_or_the_one_before_that_failed() -> None:
    good, bad = attempt(1), failed(2)
    assert StepRecord(good).last_success() is good
    assert StepRecord(good, success=attempt(0)).last_success() is good
    assert StepRecord(bad, success=good).last_success() is good
    assert StepRecord(bad).last_success() is None


def test_of_each_fingerprint_the_latest_settled_attempt_counts() -> None:
    one, two, unsettled = attempt(1, "one"), failed(2, "two"), failed(3, "one", status="INTERRUPTED")
    alone = StepRecord(one)
    assert (alone.by_fingerprint("one"), alone.by_fingerprint("two"), list(alone.attempts())) == (one, None, [one])
    none = StepRecord(unsettled)
    assert (none.by_fingerprint("one"), list(none.attempts())) == (None, [])
    many = StepRecord(unsettled, settled=[one, two])
    assert [many.by_fingerprint(name) for name in ("one", "two", "three")] == [one, two, None]
    assert list(many.attempts()) == [one, two]
    assert list(StepRecord(one, settled=[]).attempts()) == []


def test_what_attempts_with_other_fingerprints_remembered_later() -> None:
    requests: dict[str, dict[str, Any]] = {"one": {"a": 1, "b": 2}, "two": {"b": 3, "c": None}}
    record = StepRecord(failed(), requests=requests, remembered_by={"a": "one", "b": "two", "c": "two"})
    assert record.remembered_elsewhere("one") == {"b": 3, "c": None}
    assert record.remembered_elsewhere("two") == {"a": 1}
    assert record.remembered_elsewhere("three") == {"a": 1, "b": 3, "c": None}
    assert StepRecord(failed()).remembered_elsewhere("one") == {}


def test_records_share_nothing_and_runs_are_named_with_four_digits() -> None:
    first, second = Records(), Records()
    first.steps["Job:A"] = StepRecord(attempt())
    first.inputs["Input:A"] = InputRecord("aa")
    assert (second.steps, second.inputs, second.inputs_of, second.run, second.seq) == ({}, {}, 0, 0, 0)
    assert (run_name(1), run_name(12345)) == ("r0001", "r12345")
