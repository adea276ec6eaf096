"""Values in the log are checked against their hashes, because steps read them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from verify_lab import whyrun

from forging import forge
from project_lab import Lab
from whyrun.errors import StateError

WORKFLOW = """
    workflow: values
    jobs:
      A:
        uses: shell
        with: {run: 'echo "{\\"n\\": 130}" > "$out_J"'}
        outputs: {J: {type: json, leaves: {n: integer}}}
      B:
        uses: shell
        with: {n: "${{ jobs.A.outputs.J.n }}", run: 'echo $n > "$out_T"'}
        outputs: {T: {type: text, path: out/b.txt}}
      C:
        if: ${{ jobs.A.outputs.J.n > 100 }}
        uses: shell
        with: {run: 'echo many > "$out_T"'}
        outputs: {T: {type: text}}
"""
SAID = "the value of `Artifact:A.J.n` does not have the recorded hash"


@pytest.fixture
def lab(project: Callable[..., Lab]) -> Lab:
    lab = project(WORKFLOW, {})
    lab.succeed()
    return lab


def log_of(lab: Lab) -> Path:
    return lab.root / ".whyrun/values/runs/r0001/events.jsonl"


def line_of(lab: Lab, event: str, subject: str) -> int:
    events = [json.loads(line) for line in log_of(lab).read_bytes().splitlines()]
    return next(e["seq"] for e in events if e["event"] == event and subject in (e.get("artifact"), e.get("step_id")))


@pytest.mark.parametrize("chained", [False, True])
def test_nothing_is_executed_or_decided_on_a_value_that_is_not_the_recorded_one(lab: Lab, chained: bool) -> None:
    """Its result would count as made of what has that hash, here and, through a shared store, everywhere."""
    log, line = log_of(lab), line_of(lab, "artifact_available", "Artifact:A.J.n")
    if chained:
        forge(log, '"value":130', '"value":131')
    else:
        log.write_bytes(log.read_bytes().replace(b'"value":130', b'"value":131'))
    for command in (lab.plan, lab.run):
        with pytest.raises(StateError) as problem:
            command()
        (told,) = problem.value.diagnostics
        assert (told.code, told.line, told.message) == ("LOG_DAMAGED", line, SAID)
    assert (lab.root / "out/b.txt").read_text() == "130\n"


def test_verify_reports_the_lines_with_such_values(lab: Lab) -> None:
    """Also what a step was given, which only says what it was: nothing is planned with it."""
    available = line_of(lab, "artifact_available", "Artifact:A.J.n")
    began = line_of(lab, "step_start", "Job:B")
    forge(log_of(lab), '"value":130', '"value":131')
    answer = whyrun(lab.root, "verify", "--json")
    assert answer.code == 3
    values = [p for p in answer.json["problems"] if p["what"] == SAID]
    assert [(p["kind"], p["run"], p["line"], p["event"], p["subject"]) for p in values] == [
        ("log", "r0001", available, "artifact_available", "Artifact:A.J.n"),
        ("log", "r0001", began, "step_start", "Job:B"),
    ]
