"""A step that is being executed has not failed: while a run goes on, every command that reads says `running`.

Issue 17, number 5.
"""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from beside_lab import FINAL, Beside

import whyrun
from command_lab import Command, CommandLab, until
from project_lab import codes, reasons
from whyrun.facts.status import current_status
from whyrun.log.journal import utc_now
from whyrun.log.lock import RunLock, running_run
from whyrun.planning.plan import PlanOptions, compute_execution_plan
from whyrun.snapshot.history.replay import replay_snapshot, snapshot_blob, snapshot_identity

Started = Callable[[Command], Command]
WAITING = ["Job:Wait[0]", "Job:Wait[1]"]


@pytest.fixture
def started() -> Iterator[Started]:
    """For every command that a test starts, so that none lives on when the test fails."""
    commands: list[Command] = []

    def keep(command: Command) -> Command:
        commands.append(command)
        return command

    yield keep
    for command in commands:
        if command.process.poll() is None:
            command.kill()


def is_made_now(turn: int, run: str) -> dict[str, object]:
    return {
        "code": "MISSING_OUTPUT", "artifact": f"Artifact:Wait.Text[{turn}]", "change": "running", "run": run,
        "attempt": 1,
    }  # fmt: skip


def test_every_command_that_reads_says_running(tmp_path: Path, started: Started) -> None:
    lab = Beside(tmp_path / "project")
    command = started(lab.start_waiting())
    pid = command.pid
    explained = lab.whyrun("explain", "alone.yaml")
    assert explained.out.splitlines() == [
        "alone during r0001: 3 of 4 jobs to run, 2 running, 1 up to date",
        "layer 1",
        "  Job:Wait[0]   MISSING_OUTPUT  Artifact:Wait.Text[0] (r0001 attempt 1 is executing it now)",
        "  Job:Wait[1]   MISSING_OUTPUT  Artifact:Wait.Text[1] (r0001 attempt 1 is executing it now)",
        "layer 2",
        "  Job:After     MISSING_OUTPUT  Artifact:After.Text",
        "                UPSTREAM_DIRTY  Job:Wait[0]",
        "                UPSTREAM_DIRTY  Job:Wait[1]",
    ]
    assert explained.err == f"note: r0001 is running (pid {pid}), so the answer changes until it ends\n"
    as_json = lab.whyrun("explain", "alone.yaml", "--json").json
    told = {job["id"]: [reason["code"] for reason in job["reasons"]] for at in as_json["layers"] for job in at["jobs"]}
    assert told == {
        "Job:Wait[0]": ["MISSING_OUTPUT"],
        "Job:Wait[1]": ["MISSING_OUTPUT"],
        "Job:After": ["MISSING_OUTPUT", "UPSTREAM_DIRTY", "UPSTREAM_DIRTY"],
    }
    plan = lab.whyrun("plan", "alone.yaml", "--json").json
    assert plan["snapshot"]["jobs"] == {"succeeded": 1, "failed": 0, "never_run": 1, "running": 2}
    assert plan["snapshot"]["failed"] == []
    trace = lab.whyrun("explain", "alone.yaml", "--trace", "Job:Wait[0]")
    assert (trace.code, "r0001 attempt 1: running" in trace.out) == (0, True), trace.out
    why = lab.whyrun("why", "Job:After", "alone.yaml", "--json").json
    assert why["roots"] == WAITING
    assumed = lab.whyrun("plan", "alone.yaml", "--assume", "Input:Word=changed", "--json").json
    assert assumed["snapshot"]["jobs"]["running"] == 2
    status = lab.whyrun("status", "alone.yaml", "--json").json
    assert status["jobs"] == {"succeeded": 1, "failed": 0, "never_run": 1, "running": 2}
    assert status["unfinished"]["open_steps"] == WAITING
    states = {one["id"]: one["state"] for one in status["artifacts"]}
    assert states == {
        "Artifact:First.Text": "available", "Artifact:Wait.Text[0]": "running", "Artifact:Wait.Text[1]": "running",
        "Artifact:After.Text": "missing",
    }  # fmt: skip
    shown = lab.whyrun("show", "Job:Wait[0]", "alone.yaml", "--json").json
    latest = shown["latest_attempt"]
    assert (latest["run"], latest["attempt"], latest["status"]) == ("r0001", 1, "running")
    assert latest["duration"] is None
    assert "error" not in latest
    assert [one["state"] for one in shown["outputs"]] == ["running"]
    assert lab.whyrun("show", "r0001", "alone.yaml", "--json").json["state"] == "running"
    assert [run["state"] for run in lab.whyrun("runs", "alone.yaml", "--json").json["runs"]] == ["running"]
    history = lab.whyrun("history", "Job:Wait[1]", "alone.yaml", "--json").json
    assert [entry["status"] for entry in history["entries"]] == ["RUNNING"]
    log = lab.whyrun("log", "alone.yaml", "--event", "step_failed")
    assert (log.code, log.out) == (0, "")

    workflow = whyrun.load(lab.file)
    latest_status = workflow.snapshot().latest_job_status
    assert {step: one.status for step, one in latest_status.items()} == {
        "Job:First": "succeeded", "Job:Wait[0]": "running", "Job:Wait[1]": "running", "Job:After": "never_run",
    }  # fmt: skip
    assert (latest_status["Job:Wait[0]"].run, latest_status["Job:Wait[0]"].error_type) == ("r0001", None)
    assert workflow.snapshot().failed_artifacts == frozenset()
    lab.open_gate()
    assert command.ended().code == 0
    assert lab.published() == FINAL
    assert workflow.plan().totals["clean"] == 4


def test_a_forced_run_that_goes_on_hides_no_earlier_result_and_reuses_none(tmp_path: Path, started: Started) -> None:
    """An earlier result with the same fingerprint exists, but the step is executed: nobody knows yet what it makes."""
    lab = Beside(tmp_path / "project")
    lab.open_gate()
    lab.succeed()
    lab.gate.unlink()
    for place in tmp_path.glob("gate.*"):
        place.unlink()
    command = started(lab.start("run", "alone.yaml", "--force", "Job:Wait[*]", "--quiet", "--jobs", "2"))
    log = lab.root / ".whyrun/alone/runs/r0002/events.jsonl"
    until(lambda: log.exists() and log.read_bytes().count(b'"event":"step_start","step_id":"Job:Wait') == 2)

    opened = lab.opened()
    snapshot = opened.snapshot()
    plan = compute_execution_plan(snapshot)
    assert plan.totals == {"jobs": 4, "planned": 3, "reused": 0, "clean": 1, "deferred": 0, "inactive": 0}
    assert reasons(plan) == {
        "Job:Wait[0]": [is_made_now(0, "r0002")],
        "Job:Wait[1]": [is_made_now(1, "r0002")],
        "Job:After": [{"code": "UPSTREAM_DIRTY", "job": step} for step in WAITING],
    }
    assert (snapshot.running, snapshot.running_steps) == ("r0002", frozenset(WAITING))
    # The lock is an observation: the recorded snapshot has it, and gives the same plan to the byte after the kill.
    blob = snapshot_blob(snapshot)
    saved = {**plan.to_json(), **snapshot_identity(snapshot)}
    command.kill()
    again = replay_snapshot(blob, opened.history())
    assert snapshot_blob(again) == blob
    assert compute_execution_plan(again).to_bytes() == plan.to_bytes()
    # The same log without the lock is that of a killed run.
    killed = lab.plan()
    assert codes(killed)["Job:Wait[0]"] == ["RETRY_PREVIOUS_FAILURE", "MISSING_OUTPUT"]
    assert killed.digest != plan.digest
    lab.write({"saved.json": json.dumps(saved)})
    stale = lab.whyrun("run", "alone.yaml", "--plan", "saved.json", "--quiet")
    assert (stale.code, "PLAN_STALE" in stale.err) == (3, True), stale.err


NO_OUTPUT = """
workflow: bare
jobs:
  Act:
    uses: shell
    with: {run: 'touch "GATE.begun"; until test -e "GATE"; do sleep 0.02; done'}
  Then:
    needs: [Act]
    uses: shell
    with: {run: 'true'}
"""


def test_a_step_without_outputs_is_running_and_not_clean_and_a_comparison_changes_nothing(
    tmp_path: Path, started: Started
) -> None:
    lab, gate = CommandLab(tmp_path / "project"), tmp_path / "gate"
    begun = tmp_path / "gate.begun"
    lab.root.mkdir()
    lab.write({"workflow.yaml": NO_OUTPUT.replace("GATE", str(gate))})
    gate.touch()
    lab.succeed()
    gate.unlink()
    begun.unlink()

    def start(*words: str) -> Command:
        command = started(lab.start(*words, "--quiet"))
        until(lambda: begun.exists() or command.process.poll() is not None)
        until(lambda: b'"event":"step_start"' in lab.opened().state.runs()[-1].events_path.read_bytes())
        return command

    command = start("run", "--force", "Job:Act")
    assert reasons(lab.plan()) == {
        "Job:Act": [{"code": "MISSING_OUTPUT", "change": "running", "run": "r0002", "attempt": 1}],
    }
    gate.touch()
    assert command.ended().code == 0
    gate.unlink()
    begun.unlink()

    command = start("compare", "Job:Act")
    assert lab.plan().totals["clean"] == 2  # a comparison makes no record
    status = current_status(lab.opened(), ())
    assert status.jobs == {"succeeded": 2, "failed": 0, "never_run": 0, "running": 0}
    assert status.unfinished is not None
    assert (status.unfinished.state, status.unfinished.open_steps) == ("running", ("Job:Act",))
    gate.touch()
    assert command.ended().code == 0


ASLEEP = """
workflow: asleep
jobs:
  Sleep:
    uses: shell
    sandbox: required
    with: {run: 'sleep 600'}
    outputs: {T: {type: text}}
"""


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_a_step_in_a_sandbox_is_running_too(tmp_path: Path, started: Started) -> None:
    lab = CommandLab(tmp_path / "project")
    lab.root.mkdir()
    lab.write({"workflow.yaml": ASLEEP})
    command = started(lab.start("run", "--quiet"))
    log = lab.root / ".whyrun/asleep/runs/r0001/events.jsonl"
    until(lambda: command.process.poll() is not None or (log.exists() and b'"event":"step_start"' in log.read_bytes()))
    try:
        assert command.process.poll() is None, command.ended()
        assert lab.snapshot().latest_job_status["Job:Sleep"].status == "running"
        assert codes(lab.plan()) == {"Job:Sleep": ["MISSING_OUTPUT"]}
    finally:
        command.process.send_signal(signal.SIGINT)
        command.ended()
    assert lab.snapshot().latest_job_status["Job:Sleep"].status == "failed"
    assert codes(lab.plan()) == {"Job:Sleep": ["RETRY_PREVIOUS_FAILURE", "MISSING_OUTPUT"]}


def test_a_lock_that_is_held_for_something_else_makes_no_killed_run_a_running_one(
    tmp_path: Path, started: Started
) -> None:
    lab = Beside(tmp_path / "project")
    started(lab.start_waiting()).kill()
    killed = lab.plan()
    assert codes(killed)["Job:Wait[0]"] == ["RETRY_PREVIOUS_FAILURE", "MISSING_OUTPUT"]
    state = lab.opened().state
    with RunLock.of(state, utc_now):  # such as a prune, or a run that has not repaired the log yet
        assert running_run(state) is None
        assert compute_execution_plan(lab.snapshot(), PlanOptions()).to_bytes() == killed.to_bytes()
