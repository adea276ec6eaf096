"""Assumed values: another value of the same type, and outer inputs before those of imports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from project_lab import Lab
from whyrun.errors import WhyrunError
from whyrun.facts.plans import planned
from whyrun.planning.plan import PlanOptions

Make = Callable[..., Lab]
OUTER = """
    workflow: outer
    inputs:
      Topic: {type: string, default: cinema}
      Bool: {type: boolean, default: false}
      Int: {type: integer, default: 2}
      Num: {type: number, default: 2.5}
      List: {type: json, default: [1]}
      Map: {type: json, default: {a: 1}}
      Nil: {type: json, default: null}
      Deep: {type: "integer[][]", default: [[1, 2], [3]]}
      Empty: {type: "integer[]", default: []}
      File: {type: file, default: f.txt}
      Maybe: {type: file, required: false}
    imports:
      In: {workflow: in.yaml, with: {Title: "on ${{ inputs.Topic }}"}}
    jobs:
      A:
        uses: python
        with: {call: "acts:one", bool: "${{ inputs.Bool }}", int: "${{ inputs.Int }}", num: "${{ inputs.Num }}",
               list: "${{ inputs.List }}", map: "${{ inputs.Map }}", none: "${{ inputs.Nil }}",
               deep: "${{ inputs.Deep }}", file: "${{ inputs.File }}"}
        outputs: {N: {type: integer}}
"""
FILES = {
    "f.txt": "f",
    "g.txt": "g",
    "acts.py": "def one(**given):\n    return {'N': 1}\n",
    "in.yaml": """
        workflow: in
        inputs: {Title: {type: string, required: true}, Other: {type: string, default: o}}
        jobs:
          Head: {uses: python, with: {call: "acts:one", title: "${{ inputs.Title }}", other: "${{ inputs.Other }}"},
                 outputs: {N: {type: integer}}}
    """,
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    found = Lab(tmp_path_factory.mktemp("values")).write({"workflow.yaml": OUTER, **FILES})
    found.succeed()
    return found


def changes(lab: Lab, *assume: str) -> dict[str, dict[str, Any]]:
    plan = planned(lab.opened(), PlanOptions(), assume=assume).plan
    return {job.id: {r.binding: r.new_value for r in job.reasons} for job in plan.planned}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("input_", "binding", "value"),
    [
        ("Bool", "bool", True), ("Int", "int", 3), ("Num", "num", 3.5), ("List", "list", [1, "changed"]),
        ("Map", "map", {"a": 2, "changed": True}), ("Nil", "none", "changed"), ("Deep", "deep", [[2, 3], [4]]),
        ("Deep[1]", "deep", [[1, 2], [4]]), ("Deep[0][1]", "deep", [[1, 3], [3]]),
    ],
)  # fmt: skip
def test_another_value_of_the_same_type(lab: Lab, input_: str, binding: str, value: Any) -> None:
    assert changes(lab, f"Input:{input_}=changed") == {"Job:A": {binding: value}}


def test_an_import_gets_the_values_that_follow_unless_they_are_assumed_too(lab: Lab) -> None:
    assert changes(lab, "Input:Topic=x") == {"Job:In/Head": {"title": "on x"}}
    assert changes(lab, "Input:Topic=changed") == {"Job:In/Head": {"title": "on cinema (changed)"}}
    assert changes(lab, "Input:In/Title=mine", "Input:Topic=x") == {"Job:In/Head": {"title": "mine"}}
    assert changes(lab, "Input:Topic=x", "Input:In/Title=mine") == {"Job:In/Head": {"title": "mine"}}
    assert changes(lab, "Input:In/Other=y", "Input:In/Title=mine") == {"Job:In/Head": {"other": "y", "title": "mine"}}


def test_files_are_assumed_by_another_path_or_another_content(lab: Lab) -> None:
    assert changes(lab, "Input:File=g.txt") == changes(lab, "Input:File=changed") == {"Job:A": {"file": None}}
    assert changes(lab, "Input:File=f.txt") == {}


@pytest.mark.parametrize(
    ("assume", "message", "hint"),
    [
        ("Input:Topic.with.x=changed", "`--assume`: `Input:Topic.with.x`: it has type `string`, so it has no field",
         "only inputs of type `json` have fields"),
        ("Input:Other.action=changed", "`--assume Input:Other.action`: the workflow has no such input",
         "parameters and actions follow from the workflow; assume one of its inputs, or an element of one"),
        ("Input:Topik=changed", "`--assume Input:Topik`: the workflow has no such input",
         "did you mean `Input:Topic`?"),
        ("Input:Zzzzzzzzzz=changed", "`--assume Input:Zzzzzzzzzz`: the workflow has no such input",
         "assume inputs of the workflow, or elements of them"),
        ("Input:Empty=changed", "`--assume Input:Empty=changed`: the array is empty",
         "give a value: `Input:Empty=[…]`"),
        ("Input:Maybe=changed", "`--assume Input:Maybe=changed`: it has no value now", "give one: `Input:Maybe=path`"),
        ("Input:Int=1.5", "`--assume Input:Int`: ", "`Input:Int` has the type `integer`"),
        ("Input:Map={", "`--assume Input:Map`: ", "`Input:Map` has the type `json`"),
    ],
)  # fmt: skip
def test_impossible_assumptions(lab: Lab, assume: str, message: str, hint: str) -> None:
    with pytest.raises(WhyrunError) as caught:
        changes(lab, assume)
    (problem,) = caught.value.diagnostics
    assert problem.message.startswith(message)
    assert problem.hint == hint


def test_long_values_are_cut_in_texts(lab: Lab) -> None:
    told = planned(lab.opened(), PlanOptions(), assume=[f"Input:Topic={'x' * 58}"]).assumptions
    assert [str(each) for each in told] == [f'Input:Topic = "{"x" * 58}" (now "cinema")']
    told = planned(lab.opened(), PlanOptions(), assume=[f"Input:Topic={'é' * 59}"]).assumptions
    assert [str(each) for each in told] == [f'Input:Topic = "{"é" * 58}… (now "cinema")']
