"""Inactive instances, `first`, fan-ins with absent members, and conditions: which jobs are absent, fail or run."""

from __future__ import annotations

from collections.abc import Callable

from project_lab import ECHO, Lab, codes, reasons, states
from whyrun.log import events as ev

Make = Callable[..., Lab]

ABSENCE = """
    workflow: w
    inputs:
      On: {type: "boolean[]", default: [true, false, true]}
      Bad: {type: integer, default: -1}
    loops: {i: {each: inputs.On}}
    jobs:
      Opt:
        for: [i]
        if: ${{ inputs.On[i] }}
        uses: python
        with: {call: "acts:opt", i: "${{ i }}", bad: "${{ inputs.Bad }}"}
        outputs: {N: {type: integer}}
      Plain:
        for: [i]
        uses: python
        with: {call: "echo:received", i: "${{ i }}"}
        outputs: {Got: {type: json}}
      Direct:
        for: [i]
        uses: python
        with: {call: "echo:received", n: "${{ jobs.Opt.outputs.N[i] }}"}
        outputs: {Got: {type: json}}
      Asking:
        for: [i]
        if: ${{ jobs.Opt.outputs.N[i] >= 0 }}
        uses: python
        with: {call: "echo:received", i: "${{ i }}"}
        outputs: {Got: {type: json}}
      Knowing:
        for: [i]
        if: ${{ not exists(jobs.Opt.outputs.N[i]) }}
        uses: python
        with: {call: "echo:received", i: "${{ i }}"}
        outputs: {Got: {type: json}}
      Choose:
        for: [i]
        uses: python
        with: {call: "echo:received", it: "${{ first(jobs.Opt.outputs.N[i], jobs.Plain.outputs.Got[i]) }}"}
        outputs: {Got: {type: json}}
      All:
        uses: python
        with: {call: "echo:received", ns: "${{ jobs.Opt.outputs.N[:] }}"}
        outputs: {Got: {type: json}}
"""
ACTS = """
    def opt(i, bad):
        if i == bad:
            raise ValueError("bad")
        return {"N": 10 + i}
"""
FILES = {"echo.py": ECHO, "acts.py": ACTS}


def test_an_inactive_source(project: Make) -> None:
    lab = project(ABSENCE, FILES)
    plan = lab.plan()
    assert [id_ for id_, state in states(plan).items() if state == "inactive"] == [
        "Job:Opt[1]", "Job:Asking[1]", "Job:Direct[1]",
    ]  # fmt: skip
    assert [job.id for job in plan.planned if job.conditional] == [
        "Job:Asking[0]", "Job:Asking[2]", "Job:Knowing[0]", "Job:Knowing[2]",
    ]  # fmt: skip
    ran = lab.succeed()
    assert ran.inactive == {"Job:Knowing[0]": "condition_false", "Job:Knowing[2]": "condition_false"}
    assert "Job:Knowing[1]" in ran.executed
    assert lab.content("Artifact:All.Got") == {"ns": [10, 12]}, "an inactive member is not in a fan-in"
    assert [lab.content(f"Artifact:Choose.Got[{i}]") for i in range(3)] == [{"it": 10}, {"it": {"i": 1}}, {"it": 12}]
    plan = lab.plan()
    assert plan.headlines() == {}
    assert {job.id: job.because for job in plan.jobs} == {
        "Job:Opt[1]": {"condition": "inputs.On[i]", "inputs": {"Input:On[1]": False}},
        "Job:Direct[1]": {"source": "Artifact:Opt.N[1]"},
        "Job:Asking[1]": {"source": "Artifact:Opt.N[1]"},
        "Job:Knowing[0]": {
            "condition": "not exists(jobs.Opt.outputs.N[i])", "inputs": {"Artifact:Opt.N[0]": 10}},
        "Job:Knowing[2]": {
            "condition": "not exists(jobs.Opt.outputs.N[i])", "inputs": {"Artifact:Opt.N[2]": 12}},
    }  # fmt: skip


def test_an_empty_fan_in_is_an_empty_list_and_runs(project: Make) -> None:
    lab = project(ABSENCE.replace("[true, false, true]", "[false, false, false]"), FILES)
    ran = lab.succeed()
    assert lab.content("Artifact:All.Got") == {"ns": []}
    assert "Job:All" in ran.executed
    assert lab.plan().headlines() == {}


def test_inactive_overrides_past_failure_and_old_artifacts(project: Make) -> None:
    lab = project(ABSENCE, FILES)
    lab.succeed()
    lab.edit("workflow.yaml", "default: -1", "default: 0")
    assert lab.run().exit_code == 1
    assert codes(lab.plan())["Job:Opt[0]"] == ["RETRY_PREVIOUS_FAILURE", "MISSING_OUTPUT", "INPUT_CHANGED"]
    lab.edit("workflow.yaml", "[true, false, true]", "[false, false, true]")
    plan = lab.plan()
    assert states(plan)["Job:Opt[0]"] == "inactive"
    assert "Job:Direct[0]" not in plan.headlines()
    ran = lab.succeed()
    assert ran.blocked == {}
    assert lab.content("Artifact:All.Got") == {"ns": [12]}
    assert lab.content("Artifact:Choose.Got[0]") == {"it": {"i": 0}}
    assert lab.plan().headlines() == {}


def test_a_failed_candidate_is_failed_not_absent(project: Make) -> None:
    lab = project(ABSENCE.replace("default: -1", "default: 0"), FILES)
    ran = lab.run()
    assert ran.failed == {"Job:Opt[0]": ("FAILED", "ValueError")}
    assert ran.blocked == {
        "Job:Direct[0]": ["Job:Opt[0]"], "Job:Asking[0]": ["Job:Opt[0]"], "Job:Choose[0]": ["Job:Opt[0]"],
        "Job:All": ["Job:Opt[0]"], "Job:Knowing[0]": ["Job:Opt[0]"],
    }  # fmt: skip
    assert codes(lab.plan())["Job:Choose[0]"] == ["MISSING_OUTPUT", "UPSTREAM_FAILED", "UPSTREAM_DIRTY"]


def test_a_condition_gives_upstream_reasons_and_never_input_changed(project: Make) -> None:
    lab = project(
        """
        workflow: w
        inputs: {Size: {type: integer, default: 5}}
        jobs:
          Measure:
            uses: python
            with: {call: "acts:measure", size: "${{ inputs.Size }}"}
            outputs: {N: {type: integer}}
          Big:
            if: ${{ jobs.Measure.outputs.N > 3 }}
            uses: python
            with: {call: "echo:received", word: same}
            outputs: {Got: {type: json}}
          After:
            uses: python
            with: {call: "echo:received", big: "${{ jobs.Big.outputs.Got }}"}
            outputs: {Got: {type: json}}
        """,
        {"echo.py": ECHO, "acts.py": "def measure(size):\n    return {'N': size}\n"},
    )
    lab.succeed()
    # still big: the condition's value changed, and nothing that Big consumes
    plan = lab.plan(sets=["Size=7"])
    assert codes(plan) == {
        "Job:Measure": ["INPUT_CHANGED"], "Job:Big": ["UPSTREAM_DIRTY"], "Job:After": ["UPSTREAM_DIRTY"],
    }  # fmt: skip
    assert [job.id for job in plan.planned if job.conditional] == ["Job:Big"]
    ran = lab.succeed(sets=["Size=7"])
    assert (ran.executed, ran.reused) == (["Job:Measure"], {"Job:Big": "r0001", "Job:After": "r0001"})
    assert [(e.step_id, e.inputs, e.result) for e in ran.of(ev.ConditionEvaluated)] == [
        ("Job:Big", {"Artifact:Measure.N": 7}, True)
    ]
    # not any more: decided during the run, and known while planning afterwards
    ran = lab.succeed(sets=["Size=1"])
    assert ran.inactive == {"Job:Big": "condition_false", "Job:After": "source_inactive"}
    assert states(lab.plan(sets=["Size=1"])) == {"Job:Big": "inactive", "Job:After": "inactive"}
    # certain reuse decides the condition while planning
    plan = lab.plan(sets=["Size=7"])
    assert [(job.id, job.reuse and job.reuse.run, job.conditional) for job in plan.planned] == [
        ("Job:Measure", "r0002", False)
    ], "Big and After are as they were"
    assert lab.succeed(sets=["Size=7"]).reused == {"Job:Measure": "r0002"}
    assert lab.plan(sets=["Size=7"]).headlines() == {}


def test_an_undecided_first_names_its_candidates_up_to_the_first_sure_one(project: Make) -> None:
    lab = project(
        """
        workflow: w
        jobs:
          Measure:
            uses: python
            with: {call: "acts:measure"}
            outputs: {N: {type: integer}}
          Maybe:
            if: ${{ jobs.Measure.outputs.N > 3 }}
            uses: python
            with: {call: "echo:received", from: maybe}
            outputs: {Got: {type: json}}
          Sure:
            uses: python
            with: {call: "echo:received", from: sure}
            outputs: {Got: {type: json}}
          Never:
            uses: python
            with: {call: "echo:received", from: never}
            outputs: {Got: {type: json}}
          Pick:
            uses: python
            with:
              call: "echo:received"
              it: ${{ first(jobs.Maybe.outputs.Got, jobs.Sure.outputs.Got, jobs.Never.outputs.Got) }}
            outputs: {Got: {type: json}}
        """,
        {"echo.py": ECHO, "acts.py": "def measure():\n    return {'N': 1}\n"},
    )
    plan = lab.plan()
    pick = next(job for job in plan.planned if job.id == "Job:Pick")
    assert pick.bindings == {"it": {"first": ["Artifact:Maybe.Got", "Artifact:Sure.Got"]}}
    assert [r["job"] for r in reasons(plan)["Job:Pick"] if r["code"] == "UPSTREAM_DIRTY"] == ["Job:Maybe", "Job:Sure"]
    ran = lab.succeed()
    assert ran.inactive == {"Job:Maybe": "condition_false"}
    assert lab.content("Artifact:Pick.Got") == {"it": {"from": "sure"}}
    (start,) = [e for e in ran.of(ev.StepStart) if e.step_id == "Job:Pick"]
    assert start.bindings["it"][0]["id"] == "Artifact:Sure.Got"
    assert lab.plan().headlines() == {}


def test_a_parameter_that_cannot_be_computed_fails_before_its_action(project: Make) -> None:
    lab = project(
        """
        workflow: w
        inputs: {By: {type: integer, default: 0}}
        jobs:
          Measure:
            uses: python
            with: {call: "acts:measure", by: "${{ inputs.By }}"}
            outputs: {N: {type: integer}}
          Ratio:
            uses: python
            with: {call: "echo:received", r: "${{ 10 / jobs.Measure.outputs.N }}"}
            outputs: {Got: {type: json}}
        """,
        {"echo.py": ECHO, "acts.py": "def measure(by):\n    return {'N': by}\n"},
    )
    ran = lab.run()
    assert (ran.exit_code, ran.failed) == (1, {"Job:Ratio": ("FAILED", "ExpressionError")})
    assert lab.plan().headlines() == {"Job:Ratio": "RETRY_PREVIOUS_FAILURE"}
    lab.edit("workflow.yaml", "default: 0", "default: 5")
    assert lab.succeed().executed == ["Job:Measure", "Job:Ratio"]
    assert lab.content("Artifact:Ratio.Got") == {"r": 2.0}
    # back to what cannot be computed: never up to date, and never a crash of the planner
    lab.edit("workflow.yaml", "default: 5", "default: 0")
    assert set(lab.plan().headlines()) == {"Job:Measure", "Job:Ratio"}
    assert lab.run().exit_code == 1
