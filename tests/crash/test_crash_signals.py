"""Ctrl-C and SIGTERM: what runs is ended, the evidence is complete, and the next run goes on from there."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest
from crash_gate import FINAL, GateLab, until
from crash_lab import Ended
from fault_selection import SOAK

from whyrun.log import events as ev

MOMENTS = 40 if SOAK else 4


def check_interrupted(lab: GateLab, ended: Ended, codes: tuple[int, ...] = (130,)) -> None:
    assert ended.code in codes, ended.err
    lab.check_nobody_left()
    lab.check_evidence()
    (run,) = lab.runs()
    failed = {e.step_id: (e.status, e.will_retry) for e in run.events() if isinstance(e, ev.StepFailed)}
    assert failed == {"Job:Wait[0]": ("INTERRUPTED", False), "Job:Wait[1]": ("INTERRUPTED", False)}
    assert set(lab.executed(run)) == {"Job:First", "Job:Wait[0]", "Job:Wait[1]"}
    status = json.loads((run.path / "status.json").read_bytes())
    assert (status["ok"], status["state"], status["exit_code"]) == (False, "interrupted", 130)
    assert (status["steps_completed"], status["steps_interrupted"], status["steps_failed"]) == (1, 2, 0)
    assert lab.published() == {"out/first.txt": b"first\n"}, "what was half done is not published"


def check_goes_on(lab: GateLab) -> None:
    lab.open_gate()
    lab.succeed()
    assert set(lab.executed(lab.runs()[-1])) == {"Job:Wait[0]", "Job:Wait[1]", "Job:Wait[2]", "Job:After"}
    assert lab.published() == FINAL
    lab.check_evidence()
    lab.check_replay()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_ends_the_run_gracefully(number: int, tmp_path: Path) -> None:
    lab = GateLab(tmp_path)
    host = lab.start_waiting()
    host.signal(number)
    ended = host.ended()  # a step that ends on SIGTERM is not waited for longer
    check_interrupted(lab, ended)
    check_goes_on(lab)


def test_a_step_that_ignores_sigterm_is_killed_by_the_second_signal(tmp_path: Path) -> None:
    lab = GateLab(tmp_path, ignore="TERM INT")
    host = lab.start_waiting()
    host.signal(signal.SIGINT)
    until(lab.was_asked)
    assert host.process.poll() is None, "after one signal the step has its time to end"
    assert len(lab.processes()) > 1
    host.signal(signal.SIGINT)
    ended = host.ended()
    told = [line for line in ended.err.splitlines() if line.startswith("note: ")]
    assert told == ["note: stopping: waiting for 2 steps, 3600 s at most; Ctrl-C again ends them now"]
    check_interrupted(lab, ended)
    check_goes_on(lab)


def test_many_signals_at_once_leave_the_evidence_complete(tmp_path: Path) -> None:
    lab = GateLab(tmp_path, ignore="TERM")
    host = lab.start_waiting()
    status = lab.runs()[0].path / "status.json"
    while host.process.poll() is None and not status.exists():  # an impatient user, until the last file is written
        host.signal(signal.SIGINT)
        time.sleep(0.002)
    check_interrupted(lab, host.ended(), (130, -signal.SIGINT))  # the last may have come after the last word
    check_goes_on(lab)


@pytest.fixture(scope="module")
def operations(tmp_path_factory: pytest.TempPathFactory) -> int:
    """How many file operations the host of an undisturbed run makes."""
    lab = GateLab(tmp_path_factory.mktemp("counted"))
    lab.open_gate()
    ended = lab.run(crash_at=0)
    assert ended.code == 0, ended.err
    return int(ended.result["operations"])


@pytest.mark.parametrize("moment", range(MOMENTS))
def test_a_signal_at_any_moment_ends_in_complete_evidence(moment: int, operations: int, tmp_path: Path) -> None:
    """Not only while steps run: from the first file operation on, also before the first step and after the last."""
    lab = GateLab(tmp_path)
    lab.open_gate()
    number = (signal.SIGINT, signal.SIGTERM)[moment % 2]
    ended = lab.run(crash_at=1 + moment * operations // MOMENTS, crash_by=number)
    assert ended.code in (0, 130, -signal.SIGTERM, -signal.SIGINT), ended.err
    lab.check_nobody_left()
    if lab.runs():
        lab.check_evidence()
        state = json.loads((lab.runs()[0].path / "status.json").read_bytes())["state"]
        if ended.code in (0, 130):  # else the signal came after the run had ended
            told = ended.out.splitlines()[-1]
            assert told == "ready" or state == json.loads(told)["state"]  # or just before the result was printed
    lab.succeed()
    assert lab.published() == FINAL
    lab.check_evidence()
