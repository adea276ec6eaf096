"""A remote worker ignores late signals, and output transfer is not counted in the timeout."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from worker_lab import Lab

from project_lab import PATIENCE
from whyrun.execution.backends.remote.process import ProcessTransport
from whyrun.execution.backends.remote.remote_worker import RemoteJob, RemoteWorker
from whyrun.execution.protocol.messages import Message, StepBegan, StepFinished, StepReturns
from whyrun.execution.run import runner
from whyrun.execution.run.termination import Termination


class Meddling(ProcessTransport):
    """While the files of a step are brought back, somebody ends it."""

    worker: RemoteWorker

    def fetch_tree(self, path: str, target: Path) -> bool:
        self.worker.signal("Job:S", signal.SIGKILL)
        return super().fetch_tree(path, target)


def test_a_signal_that_comes_after_a_step_has_ended_does_not_end_its_next_attempt(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.file(
        "m.py",
        "from pathlib import Path\n"
        f"COUNT = Path({str(tmp_path / 'count')!r})\n"
        "def f():\n    with open(COUNT, 'a') as file:\n        file.write('x')\n    return {'n': 1}\n",
    )
    transport = Meddling(tmp_path / "site", lab.project)
    lab.session.tmp.mkdir(parents=True, exist_ok=True)
    worker = transport.worker = RemoteWorker(lab.session, transport)
    try:
        for attempt in (1, 2):
            said: list[Message] = []
            worker.perform(RemoteJob(lab.call("m:f", {"n": "integer"}, attempt=attempt)), said.append)
            assert [type(message) for message in said] == [StepBegan, StepReturns, StepFinished]
            began, _, end = said
            assert isinstance(began, StepBegan)
            assert isinstance(end, StepFinished)
            assert (began.attempt, end.attempt, end.error_type) == (attempt, attempt, None)
    finally:
        worker.close()
        lab.backend.close()
    assert (tmp_path / "count").read_text() == "xx"


def test_output_transfer_is_not_counted_in_the_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the clock of the run it takes two hours."""
    from project_lab import Lab as Project
    from whyrun.execution.backends.remote.threaded import ThreadedBackend

    hours = 0.0
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + hours * 3600)
    monkeypatch.setattr(runner, "time", clock)
    looked = threading.Event()
    enforce = Termination.enforce_deadlines

    def enforced(self: Termination, now: float) -> None:
        enforce(self, now)
        if now > time.monotonic() + 3600:
            looked.set()

    monkeypatch.setattr(Termination, "enforce_deadlines", enforced)

    class Slow(ProcessTransport):
        def fetch_tree(self, path: str, target: Path) -> bool:
            nonlocal hours
            hours = 2.0
            assert looked.wait(PATIENCE)
            return super().fetch_tree(path, target)

    project = Project(tmp_path).write(
        {
            "workflow.yaml": """
                workflow: back
                jobs:
                  Quick:
                    uses: python
                    timeout: 1h
                    with: {call: "work:quick"}
                    outputs: {text: {type: string}}
            """,
            "work.py": "def quick():\n    return {'text': 'made'}\n",
        }
    )
    backend = ThreadedBackend(
        "slow", lambda session: RemoteWorker(session, Slow(session.tmp / "r-site", session.project))
    )
    assert project.succeed(backend=backend).executed == ["Job:Quick"]
    assert looked.is_set()
