"""A clock that can be told, sample events, and a state folder."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from whyrun.log.events import ArtifactAvailable, Event, RunStart, StepComplete, StepStart, Task
from whyrun.log.runs import WorkflowState

STRANGE = 'two\nlines, "quotes", ünïcödé \u2028 \x00 🎈'


class TickingClock:
    """Starts at a fixed moment and moves on by one millisecond with each look."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 6, 23, 12, 3, 23, 123456, tzinfo=UTC)

    def __call__(self) -> datetime:
        now = self.moment
        self.moment += timedelta(milliseconds=1)
        return now


@pytest.fixture
def clock() -> TickingClock:
    return TickingClock()


@pytest.fixture
def state(tmp_path: Path) -> WorkflowState:
    return WorkflowState(tmp_path / ".whyrun", "then-and-now")


@pytest.fixture
def run_start() -> RunStart:
    return RunStart(
        workflow="then-and-now",
        workflow_sha256="a" * 64,
        mode="run",
        options={},
        backend="local",
        engine_version="0.1.0",
        host="here",
        pid=1,
        previous_chain="",
    )


@pytest.fixture
def step_events() -> Callable[[str], list[Event]]:
    """The events of one step that went well."""

    def events(path: str) -> list[Event]:
        step = f"Job:{path}"
        return [
            StepStart(step_id=step, driver="shell", attempt=1, fingerprint="f" * 64, bindings={}),
            Task(step_id=step, status="note", message=STRANGE, details={"n": [1, 2.5]}),
            ArtifactAvailable(artifact=f"Artifact:{path}.Image", step_id=step, sha256="b" * 64, size=3, type="image"),
            StepComplete(step_id=step, driver="shell", output_dir=f"a/{path}", duration=0.25, status="EXECUTES"),
        ]

    return events
