"""Issue 20: a run executes loops over results. Once the source is made, its instances are planned, and join the run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from project_lab import NOT_TRACED, Lab, Ran, codes, reasons, states
from whyrun.facts.plans import plan_of_run
from whyrun.log import events as ev

Make = Callable[..., Lab]

TEXT = """\
workflow: w
inputs:
  N: {type: integer, default: 2}
  A: {type: integer, default: 7}
  Words: {type: json, default: [x, y]}
loops:
  segment: {count: jobs.Script.outputs.Story.Count, max: 5}
jobs:
  Script:
    uses: python
    with: {call: "s:script", n: "${{ inputs.N }}", words: "${{ inputs.Words }}"}
    outputs: {Story: {type: json, leaves: {Count: integer, Words: json}}}
  Look:
    uses: python
    with: {call: "s:look", a: "${{ inputs.A }}"}
    outputs: {Style: {type: json}}
  Clip:
    for: [segment]
    uses: python
    with:
      call: "s:clip"
      words: "${{ jobs.Script.outputs.Story.Words }}"
      i: "${{ segment }}"
      style: "${{ jobs.Look.outputs.Style }}"
    outputs: {Frame: {type: json, path: "out/f-${{ segment }}.json"}}
  Film:
    uses: python
    with: {call: "s:film", frames: "${{ jobs.Clip.outputs.Frame[:] }}"}
    outputs: {Film: {type: json, path: out/film.json}}
"""
CODE = """\
def script(n, words):
    if n < 0: raise ValueError("no script")
    return {"Story": {"Count": n, "Words": words}}
def look(a): return {"Style": a}
def clip(words, i, style): return {"Frame": [i, words, style]}
def film(frames): return {"Film": frames}
"""


@pytest.fixture
def lab(project: Make) -> Lab:
    return project(TEXT, {"s.py": CODE, **NOT_TRACED})


def stages(ran: Ran) -> list[tuple[str | None, Mapping[str, list[str]], dict[str, int]]]:
    """Source, reasons by job, and the totals that are not 0, of each stage."""
    told = []
    for stage in ran.result.stages:
        assert stage.totals["planned"] + stage.totals["reused"] == len(stage.planned)
        told.append((stage.source, codes(stage), {name: n for name, n in stage.totals.items() if n}))
    return told


def replayed(lab: Lab, ran: Ran) -> dict[str, str]:
    """The states of all jobs of a past run, computed again. It raises if a plan or a stage is not reproduced."""
    assert ran.result.run is not None
    planned = plan_of_run(lab.opened(), ran.result.run)
    whole = ran.result.whole or ran.result.plan
    assert planned.plan.to_bytes() == whole.to_bytes()
    return states(planned.plan)


def test_a_loop_is_executed_in_the_run_that_makes_its_source(lab: Lab) -> None:
    ran = lab.succeed()
    assert ran.executed == ["Job:Clip[0]", "Job:Clip[1]", "Job:Film", "Job:Look", "Job:Script"]
    assert states(ran.plan) == {
        "Job:Look": "planned", "Job:Script": "planned", "Job:Clip[?]": "open", "Job:Film": "planned",
    }  # fmt: skip
    (stage,) = ran.result.stages
    assert reasons(stage) == {
        "Job:Clip[0]": [
            {"code": "MISSING_OUTPUT", "artifact": "Artifact:Clip.Frame[0]"},
            {"code": "UPSTREAM_DIRTY", "job": "Job:Look"},  # it counts as not made, whether it has ended or not
        ],
        "Job:Clip[1]": [
            {"code": "MISSING_OUTPUT", "artifact": "Artifact:Clip.Frame[1]"},
            {"code": "UPSTREAM_DIRTY", "job": "Job:Look"},
        ],
    }
    assert stages(ran)[0][2] == {"jobs": 2, "planned": 2}
    assert lab.content("Artifact:Film.Film") == [[0, ["x", "y"], 7], [1, ["x", "y"], 7]]
    assert ran.heard.stages == ["Job:Script has ended: 2 instances known now, 2 to run"]
    assert replayed(lab, ran)["Job:Clip[1]"] == "planned"
    again = lab.run()
    assert (again.result.run, again.exit_code, again.plan.totals["clean"]) == (None, 0, 5)


def test_only_what_differs_runs_again(lab: Lab) -> None:
    lab.succeed()
    ran = lab.succeed(sets=["N=3"])
    assert ran.executed == ["Job:Clip[2]", "Job:Film", "Job:Script"]
    assert stages(ran) == [
        ("Job:Script", {"Job:Clip[2]": ["MISSING_OUTPUT"]}, {"jobs": 3, "planned": 1, "clean": 2}),
    ]  # fmt: skip
    assert codes(ran.plan) == {"Job:Script": ["INPUT_CHANGED"], "Job:Film": ["UPSTREAM_DIRTY"]}
    replayed(lab, ran)
    ran = lab.succeed(sets=["N=3", "A=8"])  # the source is up to date, so the loop is known before the run
    assert (ran.result.stages, len(ran.executed)) == ((), 5)
    ran = lab.succeed(sets=["N=3", "A=8", "Words=[z]"])  # all elements read the words
    changed = {f"Job:Clip[{i}]": ["INPUT_CHANGED"] for i in range(3)}
    assert stages(ran) == [("Job:Script", changed, {"jobs": 3, "planned": 3})]
    assert reasons(ran.result.stages[0])["Job:Clip[1]"][0]["source"] == "Artifact:Script.Story.Words"
    ran = lab.succeed(sets=["N=3", "A=8", "Words=[x, y]"])  # results of the first runs are taken again
    assert (ran.executed, set(ran.reused.values()), ran.result.stages) == ([], {"r0002", "r0003"}, ())  # the same list
    ran = lab.succeed(sets=["A=8"])  # a result with another list is taken again
    assert reasons(ran.plan)["Job:Clip[?]"][0]["code"] == "INPUT_CHANGED"
    assert (ran.executed, ran.reused) == (["Job:Film"], {"Job:Script": "r0001"})
    assert stages(ran) == [("Job:Script", {}, {"jobs": 2, "clean": 2})]
    replayed(lab, ran)


def test_shrinking_to_nothing_and_growing_again(lab: Lab) -> None:
    lab.succeed(sets=["N=3"])
    for n, clips, film in ((1, [], 1), (0, [], 0), (4, ["Job:Clip[3]"], 4)):
        ran = lab.succeed(sets=[f"N={n}"])
        assert ran.executed == [*clips, "Job:Film", "Job:Script"], n
        assert (stages(ran)[0][2].get("jobs", 0), stages(ran)[0][2].get("planned", 0)) == (n, len(clips))
        assert len(json.loads(lab.read("out/film.json"))) == film
        replayed(lab, ran)
    assert lab.run(sets=["N=4"]).result.run is None


def test_a_source_that_fails_blocks_its_loop_once(lab: Lab) -> None:
    ran = lab.run(sets=["N=-1"])
    assert (ran.exit_code, ran.executed, ran.result.stages) == (1, ["Job:Look"], ())
    assert ran.blocked == {"Job:Clip[?]": ["Job:Script"], "Job:Film": ["Job:Clip[?]"]}
    assert ran.status()["steps_blocked"] == 2
    replayed(lab, ran)
    assert lab.succeed().executed == ["Job:Clip[0]", "Job:Clip[1]", "Job:Film", "Job:Script"]


def test_a_value_that_cannot_be_a_loop_blocks_it_and_the_result_stands(lab: Lab) -> None:
    ran = lab.run(sets=["N=6"])
    assert (ran.exit_code, ran.executed) == (1, ["Job:Look", "Job:Script"])
    blocked = {e.step_id: (e.because, e.problem) for e in ran.of(ev.StepBlocked)}
    assert blocked == {
        "Job:Clip[?]": (
            ["Job:Script"],
            "LOOP_TOO_LONG: loop `segment` would have 6 values, and its `max` is 5 (Artifact:Script.Story.Count); "
            "raise it: `max: 6`; or make the result again: `whyrun run --target Job:Script --force Job:Script`",
        ),
        "Job:Film": (["Job:Clip[?]"], None),
    }
    assert ran.status()["error"].startswith("Job:Clip[?]: LOOP_TOO_LONG: loop `segment` would have 6 values")
    assert ran.heard.stages == []
    replayed(lab, ran)
    lab.edit("workflow.yaml", "max: 5", "max: 6")
    assert lab.succeed(sets=["N=6"]).executed == [*(f"Job:Clip[{i}]" for i in range(6)), "Job:Film"]


def test_an_inactive_source_makes_its_loop_inactive_once(project: Make) -> None:
    text = TEXT.replace("  Script:\n", '  Script:\n    if: "${{ jobs.Look.outputs.Style.On }}"\n')
    text = text.replace("outputs: {Style: {type: json}}", "outputs: {Style: {type: json, leaves: {On: boolean}}}")
    lab = project(text, {"s.py": CODE.replace('{"Style": a}', '{"Style": {"On": a > 0}}'), **NOT_TRACED})
    ran = lab.succeed(sets=["A=0"])
    assert (ran.executed, ran.result.stages) == (["Job:Film", "Job:Look"], ())
    assert ran.inactive == {"Job:Script": "condition_false", "Job:Clip[?]": "source_inactive"}
    assert lab.content("Artifact:Film.Film") == []
    replayed(lab, ran)
    ran = lab.succeed(sets=["A=1"])
    assert ran.executed == ["Job:Clip[0]", "Job:Clip[1]", "Job:Film", "Job:Look", "Job:Script"]
    replayed(lab, ran)


@pytest.mark.parametrize(
    ("options", "executed", "deferred"),
    [
        ({"targets": ["Job:Clip[1]"]}, ["Job:Clip[1]", "Job:Look", "Job:Script"], ["Job:Clip[0]", "Job:Clip[2]"]),
        ({"targets": ["Job:Clip[?]"]}, ["Job:Clip[0]", "Job:Clip[1]", "Job:Clip[2]", "Job:Look", "Job:Script"], []),
        ({"targets": ["Job:Script"]}, ["Job:Script"], []),
        ({"up": 1}, ["Job:Look", "Job:Script"], []),
        ({"up": 2}, ["Job:Clip[0]", "Job:Clip[1]", "Job:Clip[2]", "Job:Look", "Job:Script"], []),
    ],
)
def test_controls(lab: Lab, options: dict[str, Any], executed: Sequence[str], deferred: Sequence[str]) -> None:
    ran = lab.succeed(sets=["N=3"], **options)
    assert ran.executed == executed
    assert [job.id for stage in ran.result.stages for job in stage.jobs if job.state == "deferred"] == deferred
    replayed(lab, ran)


def test_a_target_that_turns_out_not_to_exist(lab: Lab) -> None:
    ran = lab.run(targets=["Job:Clip[7]"])
    assert (ran.exit_code, ran.executed) == (1, ["Job:Look", "Job:Script"])
    (blocked,) = ran.of(ev.StepBlocked)
    assert blocked.step_id == "Job:Clip[?]"
    assert blocked.problem.startswith("UNKNOWN_REFERENCE: `Job:Clip[7]` does not exist: `Artifact:Script.Story.Count`")


@pytest.mark.parametrize("force", ["Job:Clip[*]", "Job:Clip[?]", "layer:1", "all"])
def test_what_is_forced_is_forced_in_its_stage(lab: Lab, force: str) -> None:
    lab.succeed()
    ran = lab.succeed(sets=["N=3"], force=[force])
    assert [job for job in ran.executed if "Clip" in job] == ["Job:Clip[0]", "Job:Clip[1]", "Job:Clip[2]"]
    forced = reasons(ran.result.stages[0])["Job:Clip[0]"][-1]
    assert forced == {"code": "FORCED", "by": force}
    replayed(lab, ran)
    assert lab.run(sets=["N=3"]).result.run is None


def test_a_published_file_that_was_deleted_is_seen(lab: Lab) -> None:
    lab.succeed()
    (lab.root / "out/f-1.json").unlink()
    ran = lab.succeed(sets=["N=3"])
    assert (ran.executed, ran.reused) == (["Job:Clip[2]", "Job:Film", "Job:Script"], {"Job:Clip[1]": "r0001"})
    assert codes(ran.result.stages[0])["Job:Clip[1]"] == ["MISSING_OUTPUT"]
    assert json.loads(lab.read("out/f-1.json"))[0] == 1
    replayed(lab, ran)
