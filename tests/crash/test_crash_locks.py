"""One run at a time: a second is refused, readers are not, and the dead hold no lock."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from crash_gate import FINAL, GateLab

from project_lab import is_held
from whyrun.console.logger import WorkflowLogger
from whyrun.errors import StateError
from whyrun.execution.backends.registry import RunOptions
from whyrun.execution.run.session import run_workflow
from whyrun.log import events as ev
from whyrun.log.lock import holder
from whyrun.planning.plan import PlanOptions


def test_a_second_run_is_refused_and_told_who_runs(tmp_path: Path) -> None:
    lab = GateLab(tmp_path)
    host = lab.start_waiting()
    before = lab.runs()[0].events_path.read_bytes()
    second = lab.run()
    assert second.code == 3
    assert "error[LOCKED]" in second.err
    assert f"process {host.pid} on {os.uname().nodename}" in second.err
    assert "run r0001" in second.err
    with pytest.raises(StateError, match="LOCKED"):
        run_workflow(lab.opened(), PlanOptions(), RunOptions(), WorkflowLogger(terminal=False))
    assert [run.name for run in lab.runs()] == ["r0001"]
    assert lab.runs()[0].events_path.read_bytes().startswith(before)
    lab.open_gate()
    ended = host.ended()
    assert ended.code == 0, ended.err
    assert lab.published() == FINAL
    lab.check_evidence()


def test_plans_can_be_made_while_a_run_goes_on(tmp_path: Path) -> None:
    lab = GateLab(tmp_path)
    host = lab.start_waiting()
    state = lab.opened().state
    held = holder(state.lock_path)
    assert held is not None
    assert (held.pid, held.run) == (host.pid, "r0001")
    plan = lab.plan()
    assert set(plan.headlines()) == {"Job:Wait[0]", "Job:Wait[1]", "Job:Wait[2]", "Job:After"}
    assert lab.plan().to_bytes() == plan.to_bytes()
    assert not any(isinstance(e, ev.LogRepaired) for e in lab.runs()[0].events()), "readers repair nothing"
    host.kill()
    killed = lab.plan()
    assert set(killed.headlines()) == set(plan.headlines())
    assert killed.digest != plan.digest, "the steps of a killed run were interrupted, those of a run that goes on not"
    lab.open_gate()
    ended = lab.succeed()
    assert ended.result["plan_digest"] == killed.digest, "the repair changes no plan"


def test_the_lock_of_a_killed_run_is_free_at_once(tmp_path: Path) -> None:
    lab = GateLab(tmp_path, ignore="TERM INT HUP")
    host = lab.start_waiting()
    lock = lab.opened().state.lock_path
    assert is_held(lock)
    ended = host.kill()
    assert ended.code == -signal.SIGKILL
    assert not is_held(lock)  # although workers may still be ending
    lab.open_gate()
    ended = lab.succeed()
    assert "r0001 was cut short" in ended.err
    lab.check_nobody_left()
    assert lab.published() == FINAL
    lab.check_evidence()


def test_of_runs_started_together_one_at_a_time_writes(tmp_path: Path) -> None:
    lab = GateLab(tmp_path)
    lab.open_gate()
    hosts = [lab.start() for _ in range(4)]
    codes = sorted(host.ended().code for host in hosts)
    assert codes[0] == 0
    assert set(codes) <= {0, 3}
    executed = [step for run in lab.runs() for step in lab.executed(run)]
    assert len(executed) == len(set(executed)) == 5
    assert lab.published() == FINAL
    lab.check_evidence()
