"""Issue 20: `uses:` by an expression over inputs. Its value must name an action; that is checked before the run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from project_lab import Lab
from whyrun.facts.plans import assumed_plan
from whyrun.planning.plan import PlanOptions, compute_execution_plan
from whyrun.snapshot.history.replay import replay_snapshot, snapshot_blob

Make = Callable[..., Lab]

ACTIONS = """
from whyrun import action


@action("model/fast", outputs={"text": "text"})
def fast(topic: str) -> dict:
    return {"text": "fast " + topic}


@action("model/slow", outputs={"text": "text"})
def slow(topic: str) -> dict:
    return {"text": "slow " + topic}


@action("model/odd", outputs={"text": "text"})
def odd(other: str) -> dict:
    return {"text": other}
"""
TEXT = """\
workflow: w
inputs:
  Model: {type: string, default: fast}
  Settings: {type: json, default: {action: model/slow}}
loops: {x: {values: [a, b]}}
jobs:
  Draft:
    for: [x]
    uses: "${{ 'model/' + inputs.Model }}"
    with: {topic: "${{ x }}"}
    outputs: {text: {type: text}}
  Other:
    uses: ${{ inputs.Settings.action }}
    with: {topic: t}
    outputs: {text: {type: text}}
"""
FILES = {"actions/model.py": ACTIONS}


@pytest.fixture
def lab(project: Make) -> Lab:
    return project(TEXT, FILES)


def test_an_input_names_the_action(lab: Lab) -> None:
    lab.succeed()
    assert lab.content("Artifact:Draft.text[a]") == "fast a"
    assert lab.content("Artifact:Other.text") == "slow t"
    assert lab.plan().headlines() == {}
    plan = lab.plan(sets=["Model=slow"])
    assert plan.headlines() == {"Job:Draft[a]": "INPUT_CHANGED", "Job:Draft[b]": "INPUT_CHANGED"}
    assert {job.action for job in plan.planned} == {"model/slow"}
    assert plan.planned[0].reasons[0].text("Job:Draft[a]").startswith("Input:Draft[a].action")
    lab.succeed(sets=["Model=slow"])
    assert {job.id for job in lab.plan().planned if job.reuse} == {"Job:Draft[a]", "Job:Draft[b]"}
    snapshot = lab.snapshot(sets=["Model=slow"])
    again = replay_snapshot(snapshot_blob(snapshot), lab.opened().history())
    plans = [compute_execution_plan(each, PlanOptions()).to_json() for each in (again, snapshot)]
    assert plans[0] == plans[1]


def test_what_if(lab: Lab) -> None:
    lab.succeed()
    assumed = assumed_plan(lab.opened(), PlanOptions(), ["Input:Model=slow"])
    assert assumed.plan.headlines() == {"Job:Draft[a]": "INPUT_CHANGED", "Job:Draft[b]": "INPUT_CHANGED"}


@pytest.mark.parametrize(
    ("sets", "code", "line", "message", "hint"),
    [
        (["Model=fst"], "INVALID_USES", 9, "there is no action `model/fst`", "nearest"),
        (["Model=odd"], "INVALID_PARAMETER", 9, "the action `model/odd` needs the parameter `other`", None),
        (["Settings={action: 3}"], "INVALID_USES", 13,
         "`uses` of job `Other` is 3, which cannot be the name of an action", "write `shell`, `python`, …"),
        (["Settings={}"], "UNKNOWN_REFERENCE", 13, "`Input:Settings` has no field `action`", "it is empty"),
    ],
)  # fmt: skip
def test_a_value_that_names_no_action_is_refused(
    lab: Lab, sets: list[str], code: str, line: int, message: str, hint: str | None
) -> None:
    problems = lab.opened(sets).problems
    found = [(d.code, d.line, d.message, d.hint) for d in problems if d.code == code]
    assert found[0][:3] == (code, line, message)
    assert hint is None or hint in str(found[0][3])


def test_a_script_cannot_hold_an_expression(project: Make) -> None:
    text = TEXT.replace("with: {topic: t}", 'with: {run: "echo ${{ inputs.Model }}"}')
    lab = project(text, FILES)
    assert "EXPRESSION_FORBIDDEN" in {d.code for d in lab.opened(["Settings={action: shell}"]).problems}


def test_other_expressions_are_refused(project: Make) -> None:
    lab = project(TEXT.replace("inputs.Settings.action", "jobs.Draft.outputs.text['a']"), FILES)
    (only,) = lab.opened().problems
    assert (only.message, only.hint) == ("`jobs` cannot be used in `uses:`", "allowed here: `inputs`")


def test_inside_an_import(project: Make) -> None:
    main = "workflow: m\nimports: {C: {workflow: ./w.yaml, with: {Model: slow}}}\njobs: {}\n"
    lab = project(main, {**FILES, "w.yaml": TEXT})
    assert {job.id: job.action for job in lab.plan().planned}["Job:C/Draft[a]"] == "model/slow"
