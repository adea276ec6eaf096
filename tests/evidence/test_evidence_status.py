from __future__ import annotations

import pytest

from whyrun.log.events import (
    ArtifactAdopted,
    PlanComputed,
    RunComplete,
    RunStart,
    StepBlocked,
    StepComplete,
    StepFailed,
    StepSkipped,
    StepStart,
)
from whyrun.log.outcomes import fold_outcome, status_of

START = RunStart(
    seq=1,
    ts="2026-01-01T00:00:00.000000Z",
    workflow="w",
    workflow_sha256="",
    mode="run",
    options={},
    backend="local",
    engine_version="0",
    host="h",
    pid=1,
    previous_chain="0" * 64,
)


def started(step, attempt=1):
    return StepStart(step_id=step, driver="d", attempt=attempt, fingerprint="f", bindings={})


def completed(step):
    return StepComplete(step_id=step, driver="d", output_dir="o", duration=1.0, status="EXECUTES")


def failed(step, seq, status="FAILED", error="no", will_retry=False):
    return StepFailed(
        seq=seq,
        step_id=step,
        driver="d",
        error=error,
        error_type="OSError",
        traceback="",
        duration=1.0,
        status=status,
        will_retry=will_retry,
    )


def planned(number):
    return PlanComputed(plan_sha256="", snapshot_sha256="", planned=number, layers=1, log_position=None)


def ended(state):
    return RunComplete(ts="2026-01-01T00:00:09.000000Z", state=state, counts={}, duration=9.0)


def test_lesson_21_a_run_that_succeeded_says_so():
    events = [START, planned(3), started("Job:A"), completed("Job:A"), StepSkipped(step_id="Job:B", why="reused")]
    events += [started("Job:C"), failed("Job:C", 9, will_retry=True), started("Job:C", 2), completed("Job:C")]
    assert status_of(fold_outcome([*events, ended("succeeded")])) == {
        "ok": True,
        "state": "succeeded",
        "exit_code": 0,
        "steps_total": 3,
        "steps_completed": 2,
        "steps_failed": 0,
        "steps_skipped": 1,
        "steps_blocked": 0,
        "steps_interrupted": 0,
        "started": "2026-01-01T00:00:00.000000Z",
        "ended": "2026-01-01T00:00:09.000000Z",
        "backend": "local",
        "error": None,
    }


def test_the_keys_stand_in_the_order_of_the_contract():
    names = (
        "ok state exit_code steps_total steps_completed steps_failed steps_skipped steps_blocked steps_interrupted "
        "started ended backend error"
    )
    assert " ".join(status_of(fold_outcome([START, ended("succeeded")]))) == names


def test_a_failed_run_names_its_first_final_failure():
    events = [START, planned(6)]
    events += [started("Job:A"), failed("Job:A", 3, error="passing", will_retry=True)]
    events += [started("Job:B"), failed("Job:B", 5, "TIMED_OUT", "after 5 s")]
    events += [started("Job:A", 2), completed("Job:A"), started("Job:C"), failed("Job:C", 9)]
    events += [StepBlocked(step_id="Job:D", because=["Job:C"]), StepSkipped(step_id="Job:E", why="condition_false")]
    status = status_of(fold_outcome([*events, ended("failed")]), backend="sandbox")
    assert {key: status[key] for key in status if key not in ("started", "ended")} == {
        "ok": False,
        "state": "failed",
        "exit_code": 1,
        "steps_total": 6,
        "steps_completed": 1,
        "steps_failed": 2,
        "steps_skipped": 1,
        "steps_blocked": 1,
        "steps_interrupted": 0,
        "backend": "sandbox",
        "error": "Job:B: OSError: after 5 s",
    }


@pytest.mark.parametrize("repaired", [False, True])
def test_an_interrupted_run_counts_its_open_steps_before_and_after_the_repair(repaired):
    events = [START, planned(4), started("Job:A"), completed("Job:A"), started("Job:B")]
    if repaired:
        events += [failed("Job:B", 7, "INTERRUPTED", "the run ended"), ended("interrupted")]
    status = status_of(fold_outcome(events))
    assert (status["ok"], status["state"], status["exit_code"]) == (False, "interrupted", 130)
    assert (status["steps_completed"], status["steps_interrupted"], status["steps_failed"]) == (1, 1, 0)
    assert status["error"] == ("Job:B: OSError: the run ended" if repaired else None)


def test_a_real_failure_is_named_before_an_interruption():
    events = [START, started("Job:A"), started("Job:B"), failed("Job:A", 3, "INTERRUPTED"), failed("Job:B", 4)]
    assert status_of(fold_outcome([*events, ended("interrupted")]))["error"] == "Job:B: OSError: no"


def test_an_adoption_is_a_completed_step():
    adopted = ArtifactAdopted(
        artifact="Artifact:A.B", step_id="Job:A", sha256="", size=0, type="file", fingerprint="f", bindings={}
    )
    status = status_of(fold_outcome([START, adopted, ended("succeeded")]))
    assert (status["steps_total"], status["steps_completed"]) == (1, 1)
