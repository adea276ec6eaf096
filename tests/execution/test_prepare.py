"""`prepare` in whyrun.toml runs once, before the first step. If it fails, the run ends (lesson 20)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from worker_lab import process_backend

from project_lab import Lab, codes
from whyrun.errors import WhyrunError
from whyrun.execution.backends.base import Backend
from whyrun.execution.backends.local.backend import LocalBackend
from whyrun.log import events as ev

WORKFLOW = """
    workflow: ready
    jobs:
      First:
        uses: python
        with: {call: "work:first"}
        outputs: {text: {type: string}}
      Second:
        uses: python
        with: {call: "work:second", text: "${{ jobs.First.outputs.text }}"}
        outputs: {text: {type: string}}
"""
WORK = """
    def first(context):
        return {"text": (context.project / "ready.txt").read_text()}

    def second(text):
        return {"text": text + "!"}
"""
BACKENDS: dict[str, Callable[[], Backend]] = {"local": LocalBackend, "process": process_backend}


@pytest.fixture(params=BACKENDS)
def make_backend(request: pytest.FixtureRequest) -> Callable[[], Backend]:
    return BACKENDS[request.param]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path).write({"workflow.yaml": WORKFLOW, "work.py": WORK})


def test_prepare_runs_once_before_the_first_step(lab: Lab, make_backend: Callable[[], Backend]) -> None:
    lab.write({"whyrun.toml": 'prepare = "printf once >> ready.txt"\n'})
    ran = lab.succeed(backend=make_backend(), jobs=2)
    assert lab.content("Artifact:Second.text") == "once!"
    assert ran.executed == ["Job:First", "Job:Second"]
    assert ran.status()["error"] is None
    # With nothing to do, nothing is prepared.
    assert lab.run(backend=make_backend()).result.run is None
    assert lab.read("ready.txt") == "once"


def test_lesson_20_after_a_failed_prepare_no_step_runs_and_the_run_says_so(
    lab: Lab, make_backend: Callable[[], Backend]
) -> None:
    lab.write({"whyrun.toml": 'prepare = "echo no licence >&2; exit 3"\n'})
    before = codes(lab.plan())
    ran = lab.run(backend=make_backend())
    assert (ran.exit_code, ran.result.state, ran.starts) == (1, "failed", [])
    assert ran.result.counts.not_started == 2
    error = "PrepareFailed: `echo no licence >&2; exit 3` ended with exit status 3\nno licence"
    (end,) = ran.of(ev.RunComplete)
    assert (end.state, end.error) == ("failed", error)
    status = ran.status()
    assert (status["ok"], status["exit_code"], status["error"]) == (False, 1, error)
    assert (status["steps_total"], status["steps_completed"], status["steps_failed"]) == (2, 0, 0)
    ((kind, line),) = ran.heard.lines
    assert kind == "FAILED"
    line = re.sub(r"after [\d.]+s", "after 0s", line)
    assert line.endswith(
        "[prepare] FAILED preparing the backend after 0s → "
        "PrepareFailed: `echo no licence >&2; exit 3` ended with exit status 3 → no licence (see log line 2)"
    )
    assert ran.folder is not None
    assert (ran.folder / "whyrun.log").read_text().splitlines()[1] == "    no licence"
    # All that was to be done is still to be done, for the same reasons.
    assert codes(lab.plan()) == before
    lab.write({"whyrun.toml": 'prepare = "printf ready > ready.txt"\n'})
    assert lab.succeed(backend=make_backend()).executed == ["Job:First", "Job:Second"]


def test_an_invalid_prepare_command_is_refused(lab: Lab) -> None:
    for wrong in ("prepare = 3", 'prepare = ""', 'prepare = ["a", "b"]'):
        lab.write({"whyrun.toml": f"{wrong}\n"})
        with pytest.raises(WhyrunError) as refused:
            lab.run()
        (found,) = refused.value.diagnostics
        assert (found.code, found.message) == ("WRONG_TYPE", "`prepare` is a command for bash: a string")
    assert json.dumps(lab.runs()) == "[]"
