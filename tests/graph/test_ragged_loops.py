"""Issue 20: loops that depend on loops, over inputs: each sample has as many runs as its row says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from project_lab import ECHO, Lab
from whyrun.planning.plan import PlanOptions, compute_execution_plan
from whyrun.snapshot.history.replay import replay_snapshot, snapshot_blob

Make = Callable[..., Lab]

TEXT = """\
workflow: w
inputs:
  Sheet: {type: "json[]", default: s.yaml, key: id}
  Grid: {type: "integer[][]", default: [[1, 2], [3]]}
  Settings: {type: json, default: {tones: [x, y]}}
  Run: {type: file, for: [sample, run], path: "${{ inputs.Sheet[sample].runs[run] }}"}
loops:
  piece: {count: "${{ inputs.Sheet[sample].n + run }}"}
  run: {each: "inputs.Sheet[sample].runs"}
  sample: {each: inputs.Sheet}
  lane: {values: "inputs.Sheet[sample].lanes"}
  row: {each: inputs.Grid}
  cell: {each: "inputs.Grid[row]"}
  tone: {values: inputs.Settings.tones}
jobs:
  Map:
    for: [sample, run]
    uses: python
    with:
      call: "echo:received"
      run: "${{ inputs.Run[sample, run] }}"
      name: "${{ inputs.Sheet[sample].runs[run] }}"
      before: "${{ first(inputs.Run[sample, run-1], inputs.Run[sample, 0]) }}"
    outputs: {Got: {type: json}}
  Merge:
    for: [sample]
    uses: python
    with: {call: "echo:received", all: "${{ jobs.Map.outputs.Got[sample, :] }}"}
    outputs: {Got: {type: json}}
  Cut: {for: [sample, run, piece], uses: shell, with: {run: 'echo 1 > "$out_T"'}, outputs: {T: {type: text}}}
  Lane: {for: [sample, lane], uses: shell, with: {run: 'echo 1 > "$out_T"'}, outputs: {T: {type: text}}}
  Cell:
    for: [row, cell]
    uses: python
    with: {call: "echo:received", x: "${{ inputs.Grid[row][cell] }}"}
    outputs: {Got: {type: json}}
  Tone: {for: [tone], uses: shell, with: {run: 'echo 1 > "$out_T"'}, outputs: {T: {type: text}}}
"""
SHEET = """\
- {id: a, runs: [r/1, r/2], n: 1, lanes: [l1, l2]}
- {id: b, runs: [r/3], n: 0, lanes: [l2]}
- {id: c, runs: [], n: 5, lanes: []}
"""
FILES = {"echo.py": ECHO, "s.yaml": SHEET, "r/1": "1", "r/2": "2", "r/3": "3", "r/4": "4"}


@pytest.fixture
def lab(project: Make) -> Lab:
    return project(TEXT, FILES)


def instances(lab: Lab, job: str) -> list[str]:
    return [id_.partition("[")[2] for id_ in lab.opened().graph.node_of if id_.startswith(f"Job:{job}[")]


def test_each_index_of_the_outer_loop_has_values_of_its_own(lab: Lab) -> None:
    assert instances(lab, "Map") == ["a][0]", "a][1]", "b][0]"]
    assert instances(lab, "Merge") == ["a]", "b]", "c]"]
    assert instances(lab, "Cut") == ["a][0][0]", "a][1][0]", "a][1][1]"]
    assert instances(lab, "Lane") == ["a][l1]", "a][l2]", "b][l2]"]
    assert instances(lab, "Cell") == ["0][0]", "0][1]", "1][0]"]
    assert instances(lab, "Tone") == ["x]", "y]"]
    bindings = {job.id: job.bindings for job in lab.plan().planned}
    assert bindings["Job:Map[a][1]"] == {
        "run": "Input:Run[a][1]", "name": "Input:Sheet[a].runs[1]", "before": "Input:Run[a][0]",
    }  # fmt: skip
    assert bindings["Job:Map[b][0]"]["before"] == "Input:Run[b][0]"
    assert bindings["Job:Merge[a]"]["all"] == ["Artifact:Map.Got[a][0]", "Artifact:Map.Got[a][1]"]
    assert bindings["Job:Merge[c]"]["all"] == []
    lab.succeed()
    assert lab.content("Artifact:Map.Got[a][1]") == {"run": "file:2", "name": "r/2", "before": "file:1"}
    assert lab.content("Artifact:Cell.Got[1][0]") == {"x": 3}


def test_one_more_run_of_a_sample_leaves_the_others_alone(lab: Lab) -> None:
    lab.succeed()
    lab.edit("s.yaml", "runs: [r/3]", "runs: [r/3, r/4]")
    assert lab.plan().headlines() == {
        "Job:Map[b][1]": "MISSING_OUTPUT", "Job:Cut[b][1][0]": "MISSING_OUTPUT", "Job:Merge[b]": "UPSTREAM_DIRTY",
    }  # fmt: skip
    snapshot = lab.snapshot()
    again = replay_snapshot(snapshot_blob(snapshot), lab.opened().history())
    plans = [compute_execution_plan(each, PlanOptions()).to_json() for each in (again, snapshot)]
    assert plans[0] == plans[1]


def test_authoring_order_does_not_matter(lab: Lab, project: Make) -> None:
    lines = TEXT.splitlines(keepends=True)
    at = lines.index('  run: {each: "inputs.Sheet[sample].runs"}\n')
    turned = [*lines[: at - 1], lines[at + 1], lines[at], lines[at - 1], *lines[at + 2 :]]
    assert list(project("".join(turned), FILES).opened().graph.node_of) == list(lab.opened().graph.node_of)


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        ("for: [sample, run]\n", "for: [run]\n", "the loop `run` has other values for each `sample`, which `for:` must "
         "name before it", "write `for: [sample, run]`"),
        ("for: [sample, lane]", "for: [lane, sample]", "the loop `lane` has other values for each `sample`, which "
         "`for:` must name before it", "write `for: [sample, lane]`"),
        ("for: [sample, run], path: \"${{ inputs.Sheet[sample].runs[run] }}\"", "for: [run], path: \"r/${{ run }}\"",
         "input `Run`: the loop `run` has other values for each `sample`, which `for:` must name before it",
         "write `for: [sample, run]`"),
        ("inputs.Settings.tones", "inputs.Settings.tonse", "`Input:Settings` has no field `tonse`",
         "did you mean `tones`?"),
        ("inputs.Sheet[sample].lanes", "inputs.Sheet[sample].n", "loop `lane` needs a list of values (for a)", None),
        ("inputs.Sheet[sample].n + run", "inputs.Sheet[sample].n - 1 - run", "`count` of loop `piece` is -1, not a "
         "whole number from 0 (for a, 1)", None),
        ("row: {each: inputs.Grid}", "row: {each: \"inputs.Grid[cell]\"}", "the loops `row` and `cell` depend on each "
         "other", "a loop may use inputs, and loops that do not use it"),
    ],
)  # fmt: skip
def test_mistakes(project: Make, old: str, new: str, message: str, hint: str | None) -> None:
    assert TEXT.count(old) == 1
    problems = project(TEXT.replace(old, new), FILES).opened().problems
    assert (message, hint) in [(d.message, d.hint) for d in problems]
