"""Issue 20: what commands do to an instance of a loop over a result is done to that instance, and to no other job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import whyrun
from project_lab import Heard, Lab
from whyrun.errors import WhyrunError
from whyrun.execution.adopt.adopt import adopt_file
from whyrun.execution.adopt.keep import keep_results
from whyrun.facts.show import id_facts

TEXT = """
    workflow: w
    loops: {s: {count: jobs.N.outputs.C}}
    jobs:
      N:
        uses: shell
        with: {run: 'echo 2 > "$out_C"'}
        outputs: {C: {type: integer}}
      Clip:
        for: [s]
        uses: shell
        with: {s: "${{ s }}", run: 'echo "$s" > "$out_F"'}
        outputs: {F: {type: text, path: "c/${{ s }}.txt"}}
      Other:
        uses: shell
        with: {run: 'echo other > "$out_A"'}
        outputs: {A: {type: text}}
      Split:
        uses: shell
        with: {run: 'echo a > "$out_Parts/one.txt"'}
        outputs: {Parts: {type: "text[]"}}
"""


@pytest.fixture
def lab(project: Callable[..., Lab]) -> Lab:
    lab = project(TEXT)
    lab.run(targets=["Job:N"])
    lab.succeed()
    return lab


def test_keep_keeps_the_instance_that_was_named(lab: Lab) -> None:
    lab.edit("workflow.yaml", 'echo "$s" >', 'echo "NEW $s" >')
    kept = keep_results(lab.opened(), ["Job:Clip[1]"], "fine", Heard())
    assert [one.id for one in kept.kept] == ["Job:Clip[1]"]
    assert lab.succeed().executed == ["Job:Clip[0]"]
    assert (lab.read("c/0.txt"), lab.read("c/1.txt")) == ("NEW 0\n", "1\n")


def test_a_pattern_keeps_all_instances(lab: Lab) -> None:
    lab.edit("workflow.yaml", 'echo "$s" >', 'echo "NEW $s" >')
    kept = keep_results(lab.opened(), ["Job:Clip[*]"], "fine", Heard())
    assert [one.id for one in kept.kept] == ["Job:Clip[0]", "Job:Clip[1]"]
    assert lab.plan().headlines() == {}


def test_an_instance_is_shown_and_takes_another_version(lab: Lab, tmp_path: Path) -> None:
    assert id_facts(lab.opened(), "Artifact:Clip.F[1]")["path"] == "c/1.txt"
    (tmp_path / "mine.txt").write_text("mine\n")
    adopted = adopt_file(lab.opened(), "Artifact:Clip.F[1]", tmp_path / "mine.txt", Heard())
    assert (adopted.artifact, lab.read("c/1.txt")) == ("Artifact:Clip.F[1]", "mine\n")


def test_artifacts_have_their_content(lab: Lab) -> None:
    flow = whyrun.load(lab.root / "workflow.yaml")
    assert flow.artifact("Artifact:Other.A").bytes == b"other\n"
    assert flow.artifact("Artifact:Clip.F[1]").bytes == b"1\n"


def test_an_element_that_no_step_made(lab: Lab) -> None:
    flow = whyrun.load(lab.root / "workflow.yaml")
    for ask in (flow.artifact, lambda id_: id_facts(lab.opened(), id_)):
        with pytest.raises(WhyrunError) as refused:
            ask("Artifact:Split.Parts[two]")
        assert [one.code for one in refused.value.diagnostics] == ["UNKNOWN_REFERENCE"]
