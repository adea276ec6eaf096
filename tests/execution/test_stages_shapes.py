"""Stages of other shapes: a loop in a loop, loops one after another, arrays, imports; and random stories of all."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from project_lab import NOT_TRACED, Heard, Lab, Ran, states
from whyrun.execution.backends.registry import RunOptions
from whyrun.execution.run.session import run_workflow
from whyrun.facts.plans import plan_of_run
from whyrun.planning.plan import PlanOptions, compute_execution_plan
from whyrun.snapshot.history.replay import snapshot_identity

Make = Callable[..., Lab]

NESTED = """\
workflow: w
inputs: {Sizes: {type: json, default: [2, 0, 1]}}
loops:
  part: {count: jobs.Split.outputs.Doc.Count}
  piece: {count: "jobs.Cut.outputs.Pieces[part]"}
  tone: {values: [low, high]}
jobs:
  Split:
    uses: python
    with: {call: "n:split", sizes: "${{ inputs.Sizes }}"}
    outputs: {Doc: {type: json, leaves: {Count: integer, Sizes: json}}}
  Cut:
    for: [part]
    uses: python
    with: {call: "n:cut", sizes: "${{ jobs.Split.outputs.Doc.Sizes }}", part: "${{ part }}"}
    outputs: {Pieces: {type: integer}}
  Map:
    for: [part, piece, tone]
    uses: python
    with: {call: "n:map", name: "${{ part }}-${{ piece }}-${{ tone }}"}
    outputs: {Got: {type: json}}
  Merge:
    for: [part]
    uses: python
    with: {call: "n:merge", all: "${{ jobs.Map.outputs.Got[part, :, :] }}"}
    outputs: {All: {type: json}}
  Total:
    uses: python
    with: {call: "n:merge", all: "${{ jobs.Merge.outputs.All[:] }}"}
    outputs: {All: {type: json}}
"""
NESTED_CODE = """\
def split(sizes): return {"Doc": {"Count": len(sizes), "Sizes": sizes}}
def cut(sizes, part): return {"Pieces": sizes[part]}
def map(name): return {"Got": name}
def merge(all): return {"All": all}
"""


def by_source(ran: Ran) -> dict[str | None, dict[str, str]]:
    return {stage.source: states(stage) for stage in ran.result.stages}


def check_replay(lab: Lab, ran: Ran) -> None:
    assert ran.result.run is not None
    whole = ran.result.whole or ran.result.plan
    assert plan_of_run(lab.opened(), ran.result.run).plan.to_bytes() == whole.to_bytes()


def test_a_loop_in_a_loop(project: Make) -> None:
    lab = project(NESTED, {"n.py": NESTED_CODE, **NOT_TRACED})
    ran = lab.succeed()
    found = by_source(ran)
    assert next(iter(found)) == "Job:Split"
    assert found == {
        "Job:Split": {
            **{f"Job:Cut[{p}]": "planned" for p in range(3)},
            **{f"Job:Merge[{p}]": "planned" for p in range(3)},
            **{f"Job:Map[{p}][?][{tone}]": "open" for p in range(3) for tone in ("low", "high")},
        },
        "Job:Cut[0]": {f"Job:Map[0][{i}][{tone}]": "planned" for i in range(2) for tone in ("low", "high")},
        "Job:Cut[1]": {},
        "Job:Cut[2]": {f"Job:Map[2][0][{tone}]": "planned" for tone in ("low", "high")},
    }
    assert lab.content("Artifact:Total.All") == [
        ["0-0-low", "0-0-high", "0-1-low", "0-1-high"],
        [],
        ["2-0-low", "2-0-high"],
    ]
    check_replay(lab, ran)
    assert lab.run().result.run is None
    ran = lab.succeed(sets=["Sizes=[2, 1, 1]"])
    assert ran.executed == [
        "Job:Cut[0]", "Job:Cut[1]", "Job:Cut[2]", "Job:Map[1][0][high]", "Job:Map[1][0][low]", "Job:Merge[1]",
        "Job:Split", "Job:Total",
    ]  # fmt: skip
    assert ran.reused == {"Job:Merge[0]": "r0001", "Job:Merge[2]": "r0001"}
    check_replay(lab, ran)


CHAIN = """\
workflow: w
inputs: {N: {type: integer, default: 2}}
loops:
  first: {count: jobs.A.outputs.Count}
  second: {values: jobs.C.outputs.Names}
jobs:
  A:
    uses: python
    with: {call: "c:a", n: "${{ inputs.N }}"}
    outputs: {Count: {type: integer}}
  B:
    for: [first]
    uses: python
    with: {call: "c:b", i: "${{ first }}"}
    outputs: {Name: {type: string}}
  C:
    uses: python
    with: {call: "c:c", names: "${{ jobs.B.outputs.Name[:] }}"}
    outputs: {Names: {type: "string[]"}}
  D:
    for: [second]
    needs: [B]
    if: "${{ second != 'n1' }}"
    uses: python
    with: {call: "c:d", name: "${{ second }}"}
    outputs: {Out: {type: json, path: "out/${{ second }}.json"}}
  E:
    uses: python
    with: {call: "c:e", all: "${{ named(jobs.D.outputs.Out[:]) }}"}
    outputs: {All: {type: json}}
"""
CHAIN_CODE = """\
def a(n): return {"Count": n}
def b(i): return {"Name": f"n{i}"}
def c(names): return {"Names": [str(name) for name in names]}
def d(name): return {"Out": name}
def e(all): return {"All": sorted(all)}
"""


def test_a_loop_over_a_result_that_gathers_another_loop(project: Make) -> None:
    lab = project(CHAIN, {"c.py": CHAIN_CODE, **NOT_TRACED})
    ran = lab.succeed(sets=["N=3"])
    assert [(stage.source, states(stage)) for stage in ran.result.stages] == [
        ("Job:A", {f"Job:B[{i}]": "planned" for i in range(3)}),
        ("Job:C", {"Job:D[n0]": "planned", "Job:D[n1]": "inactive", "Job:D[n2]": "planned"}),
    ]
    assert lab.content("Artifact:E.All") == ["n0", "n2"]
    check_replay(lab, ran)
    ran = lab.succeed(sets=["N=4"])
    assert ran.executed == ["Job:A", "Job:B[3]", "Job:C", "Job:D[n3]", "Job:E"]
    check_replay(lab, ran)
    assert lab.run(sets=["N=4"]).result.run is None


# --- random stories ---------------------------------------------------------------------------------------------------

FIXED = """\
workflow: w
inputs:
  Items: {type: "string[]", default: []}
  Factor: {type: integer, default: 1}
loops:
  item: {values: LOOP}
jobs:
  Make:
    uses: python
    with: {call: "p:make", items: "${{ inputs.Items }}"}
    outputs: {Doc: {type: json, leaves: {Items: json}}}
  Twice:
    for: [item]
    uses: python
    with: {call: "p:twice", item: "${{ item }}", factor: "${{ inputs.Factor }}"}
    outputs: {Out: {type: json, path: "out/${{ item }}.json"}}
  Next:
    for: [item]
    if: "${{ item != 'b' }}"
    uses: python
    with:
      call: "p:next"
      mine: "${{ jobs.Twice.outputs.Out[item] }}"
      before: "${{ first(jobs.Next.outputs.Out[item-1], inputs.Factor) }}"
    outputs: {Out: {type: json}}
  All:
    uses: python
    with: {call: "p:all", nexts: "${{ named(jobs.Next.outputs.Out[:]) }}", twice: "${{ jobs.Twice.outputs.Out[:] }}"}
    outputs: {Out: {type: json, path: all.json}}
"""
STORY_CODE = """\
import json
def make(items): return {"Doc": {"Items": items}}
def twice(item, factor):
    if (item, factor) == ("c", 3): raise ValueError("not c, not 3")
    return {"Out": item * factor}
def next(mine, before): return {"Out": str(before)[:40] + "-" + mine}
def all(nexts, twice): return {"Out": [nexts, twice]}
"""


def world(lab: Lab, sets: list[str]) -> dict[str, Any]:
    """What counts in the end: the content of each artifact that is there and of each published file, and who failed."""
    snapshot = lab.snapshot(sets)
    return {
        "available": {id_: record.sha256 for id_, record in snapshot.available_artifacts.items()},
        "failed": sorted(id_ for id_ in snapshot.failed_artifacts if "[?]" not in id_),
        "all": (lab.root / "all.json").read_text() if (lab.root / "all.json").exists() else None,
    }


@pytest.mark.parametrize("seed", range(4))
def test_a_staged_run_ends_as_that_of_a_loop_over_an_input(project: Make, tmp_path: Any, seed: int) -> None:
    """The oracle: the same workflow, whose loop goes over the input that the source passes on. It never has a stage."""
    chance = random.Random(seed)
    staged = project(FIXED.replace("LOOP", "jobs.Make.outputs.Doc.Items"), {"p.py": STORY_CODE, **NOT_TRACED})
    other = Lab(tmp_path / "fixed")
    other.write({"workflow.yaml": FIXED.replace("LOOP", "inputs.Items"), "p.py": STORY_CODE, **NOT_TRACED})
    for _ in range(5):
        items = chance.sample(["a", "b", "c", "d"], chance.randint(0, 4))
        sets = [f"Items={json.dumps(items)}", f"Factor={chance.choice([1, 2, 3])}"]
        force = chance.choice([[], [], ["Job:Twice[*]"], ["Job:Make"]])
        ran, expected = staged.run(sets=sets, force=force), other.run(sets=sets, force=force if items else [])
        assert ran.exit_code == expected.exit_code
        assert world(staged, sets) == world(other, sets), (seed, sets)
        # What a fixed loop does again is not passed over, and nothing is paid twice.
        assert set(expected.executed) <= set(ran.executed) | set(ran.reused)
        assert [job for job in ran.executed if "[" in job] == [job for job in expected.executed if "[" in job]
        if ran.result.run is not None:
            check_replay(staged, ran)


IMPORTED = """\
workflow: video
inputs: {Word: {type: string}}
loops: {clip: {count: jobs.Count.outputs.Number}}
jobs:
  Count:
    uses: python
    with: {call: "v:count", word: "${{ inputs.Word }}"}
    outputs: {Number: {type: integer}}
  Clip:
    for: [clip]
    uses: python
    with: {call: "v:clip", word: "${{ inputs.Word }}", clip: "${{ clip }}"}
    outputs: {Frame: {type: string}}
"""
IMPORTING = """\
workflow: w
imports: {Video: {workflow: ./video.yaml, with: {Word: "abc"}}}
jobs:
  All:
    uses: python
    with: {call: "v:all", frames: "${{ jobs.Video.Clip.outputs.Frame[:] }}"}
    outputs: {All: {type: json}}
"""
IMPORTED_CODE = """\
def count(word): return {"Number": len(word)}
def clip(word, clip): return {"Frame": word[clip]}
def all(frames): return {"All": frames}
"""


def test_a_loop_over_a_result_in_an_import(project: Make) -> None:
    lab = project(IMPORTING, {"video.yaml": IMPORTED, "v.py": IMPORTED_CODE, **NOT_TRACED})
    ran = lab.succeed()
    assert by_source(ran) == {"Job:Video/Count": {f"Job:Video/Clip[{i}]": "planned" for i in range(3)}}
    assert lab.content("Artifact:All.All") == ["a", "b", "c"]
    check_replay(lab, ran)
    lab.edit("workflow.yaml", '"abc"', '"abcd"')
    ran = lab.succeed()
    assert [job for job in ran.executed if "Clip" in job] == [f"Job:Video/Clip[{i}]" for i in range(4)]
    check_replay(lab, ran)


def test_an_array_that_was_handed_in_is_handed_on(project: Make) -> None:
    inner = """\
workflow: inner
inputs: {Words: {type: "string[]"}}
loops: {word: {each: inputs.Words}}
jobs:
  Clip:
    for: [word]
    uses: python
    with: {call: "v:clip", word: "${{ inputs.Words[word] }}", clip: 0}
    outputs: {Frame: {type: string}}
"""
    middle = """\
workflow: middle
inputs: {Items: {type: "string[]"}}
imports: {In: {workflow: ./inner.yaml, with: {Words: "${{ inputs.Items }}"}}}
jobs: {All: {uses: python, with: {call: "v:all", frames: "${{ inputs.Items }}"}, outputs: {All: {type: json}}}}
"""
    outer = """\
workflow: w
imports: {V: {workflow: ./middle.yaml, with: {Items: "${{ jobs.Mk.outputs.Parts }}"}}}
jobs: {Mk: {uses: python, with: {call: "v:make"}, outputs: {Parts: {type: "string[]"}}}}
"""
    code = IMPORTED_CODE + 'def make(): return {"Parts": ["one", "two"]}\n'
    lab = project(outer, {"middle.yaml": middle, "inner.yaml": inner, "v.py": code, **NOT_TRACED})
    assert lab.succeed().executed == ["Job:Mk", "Job:V/All", "Job:V/In/Clip[0]", "Job:V/In/Clip[1]"]
    assert lab.content("Artifact:V/All.All") == ["one", "two"]


def test_a_saved_plan_executes_its_open_entries(project: Make) -> None:
    lab = project(CHAIN, {"c.py": CHAIN_CODE, **NOT_TRACED})
    snapshot = lab.snapshot()
    plan = json.loads(compute_execution_plan(snapshot).to_bytes(snapshot_identity(snapshot)))
    result = run_workflow(lab.opened(), PlanOptions(), RunOptions(jobs=2), Heard(), saved_plan=plan)
    assert (result.exit_code, [stage.source for stage in result.stages]) == (0, ["Job:A", "Job:C"])
    assert lab.plan().totals["clean"] == lab.plan().totals["jobs"] - lab.plan().totals["inactive"]
