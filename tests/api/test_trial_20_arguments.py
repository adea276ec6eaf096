"""Arguments of a wrong type are errors that say so, and never reach the log. Issue 17, number 20."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import whyrun
from whyrun.api import LoadedWorkflow
from whyrun.errors import WhyrunError
from whyrun.log import events as ev
from whyrun.log.journal import check

FLOW = """
workflow: w
jobs:
  A: {uses: shell, with: {run: 'echo a > "$out_T"'}, outputs: {T: {type: text}}}
"""


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> LoadedWorkflow:
    file = tmp_path_factory.mktemp("project") / "workflow.yaml"
    file.write_text(FLOW)
    loaded = whyrun.load(file)
    assert loaded.run().exit_code == 0
    return loaded


WRONG: dict[str, tuple[Callable[[LoadedWorkflow], Any], str]] = {
    "accept": (lambda flow: flow.compare(accept=1), "`accept` is 1"),  # type: ignore[arg-type]
    "against": (lambda flow: flow.compare(against=2), "`against` is 2"),  # type: ignore[arg-type]
    "ids": (lambda flow: flow.compare(5), "`ids` is 5"),  # type: ignore[arg-type]
    "targets": (lambda flow: flow.run(targets=[1]), "`targets` is 1"),  # type: ignore[list-item]
    "force": (lambda flow: flow.run(force=[None]), "`force` is None"),  # type: ignore[list-item]
    "up": (lambda flow: flow.run(up=True), "`up` is True"),
    "limits": (lambda flow: flow.run(limits=5), "`limits` is 5"),  # type: ignore[arg-type]
    "limits by number": (lambda flow: flow.run(limits={3: 4}), "`limits` is 3"),  # type: ignore[dict-item]
    "jobs": (lambda flow: flow.run(jobs="2"), "`jobs` is '2'"),  # type: ignore[arg-type]
    "fail_fast": (lambda flow: flow.run(fail_fast="no"), "`fail_fast` is 'no'"),  # type: ignore[arg-type]
    "backend": (lambda flow: flow.run(backend=3), "`backend` is 3"),  # type: ignore[arg-type]
    "backend_options": (lambda flow: flow.run(backend_options="x"), "`backend_options` is 'x'"),  # type: ignore[arg-type]
    "dask_address": (lambda flow: flow.run(dask_address=1), "`dask_address` is 1"),  # type: ignore[arg-type]
    "logger": (lambda flow: flow.run(logger=print), "`logger` is <built-in function print>"),  # type: ignore[arg-type]
    "assume": (lambda flow: flow.plan(assume=[3]), "`assume` is 3"),  # type: ignore[list-item]
    "at": (lambda flow: flow.plan(at=3), "`at` is 3"),  # type: ignore[arg-type]
    "file": (lambda flow: whyrun.load(5), "`file` is 5"),  # type: ignore[arg-type]
    "inputs": (lambda flow: whyrun.load(flow.file, inputs=[1]), "`inputs` is [1]"),  # type: ignore[arg-type]
    "inputs by number": (lambda flow: whyrun.load(flow.file, inputs={1: 2}), "`inputs` is 1"),  # type: ignore[dict-item]
    "state": (lambda flow: whyrun.load(flow.file, state=1), "`state` is 1"),  # type: ignore[arg-type]
    "file to validate": (lambda flow: whyrun.validate(5), "`file` is 5"),  # type: ignore[arg-type]
    "file of a workflow": (lambda flow: LoadedWorkflow(5), "`file` is 5"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", WRONG)
def test_an_argument_of_a_wrong_type_is_told_and_leaves_the_state_as_it_was(name: str, flow: LoadedWorkflow) -> None:
    call, message = WRONG[name]
    runs = Path(flow.file).parent / ".whyrun" / "w" / "runs"
    before = {file: file.read_bytes() for file in runs.rglob("*") if file.is_file()}
    with pytest.raises(WhyrunError) as refused:
        call(flow)
    found = refused.value.diagnostics[0]
    assert (found.code, found.message) == ("USAGE", message)
    assert found.hint is not None
    assert found.hint.startswith(f"`{name.split()[0]}` takes ")
    assert {file: file.read_bytes() for file in runs.rglob("*") if file.is_file()} == before
    assert flow.plan().headlines() == {}


def test_an_event_that_the_fold_cannot_read_is_not_written() -> None:
    start = {
        "workflow": "w", "workflow_sha256": "0" * 64, "mode": "compare", "backend": "local", "engine_version": "1",
        "host": "h", "pid": 1, "previous_chain": "",
    }  # fmt: skip
    check(ev.RunStart(options={"accept": True}, **start))
    with pytest.raises(TypeError, match=r"`options\.accept` is 1, not true or false"):
        check(ev.RunStart(options={"accept": 1}, **start))
    check(ev.StepSkipped(step_id="Job:A", why="reused", shared={"duration": 1.5}))
    with pytest.raises(TypeError, match=r"`shared\.duration` is 'long', not a number"):
        check(ev.StepSkipped(step_id="Job:A", why="reused", shared={"duration": "long"}))
