"""Problems of jobs are in the words of their file: authors of dataset plans know JSON, and no workflow files."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest
from composition_lab import FIXTURES

from whyrun.project import Project
from whyrun.workflow import advice
from whyrun.workflow.advice import Advice

EVERY = {
    "add_parameter": advice.add_parameter("seeds"),
    "remove_parameter": advice.remove_parameter(),
    "correct_parameter": advice.correct_parameter("rate"),
    "add_field": advice.add_field("low", "limits"),
    "bind_primary": advice.bind_primary("Input:Main"),
    "give_primary_role": advice.give_primary_role("Input:Main"),
    "unread_entry": advice.unread_entry("timeout_secs", "write `timeout: 5m` beside `with:`, as a key of the job"),
    "bind_file": advice.bind_file("model", "file", whole=True),
    "name_secret": advice.name_secret("token"),
    "call_or_script": advice.call_or_script(),
    "plain_script": advice.plain_script(),
    "value_of_script": advice.value_of_script(),
    "declare_body": advice.declare_body(),
    "bind_a_dataset": advice.bind_a_dataset(),
    "bind_results": advice.bind_results(),
    "own_path": advice.own_path(""),
}
OF_WORKFLOWS = re.compile(r"`[\w-]+:`|\$\{\{|append: true|\bjobs?\b|\binputs\b|\boutputs?\b|`\w+: ")
OF_PLANS = re.compile(r"\bparams\b|input_bindings|template_id|prod:|input:<|\bproducts?\b(?!: )|\bplan\b")


def test_this_page_has_every_text() -> None:
    made = {
        name
        for name, made in inspect.getmembers(advice, inspect.isfunction)
        if made.__module__ == advice.__name__ and inspect.signature(made).return_annotation == "Advice"
    }
    assert made == set(EVERY)


@pytest.mark.parametrize("text", EVERY.values(), ids=list(EVERY))
def test_each_text_is_written_for_both_files(text: Advice) -> None:
    assert text.workflow.strip()
    assert text.plan.strip()
    assert text.workflow != text.plan
    assert str(text) == text.workflow
    assert not OF_PLANS.search(text.workflow)
    assert not OF_WORKFLOWS.search(text.plan)
    assert text.workflow.count("`") % 2 == text.plan.count("`") % 2 == 0


OWN = """\
from msgspec import Struct
from whyrun import Action, File, Parameters, Secret

class Limits(Struct):
    low: int
    weights: File | None = None

class Fit(Action):
    name = "fit/model"
    version = "1"
    outputs = {"Model": "file"}

    class Params(Parameters):
        primary_dataset: File
        rate: float = 1.0
        model: File | None = None
        limits: Limits | None = None
        token: Secret | None = None

    def run(self, params, context, logger): ...
"""
MAIN = {"dataset_key": "main", "role": "primary_dataset", "rel_path": "main.csv"}
PYTHON: dict[str, Any] = {"template_id": "python", "call": "tools:fit"}
FIT: dict[str, Any] = {"template_id": "fit/model"}
TWO_PRODUCTS = [{"product_id": name, "kind": "report", "path": "out.json"} for name in "ab"]
ONE_PRODUCT = [{"product_id": "Data", "kind": "dataset"}]
WRONG: list[tuple[dict[str, Any], str, str | None]] = [
    (PYTHON, "`tools:fit` needs the parameter `seeds`", 'add `"seeds"` to `params`'),
    (
        {**PYTHON, "seeds": [1], "input_bindings": {"more": "input:main"}},
        "`tools:fit` needs the parameter `primary_dataset`",
        'add `"primary_dataset": "input:<dataset_key>"` to `input_bindings`',
    ),
    (
        {**PYTHON, "seeds": [1], "context": 1},
        "the worker passes `context` to `tools:fit`",
        "remove it from `params`",
    ),
    (
        {**PYTHON, "seeds": [1], "products": TWO_PRODUCTS},
        "`out.json` would be written by both `Artifact:s.a` and `Artifact:s.b`",
        "give each product a `path` of its own",
    ),
    (
        {"template_id": "python"},
        "`python` needs `call:` or `script:`",
        'write `"call": "module:function"` or `"script": "file.py"`',
    ),
    (
        {"template_id": "shell", "input_bindings": {"run": "input:main"}},
        "`run` must be a script, and cannot be bound",
        'bind the value to a name of its own in `input_bindings` and write "$name" in the script',
    ),
    # From the inspector process, which does not know the kind of the file.
    ({**FIT, "rate": "fast"}, '`rate` is "fast"; it takes a number', 'correct `"rate"`'),
    ({**FIT, "limits": {"low": "x"}}, '`limits.low` is "x"; it takes an integer', "correct `limits.low`"),
    ({**FIT, "limits": {}}, "`limits` needs `low`", 'add `"low"` to `limits`'),
    (
        {**FIT, "model": "x.bin"},
        '`model` is the text "x.bin", not a bound file or folder; it takes a file or null',
        'bind it in `input_bindings`: `"model": "input:<dataset_key>"`: its content counts',
    ),
    (
        {**FIT, "limits": {"low": 1, "weights": "x.bin"}},
        '`limits.weights` is the text "x.bin", not a bound file or folder; it takes a file or null',
        "`input_bindings` binds whole parameters only: bind the file to one that takes a file",
    ),
    (
        {**FIT, "token": "hunter2"},
        "`token` is a secret, and must not be written in the workflow",
        'a dataset plan gives no secrets: let the action take a connection, written `"@family.alias"`',
    ),
    (
        {"template_id": "data/aggregate", "products": ONE_PRODUCT},
        'aggregate takes two or more results: bind a list: `"primary_dataset": ["prod:a:fit", "prod:b:fit"]`, with '
        "`labels` where step ids will not do",
        "see `whyrun actions` for what it takes",
    ),
    (
        {"template_id": "http/json", "url": "https://example.org", "download": "/url"},
        "`download` writes the output `Body`, which the job does not declare",
        'declare it in `products`: `{"product_id": "Body", "kind": "dataset"}`',
    ),
]


@pytest.mark.parametrize(("params", "message", "hint"), WRONG, ids=[message[:40] for _, message, _ in WRONG])
def test_a_problem_of_a_step_is_in_the_words_of_plans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, params: dict[str, Any], message: str, hint: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    _write_project()
    step = {"input_bindings": {"primary_dataset": "input:main"}, "composition_mode": "sequential", **params}
    plan = {"plan_version": 1, "steps": [{"step_id": "s", "type": "action", "params": step}]}
    Path("plan.json").write_text(json.dumps(plan))
    problems = Project.open("plan.json", manifest="manifest.json").problems
    assert (message, hint) in [(problem.message, problem.hint) for problem in problems]


def test_the_same_problems_of_a_workflow_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _write_project()
    Path("workflow.yaml").write_text(
        """\
workflow: words
inputs:
  Main: {type: dataset, default: main.csv}
  Rate: {type: string, default: fast}
jobs:
  A:
    uses: python
    with: {call: "tools:fit", primary_dataset: "${{ inputs.Main }}", context: 1}
  B:
    uses: fit/model
    with: {primary_dataset: main.csv, rate: quick}
  C:
    uses: fit/model
    with: {primary_dataset: "${{ inputs.Main }}", rate: "${{ inputs.Rate }}"}
  D:
    uses: data/aggregate
    with: {primary_dataset: "${{ inputs.Main }}"}
    outputs: {Data: {type: dataset, path: out.json}, Text: {type: json, path: out.json}}
  E:
    uses: data/sql
    with: {query: SELECT 1}
    outputs: {Data: {type: dataset}}
"""
    )
    assert [(problem.line, problem.message, problem.hint) for problem in Project.open("workflow.yaml").problems] == [
        (7, "`tools:fit` needs the parameter `seeds`", "add `seeds:` to `with:`"),
        (8, "the worker passes `context` to `tools:fit`", "remove it from `with:`"),
        (
            11,
            '`primary_dataset` is the text "main.csv", not a bound file or folder; it takes a file',
            "declare an input of type `file` and write `primary_dataset: ${{ inputs.Name }}`: its content counts",
        ),
        (11, '`rate` is "quick"; it takes a number', "correct `rate:`"),
        (
            14,
            '`rate` is "fast"; it takes a number',
            "the value comes from `Input:Rate` (its default, workflow.yaml:4): correct it there",
        ),
        (
            18,
            "`out.json` would be written by both `Artifact:D.Data` and `Artifact:D.Text`",
            "give each output a path of its own; or let all of them share the file: `append: true`",
        ),
        (
            20,
            "no dataset is bound: write `primary_dataset: ${{ … }}`",
            "see `whyrun actions` for what it takes",
        ),
    ]


def test_messages_about_a_plan_use_no_words_of_workflow_files() -> None:
    """In any of the fixtures, whatever is wrong with it."""
    texts = {path.stem: path.read_text() for path in (FIXTURES / "refused").glob("*.txt")}
    mixed = {name for name, text in texts.items() for word in ("with:", "uses:", "${{", " map") if word in text}
    assert mixed == set()


def _write_project() -> None:
    Path("main.csv").write_text("id,x\n1,2\n")
    Path("manifest.json").write_text(json.dumps({"schema_version": 2, "datasets": [MAIN]}))
    Path("tools.py").write_text("def fit(primary_dataset, seeds, context): ...\n")
    Path("actions").mkdir()
    Path("actions/own.py").write_text(OWN)
