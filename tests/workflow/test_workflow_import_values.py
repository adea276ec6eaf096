"""What an import may hand to its inputs: references, `first(…)`, `exists(…)`, the name of the workflow, and text."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from whyrun.project import Project

PART = """\
workflow: part
inputs: {Given: {type: json}}
jobs: {A: {uses: shell, with: {run: "true", given: "${{ inputs.Given }}"}}}
"""


def open_project(folder: Path, written: str) -> Project:
    (folder / "part.yaml").write_text(PART)
    text = """\
        workflow: whole
        inputs:
          Words: {type: "string[]", default: [a, b]}
          Spare: {type: string, default: c}
        imports:
          Part: {workflow: part.yaml, with: {Given: "${{ HERE }}"}}
        jobs: {}
        """
    (folder / "w.yaml").write_text(dedent(text).replace('"${{ HERE }}"', f"'{written}'"))
    return Project.open(folder / "w.yaml")


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("${{ inputs.Words[1] }}", "b"),
        ("${{ inputs.Words }}", ["a", "b"]),
        ("${{ first(inputs.Words[1], inputs.Spare) }}", "b"),
        ("${{ first(inputs.Words[2], inputs.Spare) }}", "c"),
        ("${{ exists(inputs.Words[1]) }}", True),
        ("${{ exists(inputs.Words[2]) }}", False),
        ("${{ workflow.name }}", "whole"),
        ("${{ workflow.name }}: ${{ first(inputs.Words[7], inputs.Words[0]) }}", "whole: a"),
    ],
)
def test_what_an_import_hands_down(tmp_path: Path, written: str, value: Any) -> None:
    opened = open_project(tmp_path, written)
    assert opened.problems == ()
    assert opened.inputs["Input:Part/Given"].value == value


@pytest.mark.parametrize(
    "written", ["${{ inputs.Words[2] }}", "${{ first(inputs.Words[3], inputs.Words[2]) }}", "x ${{ inputs.Words[2] }}"]
)
def test_a_missing_element_is_reported_once(tmp_path: Path, written: str) -> None:
    (found,) = open_project(tmp_path, written).problems
    assert (found.code, found.line, found.message) == (
        "INDEX_OUT_OF_RANGE",
        6,
        "there is no element 2: the array has 2",
    )
