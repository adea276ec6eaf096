"""`whyrun status ID` is about the chosen jobs and artifacts alone: also its leftovers and changed inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner

from project_lab import Lab
from whyrun.cli.main import cli
from whyrun.errors import InvalidError
from whyrun.facts.status import current_status

FLOW = """
    workflow: w
    inputs: {Words: {type: "text[]", default: "words/*.txt"}, Mark: {type: string, default: "!"}}
    loops: {word: {each: inputs.Words}}
    jobs:
      Shout:
        for: [word]
        uses: shell
        with: {text: "${{ inputs.Words[word] }}", run: 'cat "$text" > "$out_Loud"'}
        outputs: {Loud: {type: text, path: "out/${{ word }}.txt"}}
      Old:
        uses: shell
        with: {mark: "${{ inputs.Mark }}", run: 'echo "$mark" > "$out_T"'}
        outputs: {T: {type: text, path: old.txt}}
      New:
        uses: shell
        with: {all: "${{ inputs.Words }}", run: 'cat "${all[@]}" > "$out_T"'}
        outputs: {T: {type: text}}
"""


@pytest.fixture
def lab(project: Callable[..., Lab]) -> Lab:
    """After a run, `Old` was renamed, one word is gone, one has changed, and so has the mark."""
    made = project(FLOW, {f"words/{name}.txt": name for name in "abc"})
    made.succeed()
    made.edit("workflow.yaml", "Old:", "Young:")
    made.edit("workflow.yaml", "path: old.txt", "path: young.txt")
    made.edit("workflow.yaml", '"!"', '"?"')
    made.write({"words/a.txt": "changed", "words/c.txt": None})
    return made


def told(lab: Lab, *patterns: str) -> dict[str, Any]:
    return current_status(lab.opened(), patterns).to_json()


@pytest.mark.parametrize(
    ("pattern", "artifacts", "leftovers", "changed"),
    [
        ("Job:Shout[1]", ["Artifact:Shout.Loud[1]"], [], []),
        ("Job:Shout[0]", ["Artifact:Shout.Loud[0]"], [], ["Input:Words[0]"]),
        ("Job:Shout[*]", ["Artifact:Shout.Loud[0]", "Artifact:Shout.Loud[1]"], ["out/2.txt"], ["Input:Words[0]"]),
        ("Artifact:New.T", ["Artifact:New.T"], [], ["Input:Words[0]", "Input:Words[2]"]),
        ("Job:Young", ["Artifact:Young.T"], [], ["Input:Mark"]),
        ("Job:Old", [], ["old.txt"], []),
        ("Artifact:Old.T", [], ["old.txt"], []),
    ],
)
def test_a_filter_chooses_leftovers_and_changed_inputs_too(
    lab: Lab, pattern: str, artifacts: list[str], leftovers: list[str], changed: list[str]
) -> None:
    """Issue 17, number 28. Every leftover was appended, whatever was asked for."""
    found = told(lab, pattern)
    assert [artifact["id"] for artifact in found["artifacts"]] == artifacts
    assert [file["path"] for file in found["stale_files"]] == leftovers
    assert found["inputs_changed"] == changed


def test_without_a_filter_everything_is_listed(lab: Lab) -> None:
    found = told(lab)
    assert [file["path"] for file in found["stale_files"]] == ["old.txt", "out/2.txt"]
    assert found["inputs_changed"] == ["Input:Mark", "Input:Words[0]", "Input:Words[2]"]


def test_the_text_follows(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(lab.root)
    out = CliRunner().invoke(cli, ["status", "Job:Shout[1]"], catch_exceptions=False).stdout
    assert "leftover" not in out
    assert "inputs that changed" not in out
    with pytest.raises(InvalidError, match="`Job:Never` names nothing in this workflow"):
        told(lab, "Job:Never")
