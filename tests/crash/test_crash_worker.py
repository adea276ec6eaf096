"""A worker that dies takes one attempt of one step with it, and nothing else."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from crash_gate import FINAL, GateLab, until

from whyrun.log import events as ev


def killed_worker(lab: GateLab) -> int:
    """One of the workers whose steps wait at the gate, dead."""
    until(lambda: len(lab.workers()) == 2)
    victim = min(lab.workers())
    os.kill(victim, signal.SIGKILL)
    return victim


def test_a_killed_worker_fails_its_step_and_the_run_goes_on(tmp_path: Path) -> None:
    lab = GateLab(tmp_path)
    host = lab.start_waiting()
    killed_worker(lab)
    until(lambda: any(isinstance(e, ev.StepFailed) for e in lab.runs()[0].events()))
    lab.open_gate()
    ended = host.ended()
    assert ended.code == 1, ended.err
    (run,) = lab.runs()
    (failed,) = [e for e in run.events() if isinstance(e, ev.StepFailed)]
    assert (failed.status, failed.error_type, failed.will_retry) == ("FAILED", "WorkerDied", False)
    assert "SIGKILL" in failed.error
    (violation,) = [e for e in run.events() if isinstance(e, ev.StatusContractViolation)]
    assert violation.step_id == failed.step_id
    complete = {e.step_id for e in run.events() if isinstance(e, ev.StepComplete)}
    assert complete == {"Job:First", "Job:Wait[0]", "Job:Wait[1]", "Job:Wait[2]"} - {failed.step_id}
    assert [e.step_id for e in run.events() if isinstance(e, ev.StepBlocked)] == ["Job:After"]
    lab.check_nobody_left()
    lab.check_evidence()

    lab.succeed()
    assert set(lab.executed(lab.runs()[-1])) == {failed.step_id, "Job:After"}
    assert lab.published() == FINAL
    lab.check_evidence()
    lab.check_replay()


def test_a_step_with_retries_survives_the_death_of_its_worker(tmp_path: Path) -> None:
    lab = GateLab(tmp_path)
    text = lab.file.read_text()
    lab.file.write_text(text.replace("  Wait:\n", "  Wait:\n    retries: {max: 1, backoff: 10ms}\n"))
    host = lab.start_waiting()
    killed_worker(lab)
    until(lambda: any(isinstance(e, ev.StepFailed) for e in lab.runs()[0].events()))
    lab.open_gate()
    ended = host.ended()
    assert ended.code == 0, ended.err
    (run,) = lab.runs()
    (failed,) = [e for e in run.events() if isinstance(e, ev.StepFailed)]
    assert failed.will_retry
    attempts = [e.attempt for e in run.events() if isinstance(e, ev.StepStart) and e.step_id == failed.step_id]
    assert attempts == [1, 2]
    assert lab.published() == FINAL
    assert lab.plan().planned == []
    lab.check_nobody_left()
    lab.check_evidence()
    lab.check_replay()
