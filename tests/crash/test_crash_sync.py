"""A sync beside the work that ends in an error of any kind: nothing that it should have covered counts as synced."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from crash_lab import PATIENCE

from project_lab import Heard
from whyrun import disk
from whyrun.artifacts.store import Store
from whyrun.console.lines import TaskStatus
from whyrun.evidence.run_directory import RunDirectory
from whyrun.execution.recording.recorder import Recorder
from whyrun.log.events import RunStart, Task
from whyrun.log.journal import utc_now
from whyrun.log.runs import WorkflowState, create_run


@pytest.fixture
def unhooked() -> Iterator[None]:
    yield
    disk.hook = None


def sync_until_it_fails(recorder: Recorder) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        recorder.sync_if_due()
        time.sleep(0.01)


@pytest.mark.parametrize("point", ["store.sync_filesystem", "log.sync"])
@pytest.mark.parametrize("problem", [OSError(5, "Input/output error"), MemoryError("no room"), ValueError("a fault")])
def test_what_a_broken_sync_should_have_covered_is_neither_synced_nor_told(
    tmp_path: Path, unhooked: None, point: str, problem: Exception
) -> None:
    state = WorkflowState(tmp_path / ".whyrun", "tale")
    start = RunStart(
        workflow="tale", workflow_sha256="a" * 64, mode="run", options={}, backend="local", engine_version="0",
        host="here", pid=1, previous_chain="",
    )  # fmt: skip
    run, journal = create_run(state, start, utc_now)
    state.store.mkdir(exist_ok=True)
    heard, synced = Heard(), list[int]()
    journal.on_synced = lambda seq, for_good: synced.append(seq)
    recorder = Recorder(journal, RunDirectory(run.path), Store(state.store), heard, utc_now)

    def broken(at: str, call: Any, *given: Any, **options: Any) -> Any:
        if at == point:
            raise problem
        return call(*given, **options)

    disk.hook = broken
    task = Task(step_id="Job:A", status="EXECUTES", message="", details={})
    recorder.event(msgspec.structs.replace(task))
    recorder.status("Job:A", TaskStatus.EXECUTES, "in 1 s")
    with pytest.raises(type(problem), match=str(problem.args[-1])):
        sync_until_it_fails(recorder)
    disk.hook = None  # the next one would go well, and know nothing of what the first has lost
    recorder.event(task)
    with pytest.raises(OSError, match=str(problem.args[-1])):
        recorder.close()
    assert (synced, heard.lines) == ([], [])
    journal.close()
