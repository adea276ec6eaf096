"""`--assume`: what would run if an input were another. It changes no file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from project_lab import Lab
from whyrun.errors import WhyrunError
from whyrun.facts.plans import planned
from whyrun.planning.plan import PlanOptions

OUTER = """\
workflow: outer
inputs:
  Photos: {type: "file[]", default: "photos/*.png"}
  Grid:   {type: "integer[][]", default: [[1, 2], [3, 4]]}
  Topic:  {type: string, default: cinema}
  Count:  {type: integer, default: 2}
  Loud:   {type: boolean, default: false}
  Extra:  {type: json, default: {a: 1}}
  Maybe:  {type: file, required: false}
imports:
  Intro: {workflow: intro.yaml, with: {Title: "on ${{ inputs.Topic }}"}}
loops:
  photo: {each: inputs.Photos}
  part:  {count: inputs.Count}
jobs:
  Copy:
    for: [photo]
    uses: shell
    with: {photo: "${{ inputs.Photos[photo] }}", run: cp "$photo" "$out_Photo"}
    outputs: {Photo: {type: file}}
  All:
    uses: shell
    with: {photos: "${{ inputs.Photos }}", run: 'cat "${photos[@]}" > "$out_All"'}
    outputs: {All: {type: file}}
  Cell:
    for: [part]
    uses: shell
    with: {cell: "${{ inputs.Grid[1][part] }}", run: echo "$cell" > "$out_Cell"}
    outputs: {Cell: {type: text}}
  Shout:
    if: ${{ inputs.Loud }}
    uses: shell
    with: {extra: "${{ inputs.Extra }}", run: echo "$extra" > "$out_Cry"}
    outputs: {Cry: {type: text}}
"""

INTRO = """\
workflow: intro
inputs:
  Title: {type: string, required: true}
  Logo:  {type: file, default: logo.png}
imports:
  Deep: {workflow: deep.yaml, with: {Title: "${{ inputs.Title }}"}}
jobs:
  Head:
    uses: shell
    with:
      title: ${{ inputs.Title }}
      logo: ${{ inputs.Logo }}
      run: cat "$logo" > "$out_Head"; echo "$title" >> "$out_Head"
    outputs: {Head: {type: text}}
"""

DEEP = """\
workflow: deep
inputs: {Title: {type: string, required: true}}
jobs:
  Tail:
    uses: shell
    with: {title: "${{ inputs.Title }}", run: echo "$title" > "$out_Tail"}
    outputs: {Tail: {type: text}}
"""


def make(root: Path) -> Lab:
    files = {"photos/a.png": "a", "photos/b.png": "b", "logo.png": "logo", "intro.yaml": INTRO, "deep.yaml": DEEP}
    found = Lab(root).write({"workflow.yaml": OUTER, **files})
    found.succeed()
    return found


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """One for all tests that only ask: asking changes nothing, which is checked at the end of each."""
    return make(tmp_path_factory.mktemp("whatif"))


def what_if(lab: Lab, *assume: str, **options: Any) -> dict[str, str]:
    return planned(lab.opened(), PlanOptions(**options), assume=assume).plan.headlines()


@pytest.mark.parametrize(
    ("assume", "expected"),
    [
        (["Input:Photos[1]=changed"], {"Job:Copy[1]", "Job:All"}),
        (["Input:Photos=changed"], {"Job:Copy[0]", "Job:Copy[1]", "Job:All"}),
        (["Input:Photos[0]=photos/b.png"], {"Job:Copy[0]", "Job:All"}),
        (["Input:Photos[0]=photos/a.png"], set()),
        (["Input:Photos=photos/a.png"], {"Job:All"}),
        (["Input:Grid[1][0]=changed"], {"Job:Cell[0]"}),
        (["Input:Grid[0][0]=changed"], set()),
        (["Input:Grid[1]=[3, 5]"], {"Job:Cell[1]"}),
        (["Input:Topic=changed"], {"Job:Intro/Head", "Job:Intro/Deep/Tail"}),
        (["Input:Topic=cinema"], set()),
        (["Input:Intro/Title=x"], {"Job:Intro/Head", "Job:Intro/Deep/Tail"}),
        (["Input:Intro/Logo=changed"], {"Job:Intro/Head"}),
        (["Input:Intro/Deep/Title=changed"], {"Job:Intro/Deep/Tail"}),
        (["Input:Loud=changed"], {"Job:Shout"}),
        (["Input:Extra=changed"], set()),
        (['Input:Extra={"a": 2}', "Input:Loud=true"], {"Job:Shout"}),
        (["Input:Photos[1]=changed", "Input:Photos[0]=changed"], {"Job:Copy[0]", "Job:Copy[1]", "Job:All"}),
        (["Input:Intro/Title=x", "Input:Topic=y"], {"Job:Intro/Head", "Job:Intro/Deep/Tail"}),
    ],
)
def test_exactly_the_dependents_of_the_assumed_input_would_run(lab: Lab, assume: list[str], expected: set[str]) -> None:
    assert set(what_if(lab, *assume)) == expected
    assert lab.plan().headlines() == {}
    assert lab.runs() == ["r0001"]


def test_an_assumption_gives_the_plan_that_the_real_change_gives(tmp_path: Path) -> None:
    lab = make(tmp_path)
    lab.write({"photos/c.png": "c"})
    lab.succeed()
    assumed = planned(lab.opened(), PlanOptions(up=1), assume=["Input:Topic=theatre", "Input:Count=1"]).plan
    real = lab.plan(up=1, sets=["Topic=theatre", "Count=1"])
    assert assumed.to_bytes() == real.to_bytes()
    replaced = planned(lab.opened(), PlanOptions(), assume=["Input:Photos[0]=photos/c.png"]).plan
    lab.write({"photos/a.png": "c"})
    assert replaced.to_bytes() == lab.plan().to_bytes()


def test_the_answer_names_the_assumptions(lab: Lab) -> None:
    texts = ["Input:Photos[1]=changed", "Input:Count=1", "Input:Topic=theatre", "Input:Photos[0]=photos/b.png"]
    found = planned(lab.opened(), PlanOptions(), assume=texts)
    assert [str(each) for each in found.assumptions] == [
        "Input:Photos[1] changed",
        "Input:Count = 1 (now 2)",
        'Input:Topic = "theatre" (now "cinema")',
        "Input:Photos[0] = photos/b.png",
    ]


@pytest.mark.parametrize(
    ("assume", "code"),
    [
        (["Input:Nope=changed"], "UNKNOWN_REFERENCE"),
        (["Input:topic=changed"], "UNKNOWN_REFERENCE"),
        (["Input:Intro/Nope=changed"], "UNKNOWN_REFERENCE"),
        (["Input:Copy[0].with.photo=changed"], "UNKNOWN_REFERENCE"),
        (["Job:Copy[0]=changed"], "NAME_INVALID"),
        (["Topic=changed"], "NAME_INVALID"),
        (["Input:Photos[01]=changed"], "NAME_INVALID"),
        (["Input:Photos[7]=changed"], "INDEX_OUT_OF_RANGE"),
        (["Input:Photos[x]=changed"], "INDEX_FORMAT_INVALID"),
        (["Input:Topic[0]=changed"], "INDEX_PARENT_NOT_ARRAY"),
        (["Input:Topic"], "USAGE"),
        (["Input:Topic=a", "Input:Topic=b"], "USAGE"),
        (["Input:Maybe=changed"], "USAGE"),
        (["Input:Count=many"], "INPUT_TYPE"),
        (["Input:Photos[0]=photos/z.png"], "INPUT_MISSING"),
        (["Input:Count=3"], "INDEX_OUT_OF_RANGE"),
    ],
)
def test_impossible_assumptions_are_refused(lab: Lab, assume: list[str], code: str) -> None:
    with pytest.raises(WhyrunError) as caught:
        what_if(lab, *assume)
    assert [d.code for d in caught.value.diagnostics] == [code]
