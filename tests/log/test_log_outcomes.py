"""How each step of a run ended, the IDs that stand in events, and wide lists: each from objects made by hand."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import msgspec
import pytest

from whyrun.errors import StateError
from whyrun.log import events as ev
from whyrun.log.decoding import long_list, read_long_list
from whyrun.log.events import check_ids, id_problem, ids_of, owner_problem
from whyrun.log.journal import check, parse_timestamp
from whyrun.log.outcomes import count_outcomes, fold_outcome


def started(step: str, **fields: Any) -> ev.StepStart:
    return ev.StepStart(step_id=step, driver=f"shell of {step}", attempt=1, fingerprint="f", bindings={}, **fields)


def failed(step: str, status: Any = "FAILED") -> ev.StepFailed:
    return ev.StepFailed(
        step_id=step, driver="shell", error="no", error_type="E", traceback="", duration=1.0, status=status,
        will_retry=False,
    )  # fmt: skip


def completed(step: str) -> ev.StepComplete:
    return ev.StepComplete(step_id=step, driver="shell", output_dir="", duration=1.0, status="COMPLETED")


def test_the_latest_word_on_each_step_counts() -> None:
    again = failed("Job:Retried")
    last = failed("Job:Interrupted", "INTERRUPTED")
    outcome = fold_outcome([
        started("Job:Open"), started("Job:Done"), completed("Job:Done"),
        started("Job:Retried"), again, started("Job:Retried"), completed("Job:Retried"),
        started("Job:Late"), failed("Job:Late", "TIMED_OUT"), started("Job:Interrupted"), last,
        started("Job:Failed"), failed("Job:Failed"),
        ev.StepSkipped(step_id="Job:Skipped", why="condition_false"),
        ev.StepBlocked(step_id="Job:Blocked", because=["Job:Failed"]),
    ])  # fmt: skip
    assert outcome.steps == {
        "Job:Open": "open", "Job:Done": "completed", "Job:Retried": "completed", "Job:Late": "timed_out",
        "Job:Interrupted": "interrupted", "Job:Failed": "failed", "Job:Skipped": "skipped", "Job:Blocked": "blocked",
    }  # fmt: skip
    assert outcome.open_steps == ["Job:Open"]
    assert sorted(outcome.failures) == ["Job:Failed", "Job:Interrupted", "Job:Late"]
    assert outcome.failures["Job:Interrupted"] is last
    assert outcome.drivers["Job:Open"] == "shell of Job:Open"
    assert outcome.counts() == {
        "completed": 2, "failed": 1, "timed_out": 1, "interrupted": 1, "skipped": 1, "blocked": 1
    }  # fmt: skip
    assert count_outcomes({}) == dict.fromkeys(outcome.counts(), 0)


def test_start_plan_and_end_are_kept_and_the_time_of_every_event() -> None:
    start = ev.RunStart(
        workflow="w", workflow_sha256="", mode="run", options={}, backend="local", engine_version="", host="", pid=1,
        previous_chain="",
    )  # fmt: skip
    plan = ev.PlanComputed(plan_sha256="", snapshot_sha256="", planned=3, layers=1, log_position=None)
    outcome = fold_outcome([start, plan])
    assert (outcome.start, outcome.end, outcome.planned, outcome.last_ts) == (start, None, 3, "")
    available = ev.ArtifactAvailable(
        artifact="Artifact:A.B", step_id="Job:A", sha256="", size=1, type="text", ts="late"
    )
    assert fold_outcome([start, available]).last_ts == "late"
    assert fold_outcome([available]).steps == {}
    end = ev.RunComplete(state="succeeded", counts={}, duration=1.0)
    assert fold_outcome([end]).end is end


def adopted(artifact: str) -> ev.ArtifactAdopted:
    return ev.ArtifactAdopted(
        artifact=artifact, step_id="Job:A", sha256="0" * 64, size=1, type="json", fingerprint="f", bindings={}
    )  # fmt: skip


def test_an_adoption_is_complete_with_the_whole_and_not_with_a_leaf() -> None:
    assert fold_outcome([adopted("Artifact:A.B.Leaf")]).steps == {}
    assert fold_outcome([adopted("Artifact:A.B.Leaf"), adopted("Artifact:A.B")]).steps == {"Job:A": "completed"}


def test_only_differences_of_comparisons_are_kept() -> None:
    same = ev.Comparison(artifact="Artifact:A.B", status="SAME", against="r0001", summary="")
    other = ev.Comparison(artifact="Artifact:A.C", status="DIFFERENT", against="r0001", summary="")
    assert fold_outcome([same, other]).differences == [other]


def test_every_id_of_an_event_is_looked_at_with_its_kind() -> None:
    bindings = {"x": [{"id": "Input:X"}, {"sha256": "no id"}, 7], "wide": {"count": 70, "blob": "ab"}}
    start = ev.StepStart(step_id="Job:A", driver="", attempt=1, fingerprint="", bindings=bindings)
    assert list(ids_of(start)) == [("Job:A", "Job"), ("Input:X", None), ("", None), ("7", None)]
    blocked = ev.StepBlocked(step_id="Job:A", because=["Job:B", "Job:C"])
    assert list(ids_of(blocked)) == [("Job:A", "Job"), ("Job:B", "Job"), ("Job:C", "Job")]
    asked = ev.ConditionEvaluated(step_id="Job:A", expression="", inputs={"Input:X": 1, "Artifact:A.B": 2}, result=True)
    assert list(ids_of(asked)) == [("Job:A", "Job"), ("Input:X", None), ("Artifact:A.B", None)]
    reused = ev.StepSkipped(step_id="Job:A", why="reused", from_step="Job:B", bindings=None)
    assert list(ids_of(reused)) == [("Job:A", "Job"), ("Job:B", "Job")]


@pytest.mark.parametrize(
    ("text", "kind", "fine"),
    [
        ("Job:A", "Job", True),
        ("Job:A[0][x]", None, True),
        ('Job:A["a b"]', "Job", True),
        ("Job:lib/A[1]", "Job", True),
        ("Artifact:A.B[0].C", "Artifact", True),
        ("Artifact:A.B", "Job", False),
        ("Job:A", "Artifact", False),
        ("Job:A[00]", None, False),
        ("Job:A[", "Job", False),
        ("A", None, False),
    ],
)
def test_an_id_is_canonical_and_of_its_kind(text: str, kind: Any, fine: bool) -> None:
    assert (id_problem(text, kind) is None) is fine


@pytest.mark.parametrize(
    ("step", "artifact", "fine"),
    [
        ("Job:A", "Artifact:A.B", True),
        ("Job:A", "Artifact:A.B.C[0]", True),
        ("Job:A[1]", "Artifact:A.B[1].C", True),
        ('Job:A["a b"]', 'Artifact:A.B["a b"]', True),
        ('Job:A["a b"]', 'Artifact:A.B["a b"].C', True),
        ('Job:A["a b"]', 'Artifact:A.B["a c"]', False),
        ("Job:A[1]", "Artifact:A.B[2]", False),
        ("Job:A[1]", "Artifact:A.B[11]", False),
        ("Job:A", "Artifact:AB.C", False),
        ("Job:A", "Artifact:A.B[0]", True),  # an element of an array
        ("Job:A[1]", 'Artifact:A.B[1]["a]b"]', True),
        ("Job:A", "Artifact:A.B[0][0]", False),
        ("Job:A[1]", "Artifact:A.B[2][1]", False),
        ("Job:A", "Job:A", False),
        ("Job:A.B", "Artifact:A.B", False),
        ("A", "Artifact:A.B", False),
    ],
)
def test_an_artifact_is_of_the_step_that_is_said_to_have_made_it(step: str, artifact: str, fine: bool) -> None:
    assert (owner_problem(step, artifact) is None) is fine


def test_a_wrong_id_is_damage_at_its_line() -> None:
    wrong = ev.ArtifactAvailable(artifact="Artifact:X.B", step_id="Job:A", sha256="", size=1, type="text", seq=7)
    with pytest.raises(StateError) as caught:
        check_ids(wrong, "events.jsonl")
    (problem,) = caught.value.diagnostics
    assert (problem.code, problem.file, problem.line) == ("LOG_DAMAGED", "events.jsonl", 7)
    assert problem.message == "`Artifact:X.B` is not an artifact of `Job:A`"
    check_ids(started("Job:A"), "events.jsonl")
    check_ids(ev.Comparison(artifact="Artifact:A.B", status="SAME", against="r0001", summary=""), "events.jsonl")


def test_what_a_record_leaves_out_is_not_written_and_read_back_as_it_was() -> None:
    line = b'{"event":"comparison","artifact":"Artifact:A.B","status":"IDENTICAL","against":"r0001","summary":"s"}'
    read = msgspec.json.decode(line, type=ev.AnyEvent)
    assert isinstance(read, ev.Comparison)
    assert (read.details, read.more, read.adopted) == ([], 0, False)
    assert (read.seq, read.ts, read.session, read.chain, read.v) == (0, "", "", "", 1)
    assert check(read) == line


@pytest.mark.parametrize(
    "given", [{"seq": 1}, {"ts": "2026-01-01T00:00:00.000000Z"}, {"session": "r0001"}, {"chain": "ab"}]
)
def test_what_the_journal_gives_nobody_else_may_give(given: dict[str, Any]) -> None:
    event = ev.StepBlocked(step_id="Job:A", because=[])
    assert json.loads(check(event))["step_id"] == "Job:A"
    with pytest.raises(ValueError, match="given by the journal alone"):
        check(msgspec.structs.replace(event, **given))


def test_a_time_that_is_none_is_damage() -> None:
    assert parse_timestamp("2026-01-01T00:00:00.000000Z").year == 2026
    with pytest.raises(StateError, match="LOG_DAMAGED"):
        parse_timestamp("yesterday")


def test_lists_of_more_than_64_members_become_blobs_and_come_back() -> None:
    blobs: dict[str, bytes] = {}

    def put(data: bytes) -> str:
        key = sha256(data).hexdigest()
        blobs[key] = data
        return key

    assert long_list(tuple(range(64)), put) == list(range(64))
    assert blobs == {}
    stands = long_list(range(65), put)
    (key,) = blobs
    assert stands == {"count": 65, "digest": key, "blob": key}
    assert json.loads(blobs[key]) == list(range(65))
    assert read_long_list(stands, blobs.__getitem__) == list(range(65))
    assert read_long_list([1], blobs.__getitem__) == [1]
    for damage in ({"count": 64}, {"digest": "0" * 64}):
        with pytest.raises(StateError, match="STORE_DAMAGED"):
            read_long_list({**stands, **damage}, blobs.__getitem__)
    blobs["text"] = b'"' + b"x" * 65 + b'"'
    none = {"count": 65, "blob": "text", "digest": sha256(blobs["text"]).hexdigest()}
    with pytest.raises(StateError, match="STORE_DAMAGED"):
        read_long_list(none, blobs.__getitem__)
