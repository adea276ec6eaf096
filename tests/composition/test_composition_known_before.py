"""Problems that are known before anything runs: names and types of diagnostics, the shape of imports, the keys of small
JSON files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from composition_lab import FIXTURES, MANIFEST, plans

from whyrun.project import Project

pytest.importorskip("duckdb")

Reported = list[tuple[str, int | None, str, str | None]]


def reported(opened: Project) -> Reported:
    return [(problem.code, problem.line, problem.message, problem.hint) for problem in opened.problems]


# --- predicates --------------------------------------------------------------------------------------------------


def of_predicate(predicate: str, diagnostics: str | None = None) -> list[tuple[str, str]]:
    """The problems of a plan with this predicate."""
    text = (FIXTURES / "good/data_conditional.json").read_text()
    asked = text.replace('{"op": "lt", "left": "prod:diagnose:report.missing_share", "right": 0.05}', predicate)
    if diagnostics is not None:
        asked = asked.replace('"rows": "rows", "missing_share": {"missing_share": ["z"]}', diagnostics)
    Path("asked.json").write_text(asked)
    return [(problem.code, problem.message) for problem in Project.open("asked.json", manifest=MANIFEST).problems]


ROWS, SHARE, QUERY = (f'"prod:diagnose:report.{name}"' for name in ("rows", "missing_share", "spread"))
ALL = '"rows": "rows", "missing_share": {"missing_share": ["z"]}, "spread": {"sql": "SELECT 1 FROM primary_dataset"}'


@pytest.mark.parametrize(
    "predicate",
    [
        f'{{"op": "ge", "left": {ROWS}, "right": 2.5}}',
        f'{{"op": "eq", "left": {ROWS}, "right": 2}}',
        f'{{"op": "in", "left": {ROWS}, "right": [1, 2]}}',
        f'{{"op": "lt", "left": {ROWS}, "right": {SHARE}}}',
        f'{{"op": "lt", "left": {ROWS}, "right": {QUERY}}}',
        f'{{"op": "eq", "left": {QUERY}, "right": "large"}}',
        f'{{"op": "matches", "left": {QUERY}, "right": "l.*"}}',
        f'{{"op": "contains", "left": {QUERY}, "right": "l"}}',
        f'{{"op": "eq", "left": {QUERY}, "right": null}}',
        f'{{"op": "exists", "left": {ROWS}}}',
    ],
)
def test_a_valid_predicate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, predicate: str) -> None:
    monkeypatch.chdir(plans(tmp_path))
    assert of_predicate(predicate, ALL) == []


@pytest.mark.parametrize(
    ("predicate", "message"),
    [
        (f'{{"op": "eq", "left": {ROWS}, "right": "2"}}', "`eq` cannot compare a number with a string"),
        (f'{{"op": "ne", "left": true, "right": {SHARE}}}', "`ne` cannot compare a boolean with a number"),
        (f'{{"op": "gt", "left": "0.5", "right": {SHARE}}}', "`gt` cannot compare a string with a number"),
        (f'{{"op": "in", "left": {ROWS}, "right": 2}}', "`in` cannot be applied to a number and a number"),
        (f'{{"op": "contains", "left": {ROWS}, "right": 2}}', "`contains` cannot be applied to a number and a number"),
        (f'{{"op": "lt", "left": {QUERY}, "right": null}}', "`lt` cannot compare any value with nothing"),
    ],
)
def test_an_impossible_predicate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, predicate: str, message: str) -> None:
    monkeypatch.chdir(plans(tmp_path))
    assert of_predicate(predicate, ALL) == [("PREDICATE_KINDS", message)]


def test_every_part_of_a_nested_predicate_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(plans(tmp_path))
    wrong = [f'{{"op": "lt", "left": {ROWS}, "right": "many"}}', f'{{"op": "gt", "left": {SHARE}, "right": "few"}}']
    assert of_predicate(f'{{"op": "any", "of": [{wrong[0]}, {{"op": "not", "of": {wrong[1]}}}]}}') == [
        ("PREDICATE_KINDS", "`lt` cannot compare a number with a string"),
        ("PREDICATE_KINDS", "`gt` cannot compare a number with a string"),
    ]


def test_diagnostics_of_a_custom_step_are_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(plans(tmp_path))
    text = Path("conditional.json").read_text().replace("report.missing_share", "report.whatever")
    Path("own.json").write_text(text)
    assert Project.open("own.json", manifest=MANIFEST).problems == ()


CHECK = """\
workflow: check
inputs: {Main: {type: dataset, default: main.csv}}
jobs:
  Check:
    uses: data/check
    with:
      primary_dataset: ${{ inputs.Main }}
      diagnostics: {rows: rows, share: {missing_share: [x]}, spread: {sql: SELECT 1 FROM primary_dataset}}
    outputs:
      report:
        type: json
        leaves: LEAVES
"""


@pytest.mark.parametrize(
    ("leaves", "expected"),
    [
        ("{rows: integer, share: number, spread: string}", []),
        ("{rows: number, share: json, spread: json}", []),
        (
            "{row: integer, share: integer, spread.top: number}",
            [
                ("UNKNOWN_REFERENCE", 12, "`Check` computes no diagnostic `row`", "did you mean `rows`?"),
                ("WRONG_TYPE", 12, "the diagnostic `share` of `Check` is of type `number`, not `integer`",
                 "write `share: number`"),
                ("UNKNOWN_REFERENCE", 12,
                 "the diagnostic `spread` of `Check` is one value, and has no part `spread.top`", "read `spread`"),
            ],
        ),
    ],
)  # fmt: skip
def test_leaves_of_a_workflow_file(tmp_path: Path, leaves: str, expected: Reported) -> None:
    (tmp_path / "main.csv").write_text("id,x\n1,2\n")
    file = tmp_path / "workflow.yaml"
    file.write_text(CHECK.replace("LEAVES", leaves))
    assert reported(Project.open(file)) == expected


# --- imports -----------------------------------------------------------------------------------------------------

IMPORTED = """\
workflow: part
composition: {mode: sequential, roles: {Names: auxiliary_data}}
inputs:
  Main: {type: dataset}
  Names: {type: dataset}
jobs:
  Clean:
    uses: shell
    with: {run: 'true', primary_dataset: "${{ inputs.Main }}", lookup: "${{ inputs.Names }}"}
    outputs: {Data: {type: dataset}}
  Model:
    uses: shell
    with: {run: 'true', primary_dataset: "${{ SOURCE }}"}
    outputs: {Fit: {type: dataset}}
"""
TOGETHER = """\
  Tab:
    uses: shell
    with: {run: 'true', a: "${{ jobs.Clean.outputs.Data }}", b: "${{ jobs.Model.outputs.Fit }}"}
    outputs: {Out: {type: dataset}}
"""
IMPORTING = """\
workflow: whole
inputs:
  Panel: {type: dataset, default: panel.csv}
imports:
  Part:
    workflow: part.yaml
    with: {Main: "${{ inputs.Panel }}", Names: "${{ inputs.Panel }}"}
jobs:
  Alone:
    uses: shell
    with: {run: 'true'}
"""


@pytest.mark.parametrize("composition", ["", "composition: {mode: sequential}\n"])
@pytest.mark.parametrize("source", ["jobs.Clean.outputs.Data", "inputs.Main"])
def test_the_shape_of_an_imported_workflow_is_looked_at(tmp_path: Path, composition: str, source: str) -> None:
    (tmp_path / "panel.csv").write_text("id,x\n1,2\n")
    both = "" if source != "inputs.Main" else TOGETHER
    (tmp_path / "part.yaml").write_text(IMPORTED.replace("SOURCE", source) + both)
    file = tmp_path / "workflow.yaml"
    file.write_text(IMPORTING.replace("inputs:", f"{composition}inputs:", 1))
    told = [(problem.code, Path(problem.file or "").name, problem.line, problem.message)
            for problem in Project.open(file).problems]  # fmt: skip
    found = list(dict.fromkeys(told))  # a file and its import may both say it, with a hint of their own
    together = (
        "`Job:Part/Tab` puts `Job:Part/Clean` and `Job:Part/Model` together; `sequential` has one line, which may fork"
    )
    expected = [("COMPOSITION_MODE_SHAPE", "part.yaml", 15, together)] if source == "inputs.Main" else []
    assert [problem for problem in found if problem[1] == "part.yaml"] == expected
    if not composition:
        assert found == expected


# --- keys in JSON ------------------------------------------------------------------------------------------------

MERGE = """\
workflow: merge
inputs:
  Main: {type: dataset, default: main.csv}
  Other: {type: dataset, default: other.json}
jobs:
  Merge:
    uses: data/merge
    with: {primary_dataset: "${{ inputs.Main }}", secondary_dataset: "${{ inputs.Other }}", keys: [id]}
    outputs: {Data: {type: dataset}}
"""
MISSING = [("MERGE_KEY_UNKNOWN", 8, "`Input:Other` has no column `id`", "known: `ident`, `y`")]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('[{"id": 1}, {"y": 2}]', []),
        ('{"y": 1}\n{"y": 2, "id": 3}\n', []),
        ('[{"ident": 1}, {"ident": 2, "y": 2}]', MISSING),
        ('{"ident": 1}\n\n{"y": 2}\n', MISSING),
        ('\ufeff{"ident": 1, "y": 2}', MISSING),
        # What is wrong with it is for the step to say, which reads all of it.
        ('[{"ident": 1', []),
        ("[1, 2]", []),
        ("[]", []),
        ("", []),
        (json.dumps([{"ident": "x" * 300_000}]), []),
    ],
    ids=["first", "later", "list", "lines", "object", "torn", "numbers", "no rows", "empty", "large"],
)
def test_keys_are_looked_for_in_small_json_files(tmp_path: Path, content: str, expected: Reported) -> None:
    (tmp_path / "main.csv").write_text("id,x\n1,2\n")
    (tmp_path / "other.json").write_text(content, encoding="utf-8")
    file = tmp_path / "workflow.yaml"
    file.write_text(MERGE)
    assert reported(Project.open(file)) == expected


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("firm_id,year,x", []),
        ("firm_id;year;x", []),  # the action may know how to read it
        ("Firm_ID,Year,x", []),
        ("firm,year,x", [("MERGE_KEY_UNKNOWN", "`Input:controls` has no column `firm_id`")]),
        ("", []),
    ],
)
def test_keys_of_a_merge_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, header: str, expected: list[tuple[str, str]]
) -> None:
    monkeypatch.chdir(plans(tmp_path))
    Path("inputs/controls.csv").write_text(f"{header}\n")
    opened = Project.open("merge.json", manifest=MANIFEST)
    assert [(problem.code, problem.message) for problem in opened.problems] == expected
