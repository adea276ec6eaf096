"""A saved plan is a gate: it runs only what was looked at, with the code and the inputs that it was made from.

Issue 17, number 23.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_lab import whyrun

FLOW = """
workflow: gate
inputs: {Word: {type: string, default: one}, Photo: {type: file, default: photo.txt}}
jobs:
  Print:
    uses: shell
    with:
      word: "${{ inputs.Word }}"
      photo: "${{ inputs.Photo }}"
      run: 'cat "$photo" > "$out_T"; echo "$word" >> "$out_T"'
    outputs: {T: {type: text, path: t.txt}}
  Count:
    uses: python
    with: {text: "${{ jobs.Print.outputs.T }}", call: "steps:count"}
    outputs: {N: {type: json}}
"""
STEPS = "def count(text):\n    return {'N': len(open(text).read())}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "workflow.yaml").write_text(FLOW)
    (tmp_path / "steps.py").write_text(STEPS)
    (tmp_path / "photo.txt").write_text("a photo\n")
    return tmp_path


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_on_an_empty_log_a_saved_plan_is_run_as_long_as_nothing_differs(folder: Path) -> None:
    assert whyrun(folder, "plan", "--save", "p.json").code == 0
    ran = whyrun(folder, "run", "-q", "--plan", "p.json")
    assert (ran.code, (folder / "t.txt").read_text()) == (0, "a photo\none\n")


@pytest.mark.parametrize(
    ("change", "words", "differs"),
    [
        ("run", (), "workflow.yaml"),
        ("code", (), "the code of Job:Count: "),
        ("photo", (), "Input:Photo"),
        ("set", ("--set", "Word=two"), "Input:Word"),
    ],
)
def test_on_an_empty_log_other_code_or_inputs_refuse_a_saved_plan(
    folder: Path, change: str, words: tuple[str, ...], differs: str
) -> None:
    assert whyrun(folder, "plan", "--save", "p.json").code == 0
    if change == "run":
        edit(folder / "workflow.yaml", 'echo "$word"', 'echo "not $word"')
    elif change == "code":
        edit(folder / "steps.py", "len(", "2 * len(")
    elif change == "photo":
        (folder / "photo.txt").write_text("another photo\n")
    for more in ((), ("--dry-run",)):
        refused = whyrun(folder, "run", "--plan", "p.json", *words, *more)
        assert refused.code == 3
        head, *lines, hint = refused.err.splitlines()
        assert head == "error[PLAN_STALE]: the saved plan was made from a different state"
        assert [line.strip()[: len(differs)] for line in lines] == [differs]
        assert hint.startswith("   hint: repeat `--set` and `--inputs` as they were when it was saved")
    assert not (folder / ".whyrun/gate/runs").exists()
    assert not (folder / "t.txt").exists()


def test_the_output_of_plan_json_is_not_run(folder: Path) -> None:
    (folder / "p.json").write_text(json.dumps(whyrun(folder, "plan", "--json").json))
    refused = whyrun(folder, "run", "--plan", "p.json")
    assert (refused.code, refused.err.splitlines()) == (2, [
        "error[USAGE]: `p.json` does not record what its plan was made from, so it cannot be checked before it runs",
        "   hint: save it with `whyrun plan --save FILE`",
    ])  # fmt: skip


@pytest.mark.parametrize("path", ["/etc/hostname", "../outside.txt", "sub/../../outside.txt"])
@pytest.mark.parametrize("command", ["plan", "explain"])
def test_an_assumed_path_outside_the_project_is_refused_and_its_hash_is_not_told(
    folder: Path, command: str, path: str
) -> None:
    (folder.parent / "outside.txt").write_text("a secret\n")
    assert whyrun(folder, "run", "-q").code == 0
    refused = whyrun(folder, command, "--json", "--assume", f"Input:Photo={path}")
    (told,) = refused.json["diagnostics"]
    assert (refused.code, told["message"], told["hint"]) == (
        2,
        f"`--assume Input:Photo`: `{path}` is outside the project folder",
        "assume `Input:Photo=changed`, or a path in the project; `--set` takes paths from anywhere",
    )


def test_an_assumed_path_in_the_project_may_be_written_in_any_way(folder: Path) -> None:
    assert whyrun(folder, "run", "-q").code == 0
    (folder / "other.txt").write_text("another photo\n")
    for path in ("other.txt", "./other.txt", str(folder / "other.txt"), "sub/../other.txt"):
        (job, *_) = whyrun(folder, "plan", "--json", "--assume", f"Input:Photo={path}").json["jobs"]
        assert [reason["code"] for reason in job["reasons"]] == ["INPUT_CHANGED"]


def test_an_assumed_list_or_pattern_does_not_lead_out_of_the_project_either(tmp_path: Path) -> None:
    (tmp_path / "workflow.yaml").write_text("""
workflow: several
inputs: {Photos: {type: "file[]", default: [a.txt]}}
jobs:
  Count: {uses: shell, with: {photos: "${{ inputs.Photos }}", run: 'echo 1 > "$out_N"'}, outputs: {N: {type: text}}}
""")
    (tmp_path / "a.txt").write_text("a")
    for value in ('["a.txt", "/etc/hostname"]', "/etc/*", "*/../../*"):
        refused = whyrun(tmp_path, "plan", "--assume", f"Input:Photos={value}")
        assert (refused.code, "is outside the project folder" in refused.err) == (2, True)
