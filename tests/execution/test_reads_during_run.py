"""A run decides about earlier results by what undeclared reads would find at that moment, not when it was planned."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from observed_lab import absent, file, folder, saw
from project_lab import Lab, Ran, codes
from whyrun.facts.plans import plan_of_run
from whyrun.log import events as ev
from whyrun.log.reads import Read

Make = Callable[..., Lab]

# `A` publishes the same whatever its input says, and has an effect that no output declares.
FLOW = """
    workflow: w
    defaults: {uses: shell, workdir: project}
    inputs: {Data: {type: file, default: data.txt}}
    jobs:
      A:
        with: {run: 'echo const > out/a.txt; EFFECT', data: "${{ inputs.Data }}"}
        outputs: {A: {type: text, path: out/a.txt}}
      B:
        with: {run: 'cat out/a.txt side/* > out/b.txt', a: "${{ jobs.A.outputs.A }}"}
        outputs: {B: {type: text, path: out/b.txt}}
"""
WRITES, LEAVES = "cp data.txt side/vocab.txt", "true"
ADDS = 'cp data.txt "side/$(cat data.txt)"'


def vocab(lab: Lab) -> Read:
    return file(lab, "side/vocab.txt", "strace")


def side(lab: Lab) -> Read:
    return folder(lab, "side")


def no_new(lab: Lab) -> Read:
    return absent("side/v2")


def run_after_change(project: Make, effect: str, read: Callable[[Lab], Read]) -> tuple[Lab, Ran]:
    """`B` has read this, as the log has it; then the input of `A` changes."""
    files = {"data.txt": "v1\n", "side/vocab.txt": "v1\n", "side/v1": "v1\n", "out/.keep": ""}
    lab = project(FLOW.replace("EFFECT", effect), files)
    lab.succeed()
    saw(lab, {"Job:B": [read(lab)]})
    lab.write({"data.txt": "v2\n"})
    assert codes(lab.plan()) == {"Job:A": ["INPUT_CHANGED"], "Job:B": ["UPSTREAM_DIRTY"]}
    return lab, lab.succeed()


def skipped(ran: Ran) -> list[tuple[str, str]]:
    return [(event.step_id, event.why) for event in ran.of(ev.StepSkipped)]


def executed(ran: Ran) -> list[str]:
    return [event.step_id for event in ran.of(ev.StepComplete)]


@pytest.mark.parametrize(
    ("effect", "read", "made"),
    [(WRITES, vocab, "const\nv1\nv2\n"), (ADDS, side, "const\nv1\nv2\nv1\n"), (ADDS, no_new, "const\nv1\nv2\nv1\n")],
)
def test_what_a_step_of_the_run_wrote_is_what_its_reader_would_read(
    project: Make, effect: str, read: Callable[[Lab], Read], made: str
) -> None:
    lab, ran = run_after_change(project, effect, read)
    assert (executed(ran), skipped(ran)) == (["Job:A", "Job:B"], [])
    assert lab.read("out/b.txt") == made
    assert plan_of_run(lab.opened(), "r0002").plan.digest == ran.result.plan.digest


@pytest.mark.parametrize("read", [vocab, side, no_new])
def test_what_no_step_of_the_run_wrote_is_as_planned(project: Make, read: Callable[[Lab], Read]) -> None:
    lab, ran = run_after_change(project, LEAVES, read)
    assert (executed(ran), skipped(ran)) == (["Job:A"], [("Job:B", "reused")])
    assert codes(lab.plan()) == {}


def test_a_file_that_a_step_of_the_run_set_back_brings_the_earlier_result_back(project: Make) -> None:
    files = {"data.txt": "v1\n", "side/vocab.txt": "v1\n", "out/.keep": ""}
    lab = project(FLOW.replace("EFFECT", "echo v1 > side/vocab.txt"), files)
    lab.succeed()
    saw(lab, {"Job:B": [vocab(lab)]})
    lab.write({"data.txt": "v2\n", "side/vocab.txt": "edited\n"})
    assert codes(lab.plan()) == {"Job:A": ["INPUT_CHANGED"], "Job:B": ["INPUT_CHANGED", "UPSTREAM_DIRTY"]}
    ran = lab.succeed()
    assert (executed(ran), skipped(ran)) == (["Job:A"], [("Job:B", "reused")])
    assert codes(lab.plan()) == {}
