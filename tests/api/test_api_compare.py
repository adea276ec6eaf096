"""`whyrun.compare` from Python."""

from __future__ import annotations

from pathlib import Path

import pytest

import whyrun

WORKFLOW = """\
workflow: w
jobs:
  J: {uses: python, with: {call: "tell:it"}, outputs: {T: {type: json, path: out/t.json}}}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "workflow.yaml").write_text(WORKFLOW)
    (tmp_path / "tell.py").write_text('def it():\n    return {"T": {"x": 1}}\n')
    assert whyrun.run(tmp_path / "workflow.yaml").exit_code == 0
    return tmp_path / "workflow.yaml"


def test_a_difference_is_a_result_and_no_exception(file: Path) -> None:
    (file.parent / "tell.py").write_text('def it():\n    return {"T": {"x": 2}}\n')
    lines: list[str] = []
    result = whyrun.compare(file, "Job:J", logger=whyrun.WorkflowLogger(terminal=False, capture=lines))
    assert isinstance(result, whyrun.CompareResult)
    assert (result.run, result.exit_code, result.counts.different) == ("r0002", 1, 1)
    assert [(a.artifact, a.status, a.summary, a.details) for a in result.artifacts] == [
        ("Artifact:J.T", "DIFFERENT", "1 value changed", ("$.x: 1 → 2",))
    ]
    assert len(lines) == 1
    assert lines[0].endswith("→ outputs: out/t.json (1 value changed)")
    assert repr(result).startswith("<whyrun r0002 failed in ")
    accepted = whyrun.load(file).compare(accept=True)
    assert accepted.exit_code == 1
    assert whyrun.compare(file).exit_code == 0
    assert whyrun.compare(file, against="r0001").exit_code == 1


def test_nothing_to_compare(tmp_path: Path) -> None:
    (tmp_path / "workflow.yaml").write_text(WORKFLOW)
    (tmp_path / "tell.py").write_text("def it(): ...\n")
    result = whyrun.compare(tmp_path / "workflow.yaml")
    assert (result.run, result.state, result.exit_code, repr(result)) == (
        None,
        "nothing",
        0,
        "<whyrun: nothing to compare>",
    )
