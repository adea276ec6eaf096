"""The leaves of `data/check` that a workflow declares: each is a diagnostic that the step computes, of its type."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from project_lab import Lab
from whyrun.snapshot.composition import diagnostic_leaf_problems

Make = Callable[..., Lab]
FLOW = """\
workflow: w
COMPOSITIONinputs: {Main: {type: dataset, default: main.csv}, How: {type: string, default: rows}}
loops: {i: {count: 2}}
jobs:
  Check:
    for: [i]
    uses: USES
    with:
      primary_dataset: ${{ inputs.Main }}
      diagnostics: DIAGNOSTICS
    outputs:
      other: {type: json, leaves: {rows: integer}}
      report: {type: json, leaves: {LEAVES}}
"""
DIAGNOSTICS = "{rows: rows, share: {missing_share: [x]}, twice: {duplicates: [x]}, sql: {sql: SELECT 1}}"


def flow(leaves: str, diagnostics: str = DIAGNOSTICS, uses: str = "data/check", composition: str = "") -> str:
    text = FLOW.replace("LEAVES", leaves).replace("DIAGNOSTICS", diagnostics).replace("USES", uses)
    return text.replace("COMPOSITION", composition)


def leaf_problems(lab: Lab) -> list[tuple[str, str, str | None]]:
    found = diagnostic_leaf_problems(lab.opened().graph)
    return [(problem.code, problem.message, problem.hint) for problem in found]


UNKNOWN = ("UNKNOWN_REFERENCE", "`Check` computes no diagnostic `row`", "did you mean `rows`?")


def part(name: str, text: str) -> tuple[str, str, str]:
    message = f"the diagnostic `{name}` of `Check` is one value, and has no part `{text}`"
    return "UNKNOWN_REFERENCE", message, f"read `{name}`"


def wrong(name: str, is_: str, written: str) -> tuple[str, str, str]:
    message = f"the diagnostic `{name}` of `Check` is of type `{is_}`, not `{written}`"
    return "WRONG_TYPE", message, f"write `{name}: {is_}`"


@pytest.mark.parametrize(
    ("leaves", "expected"),
    [
        ("rows: integer, share: number, twice: integer, sql: string", []),
        ("rows: number, share: json, twice: json, sql: boolean", []),
        ("row: integer", [UNKNOWN]),
        ("zzzzzz: integer",
         [("UNKNOWN_REFERENCE", "`Check` computes no diagnostic `zzzzzz`", "known: `rows`, `share`, `twice`, `sql`")]),
        ("rows: string", [wrong("rows", "integer", "string")]),
        ("share: integer", [wrong("share", "number", "integer")]),
        ("twice: boolean", [wrong("twice", "integer", "boolean")]),
        ("share.top: number", [part("share", "share.top")]),
        ('"share[0]": number', [part("share", "share[0]")]),
        ('"sql[0].top": number', [part("sql", "sql[0].top")]),
        ("row: integer, share: integer, sql.top: json",
         [UNKNOWN, wrong("share", "number", "integer"), part("sql", "sql.top")]),
    ],
)  # fmt: skip
def test_a_leaf_is_a_diagnostic_of_its_type(
    project: Make, leaves: str, expected: list[tuple[str, str, str | None]]
) -> None:
    assert leaf_problems(project(flow(leaves), {"main.csv": "id,x\n1,2\n"})) == expected


NONE = [
    ("UNKNOWN_REFERENCE", f"`Check` computes no diagnostic `{name}`", "add it to its `diagnostics`")
    for name in ("rows", "row")
]


@pytest.mark.parametrize(
    ("diagnostics", "expected"),
    [
        ("{rows: rows, more: '${{ inputs.How }}'}", []),
        ("'${{ inputs.How }}'", []),
        ("[rows]", []),
        ("{rows: rows}", [UNKNOWN]),
        ("{}", NONE),
    ],
)
def test_of_diagnostics_that_are_not_written_down_nothing_is_known(
    project: Make, diagnostics: str, expected: list[tuple[str, str, str | None]]
) -> None:
    assert leaf_problems(project(flow("row: integer", diagnostics), {"main.csv": "id,x\n1,2\n"})) == expected


def test_leaves_of_other_actions_are_their_own(project: Make) -> None:
    lab = project(flow("row: integer", uses="python").replace("primary_dataset: ", "call: 'a:f'\n      data: "), {
        "main.csv": "id,x\n1,2\n", "a.py": "def f(data, diagnostics): ...\n",
    })  # fmt: skip
    assert leaf_problems(lab) == []


def test_a_composition_of_a_workflow_file_is_no_dataset_plan(project: Make) -> None:
    text = flow("row: integer", composition="composition: {mode: sequential, roles: {Main: primary_dataset}}\n")
    lab = project(text, {"main.csv": "id,x\n1,2\n"})
    opened = lab.opened()
    assert UNKNOWN in [(problem.code, problem.message, problem.hint) for problem in opened.problems]


def test_a_file_that_is_imported_twice_is_told_once(project: Make) -> None:
    both = "workflow: both\nimports: {A: {workflow: part.yaml}, B: {workflow: part.yaml}}\njobs: {}\n"
    lab = project(both, {"part.yaml": flow("row: integer"), "main.csv": "id,x\n1,2\n"})
    assert leaf_problems(lab) == [UNKNOWN]
