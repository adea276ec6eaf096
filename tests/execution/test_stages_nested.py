"""A loop over a result in a loop over a result, whose outer source runs again: the stage knows the inner loops whose
sources are up to date."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from project_lab import NOT_TRACED, Lab, Ran, states
from whyrun.facts.plans import plan_of_run

Make = Callable[..., Lab]

NESTED = """\
workflow: w
inputs: {Tree: {type: json, default: {a: {x: 1}}}}
loops:
  part: {each: jobs.Split.outputs.Parts}
  piece: {each: "jobs.Cut.outputs.Pieces[part]"}
jobs:
  Split: {uses: python, with: {call: "n:split", tree: "${{ inputs.Tree }}"}, outputs: {Parts: {type: "json[]"}}}
  Cut:
    for: [part]
    uses: python
    with: {call: "n:cut", part: "${{ jobs.Split.outputs.Parts[part] }}"}
    outputs: {Pieces: {type: "json[]"}}
  Draw:
    for: [part, piece]
    uses: python
    with: {call: "n:draw", piece: "${{ jobs.Cut.outputs.Pieces[part, piece] }}"}
    outputs: {Drawn: {type: json, path: "out/${{ part }}-${{ piece }}.json"}}
  All:
    uses: python
    with: {call: "n:all", drawn: "${{ named(jobs.Draw.outputs.Drawn[:, :]) }}"}
    outputs: {All: {type: json, path: out/all.json}}
"""
FIXED = """\
workflow: w
inputs: {Tree: {type: "json[][]", default: [[1]]}}
loops:
  part: {each: inputs.Tree}
  piece: {each: "inputs.Tree[part]"}
jobs:
  Draw:
    for: [part, piece]
    uses: python
    with: {call: "n:draw", piece: "${{ inputs.Tree[part, piece] }}"}
    outputs: {Drawn: {type: json, path: "out/${{ part }}-${{ piece }}.json"}}
  All:
    uses: python
    with: {call: "n:all", drawn: "${{ named(jobs.Draw.outputs.Drawn[:, :]) }}"}
    outputs: {All: {type: json, path: out/all.json}}
"""
CODE = """\
def split(tree): return {"Parts": tree}
def cut(part): return {"Pieces": part}
def draw(piece):
    if piece == 4: raise ValueError("not 4")
    return {"Drawn": piece}
def all(drawn): return {"All": [[str(part), list(of.items())] for part, of in drawn.items() if of]}
"""


@pytest.fixture
def lab(project: Make) -> Lab:
    return project(NESTED, {"n.py": CODE, **NOT_TRACED})


def tree(value: Any) -> list[str]:
    return [f"Tree={json.dumps(value)}"]


def check_replay(lab: Lab, ran: Ran) -> None:
    assert ran.result.run is not None
    again = plan_of_run(lab.opened(), ran.result.run).plan
    assert again.to_bytes() == (ran.result.whole or ran.plan).to_bytes()


def test_the_outer_source_makes_one_more_and_the_others_are_up_to_date(lab: Lab) -> None:
    lab.succeed()
    ran = lab.succeed(sets=tree({"a": {"x": 1}, "b": {"y": 2}}))
    assert ran.executed == ["Job:All", "Job:Cut[b]", "Job:Draw[b][y]", "Job:Split"]
    outer, inner = ran.result.stages
    assert (outer.source, states(outer)) == ("Job:Split", {"Job:Cut[b]": "planned", "Job:Draw[b][?]": "open"})
    assert {name: n for name, n in outer.totals.items() if n} == {"jobs": 4, "planned": 1, "clean": 2, "open": 1}
    assert (inner.source, states(inner)) == ("Job:Cut[b]", {"Job:Draw[b][y]": "planned"})
    assert lab.content("Artifact:All.All") == [["a", [["x", 1]]], ["b", [["y", 2]]]]
    check_replay(lab, ran)
    assert lab.run(sets=tree({"a": {"x": 1}, "b": {"y": 2}})).result.run is None


def test_the_outer_source_runs_again_and_makes_the_same(lab: Lab) -> None:
    lab.succeed()
    ran = lab.succeed(force=["Job:Split"])
    assert ran.executed == ["Job:Split"]
    (stage,) = ran.result.stages
    assert (states(stage), stage.totals["clean"]) == ({}, 2)
    check_replay(lab, ran)


def test_an_instance_that_only_an_inner_loop_makes_known_is_forced(lab: Lab) -> None:
    lab.succeed()
    ran = lab.succeed(force=["Job:Split", "Job:Draw[a][x]"])
    assert ran.executed == ["Job:Draw[a][x]", "Job:Split"]
    check_replay(lab, ran)


def end_of(lab: Lab, ran: Ran) -> Any:
    """What counts in the end: what is published (`All` has seen all), and who failed."""
    published = {path.name: path.read_text() for path in sorted((lab.root / "out").glob("*"))}
    return published, ran.failed, ran.exit_code


@pytest.mark.parametrize("seed", range(2))
def test_nested_loops_end_as_those_over_fixed_arrays(lab: Lab, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    fixed = Lab(tmp_path / "fixed").write({"workflow.yaml": FIXED, "n.py": CODE, **NOT_TRACED})
    before: list[list[int]] = []
    for _ in range(4):
        inner = ([chance.randint(1, 4) for _ in range(chance.randint(0, 3))] for _ in range(chance.randint(1, 3)))
        now = list(inner)
        staged, expected = lab.run(sets=tree(now)), fixed.run(sets=tree(now))
        assert end_of(lab, staged) == end_of(fixed, expected), (seed, now)
        same = {
            f"Job:Draw[{i}][{j}]"
            for i, (earlier, later) in enumerate(zip(before, now, strict=False))
            for j, (one, other) in enumerate(zip(earlier, later, strict=False))
            if one == other != 4
        }
        assert same.isdisjoint(staged.executed), (seed, now)  # nothing is paid twice
        if staged.result.run is not None:
            check_replay(lab, staged)
        assert lab.plan(sets=tree(now)).totals["open"] == 0
        before = now
