"""Files that the user names for output: an existing file of another kind is not overwritten or appended to."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_lab import whyrun

FLOW = """\
workflow: w
inputs:
  F: {type: file, default: f.txt}
  D: {type: directory, default: data}
  Many: {type: "file[]", default: "many/*.txt"}
jobs:
  A:
    uses: python
    with: {call: "m:go", f: "${{ inputs.F }}", d: "${{ inputs.D }}"}
    code: ["tools/*"]
    outputs:
      T: {type: text, path: out/o.txt}
      E: {type: directory, path: out/e}
      S: {type: json, path: out/all.json, append: true}
"""
CODE = """\
from pathlib import Path

def go(f, d, context):
    context.output("E").mkdir()
    return {"T": Path(f).read_text(), "S": {"a": 1}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "workflow.yaml").write_text(FLOW)
    (tmp_path / "m.py").write_text(CODE)
    (tmp_path / "f.txt").write_text("given\n")
    for name in ("data", "many", "tools"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "given.txt").write_text("given\n")
    assert whyrun(tmp_path, "run", "-q").code == 0
    return tmp_path


EVENTS = ".whyrun/w/runs/r0001/events.jsonl"
TAKEN = {
    "workflow.yaml": "the file of this workflow",
    "m.py": "code that `A` uses",
    "f.txt": "an input (`f.txt`)",
    "data/new.log": "an input (`data`)",
    "many/new.txt": "a file that `many/*.txt` of `Input:Many` matches",
    "tools/new.log": "a file that `tools/*` of `code:` of `A` matches",
    "out/o.txt": "where `Job:A` publishes `T`",
    "out/all.json": "where `Job:A` publishes `S`",
    "out/e/new.log": "where `Job:A` publishes `E`",
    EVENTS: "where whyrun keeps its state",
    ".whyrun/new.log": "where whyrun keeps its state",
}


@pytest.mark.parametrize("command", [("run", "--force", "Job:A"), ("compare", "Job:A")])
@pytest.mark.parametrize(("path", "what"), TAKEN.items())
def test_lines_are_added_to_no_file_of_the_workflow(
    folder: Path, command: tuple[str, ...], path: str, what: str
) -> None:
    before = (folder / path).read_bytes() if (folder / path).exists() else None
    refused = whyrun(folder, *command, "--log-file", path)
    assert (refused.code, refused.err.splitlines()) == (
        2,
        [f"error[USAGE]: `--log-file {path}`: this is {what}", "   hint: choose a file that is used for nothing else"],
    )
    assert ((folder / path).read_bytes() if (folder / path).exists() else None) == before
    assert whyrun(folder, "verify").code == 0


def test_through_a_link_it_is_the_same_file(folder: Path) -> None:
    (folder / "today.log").symlink_to("f.txt")
    assert whyrun(folder, "run", "--log-file", "today.log").code == 2
    assert (folder / "f.txt").read_text() == "given\n"


def test_a_log_of_ones_own_grows(folder: Path) -> None:
    (folder / "today.log").write_text("mine\n")
    assert whyrun(folder, "run", "--force", "Job:A", "--log-file", "today.log").code == 0
    first, *lines = (folder / "today.log").read_text().splitlines()
    assert first == "mine"
    assert any("EXECUTES Job:A" in line for line in lines)


@pytest.mark.parametrize("path", ["workflow.yaml", "f.txt", "m.py", "out/o.txt", EVENTS])
def test_a_plan_is_saved_over_nothing_but_a_plan(folder: Path, path: str) -> None:
    before = (folder / path).read_bytes()
    refused = whyrun(folder, "plan", "--save", path)
    assert (refused.code, refused.err.splitlines()) == (
        2,
        [
            f"error[USAGE]: `{path}` exists and is not a saved plan: it is not overwritten",
            "   hint: choose another name, or remove the file first",
        ],
    )
    assert (folder / path).read_bytes() == before


def test_over_an_earlier_plan_or_an_empty_file_it_is_saved(folder: Path) -> None:
    (folder / "p.json").touch()
    for _ in range(2):
        assert whyrun(folder, "plan", "--force", "Job:A", "--save", "p.json").code == 0
    assert whyrun(folder, "run", "-q", "--plan", "p.json").code == 0
