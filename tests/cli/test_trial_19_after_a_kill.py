"""Issue 17, number 19: what a killed step with a secret left is removed by the first command that opens the state."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_lab import whyrun

from project_lab import Lab
from whyrun.execution.files.scratch import written_marker

Make = Callable[..., Lab]
SECRET = "correct-horse-battery"
FLOW = """
workflow: tale
jobs:
  Open:
    uses: shell
    with: {run: 'echo one > "$out_T"'}
    outputs: {T: {type: text}}
  Closed:
    uses: shell
    secrets: [TOKEN]
    with: {run: 'echo two > "$out_T"'}
    outputs: {T: {type: text}}
"""


def killed_in(lab: Lab, step: str, name: str = "r0001-77-1", site: str = "") -> Path:
    """A scratch folder as a run leaves it that was killed while this step was executed."""
    folder = lab.root / ".whyrun" / "tmp" / "tale.scratch" / name
    scratch = folder / site / "out" / "scratch" if site else folder
    (scratch / "work").mkdir(parents=True)
    (scratch / "work" / "notes.txt").write_text(f"it is {SECRET}")
    (folder / site / "step").write_bytes(written_marker(step, 1))
    return folder


@pytest.fixture
def ran(project: Make, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setenv("TOKEN", SECRET)
    lab = project(FLOW)
    lab.succeed()
    for name in ("Open", "Closed"):
        cfg = json.loads((lab.root / f".whyrun/tale/runs/r0001/cfg/{name}.json").read_bytes())
        assert bool(cfg.get("secrets")) == (name == "Closed")
    return lab


@pytest.mark.parametrize(
    "words", [["plan"], ["explain"], ["verify"], ["why", "Job:Open"], ["gc"], ["status"], ["parity", "r0001", "r0001"]]
)
def test_any_command_removes_what_a_step_with_a_secret_left(ran: Lab, words: list[str]) -> None:
    local = killed_in(ran, "Job:Closed")
    sandbox = killed_in(ran, "Job:Closed", "r0001-sandbox-77-0", site="3")
    worker = killed_in(ran, "Job:Closed", "r0001-dask/sites/whyrun-1/tmp/w1")
    kept = killed_in(ran, "Job:Open", "r0001-77-2")  # evidence, which the next run completes
    log = (ran.root / ".whyrun/tale/runs/r0001/events.jsonl").read_bytes()
    whyrun(ran.root, *words)
    assert not local.exists()
    assert not sandbox.exists()
    assert not worker.exists()
    assert (kept / "work" / "notes.txt").exists()
    assert (ran.root / ".whyrun/tale/runs/r0001/events.jsonl").read_bytes() == log


def test_folders_of_a_run_that_goes_on_stay(ran: Lab) -> None:
    folder = killed_in(ran, "Job:Closed")
    lock = os.open(ran.root / ".whyrun/tale/lock", os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        whyrun(ran.root, "plan")
        assert folder.exists()
    finally:
        os.close(lock)
    whyrun(ran.root, "plan")
    assert not folder.exists()
