"""After a kill or a full disk, the first command that shows runs completes the evidence, or says what is missing.

Issue 17, number 14.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_lab import whyrun

from project_lab import Lab
from whyrun import disk
from whyrun.execution.run.session import complete_last_run
from whyrun.log import events as ev
from whyrun.log.journal import utc_now
from whyrun.log.lock import RunLock
from whyrun.log.outcomes import fold_outcome, status_of

Make = Callable[..., Lab]
FLOW = """
workflow: tale
jobs:
  First:
    uses: shell
    with: {run: 'echo one > "$out_T"'}
    outputs: {T: {type: text}}
  Second:
    uses: shell
    with: {first: "${{ jobs.First.outputs.T }}", run: 'cat "$first" > "$out_T"'}
    outputs: {T: {type: text}}
"""
FILES = ["artifacts", "cfg", "commands.jsonl", "debug.log", "events.jsonl", "manifest.yaml", "metrics.jsonl"]
FILES += ["plan.json", "source", "status.json", "steps", "whyrun.log"]


@pytest.fixture
def on_disk() -> Iterator[Callable[[Callable[..., Any]], None]]:
    """Sets the hook of `whyrun.disk` until the test ends."""

    def use(hook: Callable[..., Any] | None) -> None:
        disk.hook = hook

    yield use
    disk.hook = None


def kill_second(lab: Lab) -> Path:
    """A run whose host was killed while `Second` was executed: without the end of its log and what comes after it."""
    ran = lab.succeed()
    assert ran.folder is not None
    lines = (ran.folder / "events.jsonl").read_bytes().splitlines(keepends=True)
    start = next(i for i, line in enumerate(lines) if b'"step_start","step_id":"Job:Second"' in line)
    (ran.folder / "events.jsonl").write_bytes(b"".join(lines[: start + 1]))
    (ran.folder / "status.json").unlink()
    for link in sorted((ran.folder / "artifacts").rglob("*"), reverse=True):
        link.rmdir() if link.is_dir() and not link.is_symlink() else link.unlink()
    (ran.folder / "artifacts").rmdir()
    return ran.folder


@pytest.mark.parametrize("words", [["status"], ["show", "r0001"], ["log"], ["runs"]])
def test_commands_that_show_runs_complete_a_killed_one(project: Make, words: list[str]) -> None:
    lab = project(FLOW)
    folder = kill_second(lab)
    plan = lab.plan()
    answer = whyrun(lab.root, *words)
    assert answer.code == 0
    assert answer.err == "note: r0001 was cut short; its log was repaired (1 open step counted as interrupted)\n"
    assert sorted(set(FILES) - {path.name for path in folder.iterdir()}) == []
    status = json.loads((folder / "status.json").read_bytes())
    assert (status["state"], status["exit_code"]) == ("interrupted", 130)
    assert (status["steps_completed"], status["steps_interrupted"]) == (1, 1)
    assert (folder / "artifacts/First/T.txt").read_text() == "one\n"
    assert whyrun(lab.root, *words).err == ""  # nothing is left to do
    assert lab.plan().digest == plan.digest
    assert whyrun(lab.root, "verify").code == 0


def test_plans_repair_nothing_and_a_run_that_goes_on_is_left_alone(project: Make) -> None:
    lab = project(FLOW)
    folder = kill_second(lab)
    before = (folder / "events.jsonl").read_bytes()
    lab.plan()
    notes: list[str] = []
    with RunLock.of(lab.opened().state, utc_now):
        complete_last_run(lab.opened(), notes.append)
    assert ((folder / "events.jsonl").read_bytes(), notes) == (before, [])
    assert not (folder / "status.json").exists()


def test_where_it_cannot_be_completed_the_command_says_what_is_missing(project: Make, on_disk: Any) -> None:
    lab = project(FLOW)
    kill_second(lab)

    def read_only(point: str, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        if point == "lock.open":
            raise OSError(errno.EROFS, "Read-only file system", str(lab.opened().state.lock_path))
        return call(*arguments, **named)

    on_disk(read_only)
    notes: list[str] = []
    complete_last_run(lab.opened(), notes.append)
    assert notes == [
        "r0001 was cut short, and its folder cannot be completed now (`status.json`, `artifacts/`): DISK_FAILED: "
        "Read-only file system (`lock`). Mend that, then repeat the command; the next run completes it, too"
    ]


@pytest.mark.parametrize("point", ["artifact-link.mkdir", "run.write", "log.sync"])
def test_a_full_disk_is_in_the_log_and_in_the_status(project: Make, on_disk: Any, point: str) -> None:
    """The command ends with status 3, so `status.json` says 3, and where it exists all artifacts are linked."""
    lab = project(FLOW)
    failed = False

    def full(at: str, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        nonlocal failed
        last = lab.root / ".whyrun/tale/runs/r0001/events.jsonl"
        if at == point and not failed and last.exists() and last.read_bytes().count(b'"step_complete"') == 2:
            failed = True
            raise OSError(errno.ENOSPC, "No space left on device", "/somewhere/file")
        return call(*arguments, **named)

    on_disk(full)
    with pytest.raises(OSError, match="No space left"):
        lab.run()
    on_disk(None)
    assert failed
    complete_last_run(lab.opened(), print)  # only if the run could not do it
    folder = lab.run_folder("r0001")
    events = lab.events("r0001")
    status = json.loads((folder / "status.json").read_bytes())
    assert status == status_of(fold_outcome(events))
    end = events[-1]
    assert isinstance(end, ev.RunComplete)
    if (
        point != "log.sync"
    ):  # after a failed sync nothing may be added to the log: the run is repaired like a killed one
        assert (end.state, end.exit_code) == ("failed", 3)
        assert end.error == status["error"] == "DISK_FAILED: No space left on device (`file`)"
        assert (status["ok"], status["state"], status["exit_code"]) == (False, "failed", 3)
    assert (folder / "artifacts/First/T.txt").read_text() == "one\n"
    assert (folder / "artifacts/Second/T.txt").read_text() == "one\n"
    assert lab.plan().totals["clean"] == 2
