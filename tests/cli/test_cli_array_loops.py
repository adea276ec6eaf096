"""A new user's trial of loops over the elements of an array: what the commands say when elements come and go."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from cli_lab import whyrun

TEXT = """\
workflow: w
inputs: {Names: {type: json, default: [sun, rain, "my fog"]}}
loops: {part: {each: jobs.Split.outputs.Parts}}
jobs:
  Split:
    uses: python
    with: {call: "s:split", names: "${{ inputs.Names }}"}
    outputs: {Parts: {type: "text[]", path: parts/}}
  Count:
    for: [part]
    uses: python
    with: {call: "c:count", part: "${{ jobs.Split.outputs.Parts[part] }}"}
    outputs: {Words: {type: json, path: "words/${{ part }}.json"}}
  Merge:
    uses: python
    with: {call: "s:merge", counts: "${{ named(jobs.Count.outputs.Words[:]) }}"}
    outputs: {Report: {type: json, path: report.json}}
"""
CODE = """\
def split(names): return {"Parts": {name: f"{name} {name}" for name in names}}
def merge(counts): return {"Report": sorted(counts)}
"""
COUNT = """\
def count(part): return {"Words": len(part.read_text().split())}
"""
FEWER = ("--set", 'Names=["sun", "my fog"]')
OTHERS = ("--set", 'Names=["sun", "snow"]')


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "w"
    folder.mkdir()
    (folder / "workflow.yaml").write_text(TEXT)
    (folder / "s.py").write_text(CODE)
    (folder / "c.py").write_text(COUNT)
    for words in (["--target", "Job:Split"], []):
        answer = whyrun(folder, "run", *words)
        assert answer.code == 0, answer.err
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """What two runs have made, for one test."""
    return shutil.copytree(made, tmp_path / "w", symlinks=True)


def refusal(folder: Path, *words: str) -> list[str]:
    answer = whyrun(folder, *words)
    assert answer.code == 2, answer.out
    return answer.err.splitlines()


@pytest.mark.parametrize("command", ["why", "show", "history", "lineage"])
def test_an_instance_that_never_was(folder: Path, command: str) -> None:
    has = 'does not exist: `Artifact:Split.Parts` has sun, rain, "my fog"'
    assert refusal(folder, command, "Job:Count[nope]") == [f"error[UNKNOWN_REFERENCE]: `Job:Count[nope]` {has}"]
    assert refusal(folder, command, "Artifact:Count.Words[nope]") == [
        f"error[UNKNOWN_REFERENCE]: `Artifact:Count.Words[nope]` {has}"
    ]
    assert refusal(folder, command, "Job:Count[?]") == [
        f"error[UNKNOWN_REFERENCE]: `Job:Count[?]` {has}",
        "   hint: name one, such as `Job:Count[sun]`, or all with `Job:Count[*]`",
    ]
    assert refusal(folder, command, "Job:Count[rains]")[1] == "   hint: did you mean `Job:Count[rain]`?"


@pytest.mark.parametrize("command", ["why", "show", "history", "lineage", "log"])
def test_an_instance_that_is_known(folder: Path, command: str) -> None:
    words = ["log", "--job"] if command == "log" else [command]
    assert whyrun(folder, *words, "Job:Count[rain]").code == 0


@pytest.mark.parametrize("command", ["why", "show"])
def test_an_instance_that_was_there(folder: Path, command: str) -> None:
    assert whyrun(folder, "run", "--target", "Job:Split", *FEWER).code == 0
    assert refusal(folder, command, "Job:Count[rain]", *FEWER) == [
        'error[UNKNOWN_REFERENCE]: `Job:Count[rain]` does not exist: `Artifact:Split.Parts` has sun, "my fog"',
        "   hint: it was there in r0002: `whyrun history 'Job:Count[rain]'`",
    ]
    assert "words/rain.json" in whyrun(folder, "status", *FEWER).out
    assert refusal(folder, command, "Job:Count[snow]", *OTHERS) == [
        "error[UNKNOWN_REFERENCE]: `Job:Count[snow]`: which instances `part` has is known once Job:Split has run",
        "   hint: write `Job:Count[?]` for all of them",
    ]


def test_an_empty_array_has_no_instance(folder: Path) -> None:
    none = ("--set", "Names=[]")
    assert whyrun(folder, "run", "--target", "Job:Split", *none).code == 0
    assert refusal(folder, "why", "Job:Count[snow]", *none) == [
        "error[UNKNOWN_REFERENCE]: `Job:Count[snow]` does not exist: `Artifact:Split.Parts` is empty"
    ]


def test_while_a_loop_is_open_its_files_are_no_leftovers(folder: Path) -> None:
    opened = whyrun(folder, "run", "--target", "Job:Split", *FEWER)
    assert (opened.code, "belong" in opened.err + opened.out) == (0, False)
    known = whyrun(folder, "run", *FEWER)
    assert "1 published file or section belongs to no job any more" in known.err + known.out


def test_a_result_is_kept_and_read_for_the_instance_that_is_named(folder: Path) -> None:
    (folder / "c.py").write_text(COUNT.replace("len(part", "1 * len(part"))
    kept = whyrun(folder, "keep", "Job:Count[rain]", "--because", "the same")
    assert kept.code == 0, kept.err
    assert "Job:Count[rain]" in kept.out + kept.err
    assert whyrun(folder, "why", "Job:Count[rain]").out.startswith("Job:Count[rain] is up to date")


def test_a_list_that_is_taken_again_is_known_if_it_is_the_latest(folder: Path) -> None:
    (folder / "parts/rain.txt").unlink()
    assert whyrun(folder, "explain").out.splitlines() == [
        "w after r0002: none of 5 jobs to run, 1 reused from earlier runs, 4 up to date",
        "layer 0",
        "  Job:Split   MISSING_OUTPUT  Artifact:Split.Parts[rain]  parts/rain.txt (deleted)",
        "              reuse           r0001",
    ]
    assert whyrun(folder, "run").code == 0
    assert (folder / "parts/rain.txt").read_text() == "rain rain"
    assert whyrun(folder, "verify", "--replay").code == 0


def test_another_list_that_is_taken_again_is_told_as_such(folder: Path) -> None:
    assert whyrun(folder, "run", "--target", "Job:Split", *FEWER).code == 0
    (folder / "parts/sun.txt").unlink()
    why = whyrun(folder, "why", "Job:Count[?]").out.splitlines()
    assert why[0] == (
        "Job:Count[?] is open: how many it stands for is known once the earlier result of Job:Split is taken"
        " (layer 1), after r0003"
    )
    assert why[1].startswith("  INPUT_CHANGED  part ← Artifact:Split.Parts  ")
    assert "(added)" not in why[1]
    ran = whyrun(folder, "run")
    assert (ran.code, "Job:Split has ended: 3 instances known now, 3 up to date" in ran.err) == (0, True), ran.err
    assert whyrun(folder, "explain").out == "w after r0004: nothing to do, 5 of 5 jobs up to date\n"


def test_an_index_that_has_to_be_quoted(folder: Path) -> None:
    for command in ("why", "history"):
        assert refusal(folder, command, "Job:Count[my fog]")[1] == """   hint: write `Job:Count["my fog"]`"""


def test_validate_does_not_count_the_open_entry_as_an_instance(folder: Path) -> None:
    assert whyrun(folder, "validate").out == (
        "workflow.yaml: `w` is valid: 3 jobs, 2 instances and 1 open until their loops are known, 1 input\n"
    )
