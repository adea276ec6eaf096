"""The plan lists the present adopted outputs that it would replace, in a fixed order."""

from __future__ import annotations

import os
from collections.abc import Callable

from project_lab import Heard, Lab
from whyrun.execution.adopt.adopt import adopt_file

Make = Callable[..., Lab]
FLOW = """
    workflow: w
    inputs: {Word: {type: string, default: a}}
    jobs:
      Say:
        uses: python
        with: {call: "acts:say", word: "${{ inputs.Word }}"}
        outputs: {A: {type: text}, B: {type: text}, S: {type: json, leaves: {On: boolean}}}
"""
SAY = """
    def say(word):
        if word == "bad":
            raise ValueError(word)
        return {"A": word, "B": word, "S": {"On": True}}
"""


def replaces(lab: Lab, **options: object) -> dict[str, list[tuple[str, str]]]:
    return {job.id: list(job.replaces.items()) for job in lab.plan(**options).planned}  # type: ignore[arg-type]


def test_the_plan_names_adopted_outputs_that_it_replaces(project: Make) -> None:
    lab = project(FLOW, {"acts.py": SAY, "mine.txt": "mine", "mine.json": '{"On": false}'})
    assert replaces(lab) == {"Job:Say": []}
    lab.succeed()
    for artifact, file in (
        ("Artifact:Say.S", "mine.json"),
        ("Artifact:Say.B", "mine.txt"),
        ("Artifact:Say.A", "mine.txt"),
    ):
        adopt_file(lab.opened(), artifact, lab.root / file, Heard())
    assert replaces(lab) == {}
    told = [("Artifact:Say.A", "r0004"), ("Artifact:Say.B", "r0003"), ("Artifact:Say.S", "r0002")]
    assert replaces(lab, sets=["Word=b"]) == {"Job:Say": told}
    lab.succeed(sets=["Word=b"])
    assert replaces(lab) == {"Job:Say": []}, "what was adopted for this word is taken again, and nothing stands now"
    assert lab.run(sets=["Word=bad"]).exit_code == 1
    assert replaces(lab, sets=["Word=c"]) == {"Job:Say": []}


def test_an_adopted_output_that_reuse_replaces_is_named_even_if_another_output_has_its_bytes(project: Make) -> None:
    lab = project(FLOW, {"acts.py": SAY.replace('"B": word', '"B": word + "!"'), "mine.txt": "a!"})
    lab.succeed()
    lab.succeed(sets=["Word=b"])
    adopt_file(lab.opened(["Word=b"]), "Artifact:Say.A", lab.root / "mine.txt", Heard())  # as B of the other word
    assert replaces(lab) == {"Job:Say": [("Artifact:Say.A", "r0003")]}
    lab.write({"same.txt": "a"})
    adopt_file(lab.opened(["Word=b"]), "Artifact:Say.A", lab.root / "same.txt", Heard())
    assert replaces(lab) == {"Job:Say": []}, "what takes its place has its bytes"
    assert lab.succeed().reused == {"Job:Say": "r0001"}


def test_an_adopted_version_that_could_not_be_put_at_its_path_does_not_stand(project: Make) -> None:
    flow = FLOW.replace("A: {type: text}", "A: {type: text, path: out/a.txt}")
    lab = project(flow, {"acts.py": SAY, "mine.txt": "mine"})
    lab.succeed()
    adopt_file(lab.opened(), "Artifact:Say.A", lab.root / "mine.txt", Heard())
    lab.succeed(sets=["Word=b"])
    (lab.root / "out/a.txt").unlink()
    os.mkfifo(lab.root / "out/a.txt")
    assert lab.run().failed == {"Job:Say": ("FAILED", "NotPublished")}
    latest = lab.snapshot().records.steps["Job:Say"].latest
    assert (latest.ok, latest.adopted) == (False, {"Artifact:Say.A": 2})
    assert replaces(lab, sets=["Word=c"]) == {"Job:Say": []}
