"""Outputs that are arrays: any number of elements, each an artifact of its own, and one record of the list.

Issue 20, number 3.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from project_lab import Lab, Ran
from whyrun.artifacts.hashing import value_sha256
from whyrun.log import events as ev

Make = Callable[..., Lab]

SPLIT = """
    workflow: w
    inputs: {Text: {type: text, default: text.txt}}
    jobs:
      Split:
        uses: shell
        with: {text: "${{ inputs.Text }}", run: 'sh "$text" "$out_Parts"'}
        outputs: {Parts: {type: "text[]", path: parts/}}
      Join:
        uses: shell
        with: {parts: "${{ jobs.Split.outputs.Parts[:] }}", run: 'cat "${parts[@]}" > "$out_All"'}
        outputs: {All: {type: text, path: all.txt}}
      First:
        uses: shell
        with: {part: "${{ jobs.Split.outputs.Parts['a'] }}", run: 'cat "$part" > "$out_It"'}
        outputs: {It: {type: text, path: first.txt}}
    """


def writes(**parts: str) -> str:
    """A script that writes these files: the text of the input decides which elements there are."""
    return "".join(f"echo {text} > $1/{name}.txt\n" for name, text in parts.items())


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def artifacts(ran: Ran) -> list[tuple[Any, ...]]:
    found = [one for one in ran.events if isinstance(one, ev.ArtifactAvailable) and ".Parts" in one.artifact]
    return [(one.artifact, one.type, one.suffix, one.path, one.sha256) for one in found]


def test_each_element_is_recorded_and_the_list_after_them(project: Make) -> None:
    lab = project(SPLIT, {"text.txt": writes(b="two", a="one") + "echo x > $1/.notes\n"})
    ran = lab.succeed()
    listed = [
        {"key": "a", "sha256": sha("one\n"), "size": 4, "suffix": ".txt"},
        {"key": "b", "sha256": sha("two\n"), "size": 4, "suffix": ".txt"},
    ]
    assert artifacts(ran) == [
        ("Artifact:Split.Parts[a]", "text", ".txt", "parts/a.txt", sha("one\n")),
        ("Artifact:Split.Parts[b]", "text", ".txt", "parts/b.txt", sha("two\n")),
        ("Artifact:Split.Parts", "text[]", "", None, value_sha256(listed)),
    ]
    whole = next(e for e in ran.events if isinstance(e, ev.ArtifactAvailable) and e.artifact == "Artifact:Split.Parts")
    assert whole.value == listed
    assert lab.read("all.txt") == "one\ntwo\n"
    assert lab.read("first.txt") == "one\n"
    starts = {e.step_id: e.bindings for e in ran.events if isinstance(e, ev.StepStart)}
    joined, first = starts["Job:Join"], starts["Job:First"]
    assert joined is not None
    assert first is not None
    assert [member["id"] for member in joined["parts"]] == ["Artifact:Split.Parts[a]", "Artifact:Split.Parts[b]"]
    assert [member["id"] for member in first["part"]] == ["Artifact:Split.Parts[a]"]
    assert lab.plan().headlines() == {}


def test_only_what_reads_a_changed_element_runs_again(project: Make) -> None:
    lab = project(SPLIT, {"text.txt": writes(a="one", b="two")})
    lab.succeed()
    lab.write({"text.txt": writes(a="one", b="other")})
    ran = lab.succeed()
    assert ran.executed == ["Job:Join", "Job:Split"]
    assert [e.step_id for e in ran.events if isinstance(e, ev.StepSkipped)] == ["Job:First"]
    assert lab.read("all.txt") == "one\nother\n"
    assert lab.plan().headlines() == {}


def test_an_array_may_be_empty_and_a_missing_element_is_named(project: Make) -> None:
    lab = project(SPLIT, {"text.txt": "true\n"})
    ran = lab.run()
    assert [e.value for e in ran.events if isinstance(e, ev.ArtifactAvailable) and ".Parts" in e.artifact] == [[]]
    failed = {e.step_id: e.error for e in ran.events if isinstance(e, ev.StepFailed)}
    missing = "Artifact:Split.Parts[a] does not exist: Artifact:Split.Parts has no elements"
    assert failed == {"Job:First": f"`part` cannot be computed: {missing}"}
    lab.write({"text.txt": writes(a="one")})
    lab.succeed()


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            "echo 1 > $1/a.txt; echo 1 > $1/a.csv\n",
            "`Parts` has two files of one stem, `a.csv` and `a.txt`",
        ),
        ("mkdir $1/a\n", "`Parts` is declared as text[], but its folder has a folder, `a`: only files count"),
        ("rm -r $1\n", "the step removed the folder of its declared `Parts`"),
        (
            "rm -r $1; echo 1 > $1\n",
            "`Parts` is declared as text[], but one file was written",
        ),
    ],
)
def test_what_cannot_be_an_array_fails_the_step(project: Make, script: str, message: str) -> None:
    lab = project(SPLIT, {"text.txt": script})
    ran = lab.run()
    failed = {e.step_id: e.error for e in ran.events if isinstance(e, ev.StepFailed)}
    assert list(failed) == ["Job:Split"]
    assert message in failed["Job:Split"]
