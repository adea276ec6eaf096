"""Good plans, one for each mode, compile to exactly these IDs, bindings, conditions and outputs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from composition_lab import FIXTURES, GOOD, MANIFEST, described, plans

from whyrun.project import Project
from whyrun.workflow.composition.plan_file.dataset_plan import workflow_name
from whyrun.workflow.expressions.expression import evaluate


@pytest.mark.parametrize("mode", GOOD)
def test_a_plan_becomes_this_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    monkeypatch.chdir(plans(tmp_path))
    opened = Project.open(f"{mode}.json", manifest=MANIFEST)
    assert opened.problems == ()
    assert described(opened.graph) == json.loads((FIXTURES / "good" / f"{mode}.expected.json").read_text())
    assert list(opened.workflow.sources) == sorted([f"{mode}.json", MANIFEST])


def changed(mode: str, *pairs: tuple[str, str]) -> Project:
    text = Path(f"{mode}.json").read_text()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new, 1)
    Path("changed.json").write_text(text)
    return Project.open("changed.json", manifest=MANIFEST)


def test_files_of_produces_pair_with_products_by_stem_or_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(plans(tmp_path))
    opened = changed(
        "sequential",
        ('"produces": ["cleaned.csv"]', '"produces": ["cleaned.parquet", "run.meta.json", "2nd.log"]'),
        ('"produces": []', '"produces": ["fit.csv"]'),
        ('"produces": ["text.md"]', '"produces": ["text.json"]'),
    )
    outputs = {
        name: {output.name: (output.type, output.suffix, output.path) for output in decl.outputs.values()}
        for name, decl in opened.workflow.jobs.items()
    }
    assert outputs == {
        "clean": {
            "cleaned": ("dataset", ".parquet", None),
            "run_meta": ("file", ".json", None),
            "_2nd": ("text", ".log", None),
        },
        "model": {"fit": ("dataset", ".csv", "out/fit.csv")},
        "report": {"text": ("json", "", None)},
    }


def test_what_is_not_reserved_goes_to_the_action_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(plans(tmp_path))
    opened = changed(
        "sequential", ('"label": "all"', '"label": "${{ 1 + 1 }} \\ud83d\\ude00", "other": [1, {"a": null}]')
    )
    parameters = opened.workflow.jobs["model"].with_
    assert {name: parameters[name] for name in ("call", "label", "other")} == {
        "call": "plan_steps:model",
        "label": "${{ 1 + 1 }} 😀",
        "other": [1, {"a": None}],
    }
    assert opened.problems == ()


@pytest.mark.parametrize(
    ("predicate", "text", "values", "result"),
    [
        ('{"op": "eq", "left": "prod:diagnose:report.a", "right": "x"}', "{a} == 'x'", ["x"], True),
        ('{"op": "ne", "left": "prod:diagnose:report.a", "right": null}', "{a} != None", [None], False),
        ('{"op": "le", "left": 2, "right": "prod:diagnose:report.a"}', "2 <= {a}", [2], True),
        ('{"op": "ge", "left": "prod:diagnose:report.a", "right": 2.5}', "{a} >= 2.5", [2], False),
        ('{"op": "in", "left": "prod:diagnose:report.a", "right": ["x", "y"]}', "{a} in ['x', 'y']", ["y"], True),
        ('{"op": "contains", "left": "prod:diagnose:report.a", "right": "y"}', "contains({a}, 'y')", [["x"]], False),
        ('{"op": "matches", "left": "prod:diagnose:report.a", "right": "a+b"}', "matches({a}, 'a+b')", ["aab"], True),
        ('{"op": "exists", "left": "prod:diagnose:report"}', "exists(jobs.diagnose.outputs.report)", [{}], True),
        (
            '{"op": "all", "of": [{"op": "gt", "left": "prod:diagnose:report.a", "right": 1},'
            ' {"op": "not", "of": {"op": "any", "of": [{"op": "lt", "left": "prod:diagnose:report.b[0].c", "right": 5},'
            ' {"op": "exists", "left": "prod:diagnose:report.a"}]}}]}',
            "({a} > 1) and not (({b} < 5) or exists({a}))",
            [2, 7, 2],
            False,
        ),
    ],
)
def test_predicates_are_the_expressions_of_if(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, predicate: str, text: str, values: list[object], result: bool
) -> None:
    monkeypatch.chdir(plans(tmp_path))
    old = '{"op": "lt", "left": "prod:diagnose:report.missing_share", "right": 0.05}'
    opened = changed("conditional", (old, predicate))
    assert opened.problems == ()
    composition = opened.workflow.composition
    assert composition is not None
    found = composition.conditions[0].predicate
    leaf = "jobs.diagnose.outputs.report"
    assert found.text == text.replace("{a}", f"{leaf}.a").replace("{b}", f"{leaf}.b[0].c")
    assert evaluate(found, values, {}) is result
    declared = {leaf.text for leaf in opened.workflow.jobs["diagnose"].outputs["report"].leaves}
    assert {"a", "b[0].c"} & declared == {name for name in ("a", "b[0].c") if f"report.{name}" in predicate}


def test_the_same_condition_in_a_workflow_file_has_the_same_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(plans(tmp_path))
    plan = Project.open("conditional.json", manifest=MANIFEST).workflow.jobs["model-b"].condition
    Path("w.yaml").write_text(
        "workflow: w\n"
        "inputs: {extra: {type: dataset, default: inputs/extra.csv}}\n"
        "jobs:\n"
        "  diagnose:\n"
        "    uses: python\n"
        "    with: {call: 'plan_steps:diagnose', primary_dataset: '${{ inputs.extra }}'}\n"
        "    outputs: {report: {type: json, leaves: {missing_share: json}}}\n"
        "  model:\n"
        "    if: ${{ jobs.diagnose.outputs.report.missing_share < 0.05 }}\n"
        "    uses: python\n"
        "    with: {call: 'plan_steps:model', primary_dataset: '${{ inputs.extra }}'}\n"
        "    outputs: {fit: {type: dataset}}\n"
    )
    own = Project.open("w.yaml").workflow.jobs["model"].condition
    assert plan is not None
    assert own is not None
    assert (plan.text, [type(ref) for ref in plan.refs]) == (own.text, [type(ref) for ref in own.refs])
    assert [evaluate(e, [value], {}) for e in (plan, own) for value in (0.01, 0.5)] == [True, False, True, False]


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("plan.json", "plan"),
        ("Firm Panel (2024).json", "firm-panel-2024"),
        ("2024.json", "plan-2024"),
        ("store.json", "plan-store"),
        ("Ärger.json", "rger"),
        ("+.json", "plan"),
    ],
)
def test_the_name_of_the_workflow_is_the_stem_made_valid(key: str, name: str) -> None:
    assert workflow_name(key) == name
