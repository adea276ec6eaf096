"""Logs that cannot have been written by the engine: the fold names the line, and takes nothing from them."""

from __future__ import annotations

from typing import Any

import pytest
from fold_lab import (
    ADOPT,
    BINDINGS,
    COMPARE,
    END,
    RUN,
    Event,
    adopted,
    done,
    failed,
    folded,
    made,
    request,
    reused,
    start,
)  # fmt: skip

from whyrun.errors import StateError
from whyrun.log.events import DAMAGE_HINT

PAGE, TEXT = "Job:Page", "Artifact:Page.Text"
BEGUN = start(PAGE, "f1")


def refusal(*events: Event) -> tuple[str, int | None, str]:
    """(code, line, message) of what is said of a log with these events."""
    with pytest.raises(StateError) as stopped:
        folded(list(events))
    (found,) = stopped.value.diagnostics
    assert (found.file, found.hint) == ("r0001/events.jsonl", DAMAGE_HINT)
    return found.code, found.line, found.message


ORDER: list[tuple[str, list[Event], int, str]] = [
    ("LOG_DAMAGED", [RUN, {**BEGUN, "seq": 3}], 2, "line 2 should be event 2 of r0001, and is event 3 of r0001"),
    ("LOG_DAMAGED", [RUN, {**BEGUN, "seq": 1}], 2, "line 2 should be event 2 of r0001, and is event 1 of r0001"),
    ("LOG_DAMAGED", [RUN, {**BEGUN, "session": "r0002"}], 2,
     "line 2 should be event 2 of r0001, and is event 2 of r0002"),
    ("LOG_DAMAGED", [RUN, BEGUN, done(PAGE), RUN], 4, "a run starts twice"),
    ("LOG_INCOMPLETE", [], 1, "the log has no `run_start`"),
    ("LOG_INCOMPLETE", [END], 1, "the log has no `run_start`"),
    ("LOG_INCOMPLETE", [BEGUN, done(PAGE)], 1, "the log has no `run_start`"),
    ("LOG_INCOMPLETE", [BEGUN, failed(PAGE)], 2, "the log has no `run_start`"),
    ("LOG_INCOMPLETE", [RUN, BEGUN, BEGUN], 3,
     "`Job:Page` starts again, and no event says how its start before ended"),
    ("LOG_INCOMPLETE", [RUN, done(PAGE)], 2, "`Job:Page` completed without a `step_start`"),
    ("LOG_INCOMPLETE", [RUN, BEGUN, done(PAGE), done(PAGE)], 4, "`Job:Page` completed without a `step_start`"),
    ("LOG_INCOMPLETE", [RUN, failed(PAGE)], 2, "`Job:Page` failed without a `step_start`"),
    ("LOG_INCOMPLETE", [RUN, failed(PAGE, "NotPublished")], 2, "`Job:Page` failed without a `step_start`"),
    ("LOG_INCOMPLETE", [RUN, reused(PAGE, "f1"), failed(PAGE)], 3, "`Job:Page` failed without a `step_start`"),
    ("LOG_INCOMPLETE", [RUN, reused(PAGE, "f1"), failed(PAGE, "NotPublished"), failed(PAGE, "NotPublished")], 4,
     "`Job:Page` failed without a `step_start`"),
    ("LOG_INCOMPLETE", [RUN, BEGUN, failed(PAGE), failed(PAGE)], 4, "`Job:Page` failed without a `step_start`"),
    ("LOG_INCOMPLETE", [RUN, made(TEXT, "x")], 2, "`Artifact:Page.Text` has no `step_start` of its step before it"),
    ("LOG_INCOMPLETE", [RUN, BEGUN, done(PAGE), made(TEXT, "x")], 4,
     "`Artifact:Page.Text` has no `step_start` of its step before it"),
    ("LOG_INCOMPLETE", [RUN, BEGUN, start("Job:Other", "f1"), done("Job:Other"), END], 5,
     "`Job:Page` started, the run ended, and no event says how the step ended"),
    ("LOG_INCOMPLETE", [RUN, request(PAGE, "f1", "id", 7)], 2,
     "`Job:Page` remembered a request without a `step_start`"),
    ("LOG_INCOMPLETE", [RUN, reused(PAGE, None)], 2, "the reuse of `Job:Page` has no fingerprint"),
    ("LOG_DAMAGED", [RUN, reused(PAGE, "f1", from_run="0001")], 2, "`0001` is not a run"),
    ("LOG_DAMAGED", [RUN, reused(PAGE, "f1", from_run="r1")], 2, "`r1` is not a run"),
    ("LOG_DAMAGED", [RUN, reused(PAGE, "f1", from_run="r00x1")], 2, "`r00x1` is not a run"),
    ("LOG_DAMAGED", [RUN, reused(PAGE, "f1", from_run="rx001")], 2, "`rx001` is not a run"),
    ("LOG_DAMAGED", [RUN, reused(PAGE, "f1", from_run="r")], 2, "`r` is not a run"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "events", "line", "message"), ORDER, ids=map(str, range(len(ORDER))))
def test_events_that_cannot_follow_each_other(code: str, events: list[Event], line: int, message: str) -> None:
    assert refusal(*events) == (code, line, message)


def test_a_run_that_compares_is_read_as_strictly() -> None:
    assert refusal(COMPARE, BEGUN, BEGUN)[:2] == ("LOG_INCOMPLETE", 3)
    assert refusal(COMPARE, made(TEXT, "x"))[:2] == ("LOG_INCOMPLETE", 2)


IDS: list[tuple[Event, str]] = [
    (made("Artifact:Other.Text", "x"), "`Artifact:Other.Text` is not an artifact of `Job:Page`"),
    (adopted("Artifact:Other.Text", "x", "f1"), "`Artifact:Other.Text` is not an artifact of `Job:Page`"),
    (failed("Page"), "`Page`"),
    (reused("Page", "f1"), "`Page`"),
    (reused(PAGE, "f1", from_step="Page"), "`Page`"),
    ({"event": "input_recorded", "id": "Page", "sha256": "x"}, "`Page`"),
    (request("Page", "f1", "k", 1), "`Page`"),
    ({"event": "step_blocked", "step_id": "Page", "because": []}, "`Page`"),
    ({"event": "step_blocked", "step_id": PAGE, "because": [PAGE, "Page"]}, "`Page`"),
    ({"event": "condition_evaluated", "step_id": "Page", "inputs": {}}, "`Page`"),
    ({"event": "condition_evaluated", "step_id": PAGE, "inputs": {"Input:A": 1, "Page": 1}}, "`Page`"),
    ({"event": "task", "step_id": "Page"}, "`Page`"),
    ({"event": "status_contract_violation", "step_id": "Page"}, "`Page`"),
    ({"event": "log_repaired", "interrupted": [PAGE, "Page"]}, "`Page`"),
    ({"event": "comparison", "artifact": "Page"}, "`Page`"),
]  # fmt: skip


@pytest.mark.parametrize(("event", "named"), IDS, ids=[f"{e['event']}-{n}" for n, (e, _) in enumerate(IDS)])
def test_an_id_that_does_not_parse_or_fit(event: Event, named: str) -> None:
    code, line, message = refusal(RUN, BEGUN, event)
    assert (code, line, named in message) == ("LOG_DAMAGED", 3, True)


FINE: list[Event] = [
    {"event": "step_blocked", "step_id": PAGE, "because": [PAGE]},
    {"event": "condition_evaluated", "step_id": PAGE, "inputs": {"Input:A": 1, TEXT: 2}},
    {"event": "task", "step_id": PAGE},
    {"event": "status_contract_violation", "step_id": PAGE},
    {"event": "log_repaired", "interrupted": [PAGE]},
    {"event": "comparison", "artifact": TEXT},
    {"event": "step_skipped", "step_id": PAGE, "why": "condition_false"},
    {"event": "cfg_materialized"},
    {"event": "plan_computed"},
    {"event": "manifest_materialized"},
    {"event": "file_displaced"},
]


def test_events_that_only_tell_something_leave_no_record() -> None:
    records = folded([RUN, *FINE, END])
    assert (records.steps, records.inputs, records.run, records.seq) == ({}, {}, 1, len(FINE) + 2)


def test_an_artifact_of_a_long_spelling_belongs_to_its_step() -> None:
    """One that the quick pattern does not match, and that is parsed."""
    step, artifact = 'Job:Page["a b"]', 'Artifact:Page.Text["a b"]'
    found = folded([RUN, start(step, "f1"), made(artifact, "x", step_id=step), done(step), END])
    assert [o.id for o in found.steps[step].latest.outputs] == [artifact]


WITHOUT: list[tuple[Any, str, str]] = [
    (None, "LOG_INCOMPLETE", "{} has no bindings"),
    ({}, "LOG_INCOMPLETE", "{} has no bindings"),
    ([], "LOG_DAMAGED", "the bindings of {} are not an object"),
    ("{", "LOG_DAMAGED", "the bindings of {} are not an object"),
]


@pytest.mark.parametrize(
    ("event", "whose"),
    [
        (start(PAGE, "f1"), "the `step_start` of `Job:Page`"),
        (reused(PAGE, "f1"), "the reuse of `Job:Page`"),
        (adopted(TEXT, "x", "f1"), "the adoption of `Artifact:Page.Text`"),
    ],
    ids=["start", "reuse", "adoption"],
)
def test_bindings_must_be_there_and_an_object(event: Event, whose: str) -> None:
    for bindings, code, message in WITHOUT:
        assert refusal(ADOPT, {**event, "bindings": bindings}) == (code, 2, message.format(whose))
    left_out = {key: value for key, value in event.items() if key != "bindings"}
    assert refusal(ADOPT, left_out) == ("LOG_INCOMPLETE", 2, f"{whose} has no bindings")
    assert list(folded([ADOPT, {**event, "bindings": BINDINGS}]).steps) == [PAGE]
