"""Issue 20: fan-ins that know who is who, `named(…)`, and fan-ins of some members, `where(…)`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from project_lab import Lab
from whyrun.graph import resolve
from whyrun.planning.plan import PlanOptions, compute_execution_plan
from whyrun.snapshot.history.replay import replay_snapshot, snapshot_blob

Make = Callable[..., Lab]

CODE = """
from pathlib import Path


def show(value):
    if isinstance(value, Path):
        return "/".join(value.parts[-3:]) + ":" + value.read_text()
    if isinstance(value, dict):
        return [[key, show(member)] for key, member in value.items()]
    return [show(member) for member in value] if isinstance(value, list) else value


def received(**given):
    return {"Got": {name: show(value) for name, value in given.items()}}
"""

TEXT = """\
workflow: w
inputs:
  Sheet: {type: "json[]", default: [{id: asia, use: true}, {id: "a/b", use: false}], key: id}
  Data: {type: "file[]", default: "d/*.txt", key: stem}
  Limit: {type: integer, default: 2}
loops:
  network: {each: inputs.Sheet}
  seed: {range: 1-3}
jobs:
  learn:
    for: [network, seed]
    if: ${{ seed != 3 or network == "asia" }}
    uses: shell
    with: {text: "${{ network }} ${{ seed }}", run: 'printf "$text" > "$out_graph"; echo "$text" | wc -c > "$out_size"'}
    outputs: {graph: {type: file}, size: {type: integer}}
  All:
    uses: python
    with: {call: "show:received", graphs: "${{ named(jobs.learn.outputs.graph[:, :]) }}"}
    outputs: {Got: {type: json}}
  Each:
    for: [network]
    uses: python
    with:
      call: "show:received"
      sizes: "${{ named(jobs.learn.outputs.size[network, :]) }}"
      data: "${{ named(inputs.Data[:]) }}"
    outputs: {Got: {type: json}}
  Some:
    uses: python
    with:
      call: "show:received"
      some: "${{ where(jobs.learn.outputs.graph[:, :], seed % 2 == 0 and inputs.Sheet[network].use) }}"
      both: "${{ named(where(jobs.learn.outputs.graph['asia', :], seed <= inputs.Limit)) }}"
      number: "${{ len(where(jobs.learn.outputs.graph[:, :], seed == 1)) }}"
      most: "${{ max(where(jobs.learn.outputs.size[:, :], network == 'asia')) }}"
      none: "${{ named(where(jobs.learn.outputs.graph[:, :], seed > 9)) }}"
    outputs: {Got: {type: json}}
  Script:
    uses: shell
    with:
      graphs: "${{ named(jobs.learn.outputs.graph[:, :]) }}"
      none: "${{ named(where(jobs.learn.outputs.graph[:, :], seed > 9)) }}"
      run: |
        echo "${#none[@]}" > "$out_Lines"
        for key in "${!graphs[@]}"; do echo "$key=$(cat "${graphs[$key]}")"; done | sort >> "$out_Lines"
    outputs: {Lines: {type: text}}
  Plain:
    uses: shell
    with:
      shell: sh
      graphs: "${{ named(jobs.learn.outputs.size['asia', :]) }}"
      run: 'echo "$graphs" > "$out_Lines"'
    outputs: {Lines: {type: text}}
"""
FILES = {"show.py": CODE, "d/x.txt": "dx", "d/y 1.txt": "dy"}


@pytest.fixture
def lab(project: Make) -> Lab:
    return project(TEXT, FILES)


def test_a_named_fan_in_is_a_mapping_with_one_level_for_each_colon(lab: Lab) -> None:
    lab.succeed()
    assert lab.content("Artifact:All.Got") == {
        "graphs": [
            ["asia", [[n, f"graphs/asia/{n}:asia {n}"] for n in (1, 2, 3)]],
            ["a/b", [[n, f"graphs/a%2Fb/{n}:a/b {n}"] for n in (1, 2)]],
        ]
    }
    assert lab.content("Artifact:Each.Got[asia]") == {
        "sizes": [[1, 7], [2, 7], [3, 7]],
        "data": [["x", "inputs/data/x.txt:dx"], ["y 1", "inputs/data/y%201.txt:dy"]],
    }
    assert lab.content("Artifact:Script.Lines").splitlines() == [
        "0", "a/b,1=a/b 1", "a/b,2=a/b 2", "asia,1=asia 1", "asia,2=asia 2", "asia,3=asia 3",
    ]  # fmt: skip
    assert lab.content("Artifact:Plain.Lines") == "1=7\n2=7\n3=7\n"
    assert lab.plan().headlines() == {}


def test_where_binds_only_the_members_that_pass(lab: Lab) -> None:
    bindings = {job.id: job.bindings for job in lab.plan().planned}["Job:Some"]
    assert bindings == {
        "some": ["Artifact:learn.graph[asia][2]"],
        "both": ["Artifact:learn.graph[asia][1]", "Artifact:learn.graph[asia][2]"],
        "none": [],
    }
    lab.succeed()
    got = lab.content("Artifact:Some.Got")
    assert [value.rpartition(":")[2] for value in got["some"]] == ["asia 2"]
    assert [key for key, _ in got["both"]] == [1, 2]
    assert (got["number"], got["most"], got["none"]) == (2, 7, [])


def test_members_that_do_not_pass_make_nothing_dirty(lab: Lab) -> None:
    lab.succeed()
    lab.edit("workflow.yaml", '      number: "${{ len(where(jobs.learn.outputs.graph[:, :], seed == 1)) }}"\n', "")
    lab.edit(
        "workflow.yaml", "      most: \"${{ max(where(jobs.learn.outputs.size[:, :], network == 'asia')) }}\"\n", ""
    )
    lab.succeed()
    forced = lab.plan(force=["Job:learn[asia][3]"])
    assert "Job:Some" not in forced.headlines()
    assert forced.headlines()["Job:All"] == "UPSTREAM_DIRTY"
    assert lab.plan(force=["Job:learn[asia][2]"]).headlines()["Job:Some"] == "UPSTREAM_DIRTY"
    lab.edit("workflow.yaml", "default: 2", "default: 3")  # another member passes
    assert lab.plan().headlines() == {"Job:Some": "INPUT_CHANGED"}
    snapshot = lab.snapshot()
    again = replay_snapshot(snapshot_blob(snapshot), lab.opened().history())
    plans = [compute_execution_plan(each, PlanOptions()).to_json() for each in (again, snapshot)]
    assert plans[0] == plans[1]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("${{ named(jobs.learn.outputs.graph[:, :]) }}", "${{ jobs.learn.outputs.graph[:, :] }}"),
        ("${{ named(jobs.learn.outputs.graph['asia', :]) }}", "${{ jobs.learn.outputs.graph['asia', :] }}"),
        ("${{ named(where(jobs.learn.outputs.graph[:, :], seed > 9)) }}",
         "${{ where(jobs.learn.outputs.graph[:, :], seed > 9) }}"),
        ("${{ named(where(jobs.learn.outputs.graph[:, :], seed == 3)) }}",
         "${{ where(jobs.learn.outputs.graph[:, :], seed == 3) }}"),
        ("${{ named(jobs.learn.outputs.graph['asia', :]) }}", "${{ named(where(jobs.learn.outputs.graph[:, :], network "
         "== 'asia')) }}"),
    ],
)  # fmt: skip
def test_keys_count(project: Make, before: str, after: str) -> None:
    """Also for an empty fan-in, and for one with a single member."""
    head = TEXT.partition("  All:\n")[0]
    job = '  J: {{uses: python, with: {{call: "show:received", x: "{}"}}, outputs: {{Got: {{type: json}}}}}}\n'
    lab = project(head + job.format(before), FILES)
    lab.succeed()
    for text in (after, before):
        lab.write({"workflow.yaml": head + job.format(text)})
        if text == after:
            assert lab.plan().headlines() == {"Job:J": "INPUT_CHANGED"}
            lab.succeed()
    assert [job.reuse and job.reuse.run for job in lab.plan().planned] == ["r0001"]


@pytest.mark.parametrize(
    ("expression", "message", "hint"),
    [
        ("named(jobs.learn.outputs.graph['asia', 1])", "`named` takes many elements, and this is one",
         "select with `[:]`"),
        ("named(1)", "`named` takes a selection", "write `named(jobs.J.outputs.X[:])`"),
        ("where(jobs.learn.outputs.graph[:, :])", "`where` takes a selection and a condition",
         "write `where(jobs.J.outputs.X[:, :], seed % 5 == 0)`"),
        ("where(jobs.learn.outputs.graph[:, :], sed == 1)", "there is no `sed` here", "did you mean `seed`?"),
        ("where(jobs.learn.outputs.graph[:, :], jobs.learn.outputs.size[network, seed] > 1)",
         "`jobs` cannot be used in the condition of `where`", "allowed here: `inputs`, `loops`"),
        ("where(inputs.Data[:], 1 == 1)", "these elements have no loop variables", "`where` chooses instances of jobs"),
        ("len(named(jobs.learn.outputs.graph[:, :]))", "`named` is a whole value, not a part of one",
         "give it an entry of its own in `with:`, as one whole `${{ }}`"),
        ("where(jobs.learn.outputs.graph[:, :], network > 1)",
         "`network > 1`: `>` cannot compare a string with a number (in `Job:learn[asia][1]`)", None),
    ],
)  # fmt: skip
def test_mistakes(project: Make, expression: str, message: str, hint: str | None) -> None:
    text = TEXT.replace("named(jobs.learn.outputs.size['asia', :])", expression)
    (only,) = project(text, FILES).opened().problems
    assert (only.message, only.hint) == (message, hint)


def test_where_over_files_for_loops(project: Make) -> None:
    text = """\
workflow: w
inputs: {File: {type: file, for: [name], path: "d/${{ name }}.txt"}}
loops: {name: {values: [x, "y 1"]}}
jobs:
  J:
    uses: python
    with: {call: "show:received", files: "${{ named(where(inputs.File[:], startswith(name, 'y'))) }}"}
    outputs: {Got: {type: json}}
"""
    lab = project(text, FILES)
    assert [job.bindings for job in lab.plan().planned] == [{"files": ['Input:File["y 1"]']}]


def test_a_fan_in_looks_only_at_its_own_rows(project: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fan-in for each of many indices must not look at all rows for each of them."""
    looked: list[object] = []
    fits = resolve._fits
    monkeypatch.setattr(resolve, "_fits", lambda wanted, have: looked.append(have) or fits(wanted, have))
    text = """\
workflow: w
loops: {x: {count: 40}, y: {count: 3}}
jobs:
  A: {for: [x, y], uses: shell, with: {run: x}, outputs: {T: {type: text}}}
  B: {for: [x], uses: shell, with: {all: "${{ jobs.A.outputs.T[x, :] }}", run: x}, outputs: {T: {type: text}}}
"""
    graph = project(text).opened().graph
    assert {len(slot.column.at(7).members) for slot in graph.tables[1].slots if slot.name == "all"} == {3}  # type: ignore[union-attr]
    assert len(looked) == 40 * 3
