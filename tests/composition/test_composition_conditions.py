"""Conditions in the summary, also nested ones: each with the values that it read, and why it has no result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from whyrun import api
from whyrun.artifacts.hashing import canonical_json, file_sha256, value_sha256
from whyrun.cli.main import main

STEPS = """\
import json


def report(primary_dataset, context, value=None):
    context.output("report").write_text(json.dumps({"rows": 2, "columns": 2, "v": value}))


def copy(primary_dataset, context):
    context.output("o").write_bytes(primary_dataset.read_bytes())
"""
DIAGNOSE = "Artifact:diagnose.report"


def action(step: str, product: str, call: str, after: tuple[str, ...] = ("diagnose",), **params: Any) -> dict[str, Any]:
    bindings = {"primary_dataset": params.pop("bound", "input:main")}
    kind = "report" if product == "report" else "dataset"
    return {"step_id": step, "type": "action", "depends_on": list(after), "produces": [], "params": {
        "composition_mode": "conditional", "template_id": "python", "call": f"steps:{call}", "input_bindings": bindings,
        "products": [{"product_id": product, "kind": kind}], **params}}  # fmt: skip


def condition(step: str, predicate: dict[str, Any], true: list[str], false: list[str]) -> dict[str, Any]:
    params = {"predicate": predicate, "true_steps": true, "false_steps": false, "composition_mode": "conditional"}
    return {"step_id": step, "type": "condition", "depends_on": ["diagnose"], "params": params}


def more(leaf: str, bound: float) -> dict[str, Any]:
    return {"op": "gt", "left": f"prod:diagnose:report.{leaf}", "right": bound}


def planned(tmp_path: Path, *steps: dict[str, Any], value: Any = None) -> None:
    (tmp_path / "steps.py").write_text(STEPS)
    (tmp_path / "main.csv").write_text("a,b\n1,2\n3,4\n")
    datasets = [{"dataset_key": "main", "role": "primary_dataset", "rel_path": "main.csv"}]
    (tmp_path / "m.json").write_text(json.dumps({"schema_version": 2, "datasets": datasets}))
    diagnose = action("diagnose", "report", "report", (), value=value)
    (tmp_path / "plan.json").write_text(json.dumps({"plan_version": 1, "steps": [diagnose, *steps]}))


def nested(tmp_path: Path, bound: int, false: list[str], outer: dict[str, Any] | None = None, **more_: Any) -> None:
    branches = (action(step, "o", "copy") for step in (*false, "wide", "narrow"))
    first = condition("outer", outer or more("rows", bound), ["inner"], false)
    planned(tmp_path, first, condition("inner", more("columns", 5), ["wide"], ["narrow"]), *branches, **more_)


def summary(tmp_path: Path, run: str = "r0001") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((tmp_path / ".whyrun/plan/runs" / run / "composition_summary.json").read_bytes())
    return found


def decisions(tmp_path: Path, run: str = "r0001") -> dict[str, tuple[Any, ...]]:
    return {
        found["step_id"]: (found["result"], found["taken"], found["not_taken"], sorted(found["inputs"]), found["why"])
        for found in summary(tmp_path, run)["decisions"]
    }


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[object, str]:
    """What `whyrun show --composition r0001` ends with and prints."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["show", "--composition", "r0001", *words])
    printed = capsys.readouterr()
    return ended.value.code, printed.out + printed.err


PLAN = ("plan.json", "--manifest", "m.json")


@pytest.fixture(autouse=True)
def _there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_an_inner_condition_of_the_branch_that_was_left_took_nothing(tmp_path: Path) -> None:
    nested(tmp_path, 100, ["small"])
    assert api.run("plan.json", manifest="m.json").exit_code == 0
    assert decisions(tmp_path) == {
        "outer": (False, ["Job:small"], ["inner"], [f"{DIAGNOSE}.rows"], f"{DIAGNOSE}.rows = 2"),
        "inner": (
            None,
            [],
            [],
            [f"{DIAGNOSE}.columns"],
            "not evaluated: it is in the branch of `outer` that was not taken",
        ),
    }


def test_an_outer_condition_that_has_only_conditions_was_evaluated(tmp_path: Path) -> None:
    nested(tmp_path, 1, [])
    assert api.run("plan.json", manifest="m.json").exit_code == 0
    assert decisions(tmp_path) == {
        "outer": (True, ["inner"], [], [f"{DIAGNOSE}.rows"], f"{DIAGNOSE}.rows = 2"),
        "inner": (False, ["Job:narrow"], ["Job:wide"], [f"{DIAGNOSE}.columns"], f"{DIAGNOSE}.columns = 2"),
    }
    statuses = {step["step_id"]: (step["status"], step.get("because")) for step in summary(tmp_path)["steps"]}
    text = "(jobs.diagnose.outputs.report.rows > 1) and (jobs.diagnose.outputs.report.columns > 5)"
    because = {"condition": text, "inputs": {f"{DIAGNOSE}.rows": 2, f"{DIAGNOSE}.columns": 2}}
    assert statuses == {
        "Job:diagnose": ("completed", None), "Job:wide": ("inactive", because), "Job:narrow": ("completed", None),
    }  # fmt: skip


def test_conditions_of_steps_that_are_up_to_date_are_reported_again(tmp_path: Path) -> None:
    nested(tmp_path, 1, [])
    assert api.run("plan.json", manifest="m.json").exit_code == 0
    first = decisions(tmp_path)
    (tmp_path / "steps.py").write_text(STEPS.replace("read_bytes()", "read_bytes() + b''"))
    assert api.run("plan.json", manifest="m.json", force=["Job:narrow"]).exit_code == 0
    assert decisions(tmp_path, "r0002") == first


@pytest.mark.parametrize(("value", "kind"), [(None, "null"), ("abc", "a string"), ([1], "a list"), (True, "a boolean")])
def test_what_cannot_be_compared_is_named(tmp_path: Path, value: Any, kind: str) -> None:
    nested(tmp_path, 0, ["small"], {"op": "lt", "left": "prod:diagnose:report.v", "right": 1}, value=value)
    done = api.run("plan.json", manifest="m.json")
    if value is True:  # which Python compares as 1
        assert (done.exit_code, decisions(tmp_path)["outer"][0]) == (0, False)
        return
    assert done.exit_code == 1
    words = f"`prod:diagnose:report.v` is {kind}, and `lt` compares numbers"
    assert decisions(tmp_path) == {
        "outer": (None, [], [], [f"{DIAGNOSE}.v"], f"not evaluated: {words}"),
        "inner": (None, [], [], [f"{DIAGNOSE}.columns"],
                  "not evaluated: `outer`, in whose branch it is, has no result"),
    }  # fmt: skip
    (small,) = (step for step in summary(tmp_path)["steps"] if step["step_id"] == "Job:small")
    assert small["error"] == (
        "ExpressionError: the condition cannot be computed: `not (jobs.diagnose.outputs.report.v < 1)`: "
        f"condition `outer`: {words}"
    )


def test_exists_asks_for_a_product_and_has_its_hash(tmp_path: Path) -> None:
    nested(tmp_path, 0, ["small"], {"op": "exists", "left": "prod:diagnose:report"})
    assert api.run("plan.json", manifest="m.json").exit_code == 0
    found = summary(tmp_path)
    (made,) = (step["products"] for step in found["steps"] if step["step_id"] == "Job:diagnose")
    outer, inner = found["decisions"]
    assert (outer["result"], outer["inputs"], outer["why"]) == (
        True, {DIAGNOSE: {"value": None, "sha256": made[0]["sha256"]}}, f"{DIAGNOSE} is there",
    )  # fmt: skip
    assert inner["inputs"] == {f"{DIAGNOSE}.columns": {"value": 2, "sha256": value_sha256(2)}}


def test_a_step_whose_source_is_inactive_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    after = action("after", "o", "copy", ("wide",), bound="prod:wide:o")
    branches = [action(step, "o", "copy") for step in ("wide", "narrow")]
    planned(tmp_path, condition("choose", more("columns", 5), ["wide", "after"], ["narrow"]), *branches, after)
    (tmp_path / "w.yaml").write_text("""\
workflow: w
composition: {mode: conditional}
inputs:
  Main: {type: dataset, default: main.csv}
jobs:
  Check:
    uses: data/check
    with: {primary_dataset: "${{ inputs.Main }}", diagnostics: {rows: rows}}
    outputs: {report: {type: json, leaves: {rows: integer}}}
  Large:
    if: ${{ jobs.Check.outputs.report.rows > 5 }}
    uses: data/sql
    with: {primary_dataset: "${{ inputs.Main }}", query: SELECT * FROM primary_dataset}
    outputs: {data: {type: dataset}}
  After:
    uses: data/sql
    with: {primary_dataset: "${{ jobs.Large.outputs.data }}", query: SELECT * FROM primary_dataset}
    outputs: {data: {type: dataset}}
""")
    assert api.run("w.yaml").exit_code == 0
    steps = json.loads((tmp_path / ".whyrun/w/runs/r0001/composition_summary.json").read_bytes())["steps"]
    assert {step["step_id"]: step.get("because") for step in steps} == {
        "Job:Check": None,
        "Job:Large": {"condition": "jobs.Check.outputs.report.rows > 5", "inputs": {"Artifact:Check.report.rows": 2}},
        "Job:After": {"source": "Artifact:Large.data"},
    }
    _, tree = shown(capsys, "w.yaml")
    assert "  Job:Large  data/sql  inactive\n  │  its condition is false\n" in tree
    assert "  Job:After  data/sql  inactive\n  │  because Artifact:Large.data is absent\n" in tree


def test_a_damaged_manifest_of_an_earlier_run_stops_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nested(tmp_path, 100, ["small"])
    api.run("plan.json", manifest="m.json")
    damaged = tmp_path / ".whyrun/plan/runs/r0001/manifest.yaml"
    for content in (b"{}", b'{"composition":', damaged.read_bytes().replace(b"python", b"pyth0n")):
        damaged.write_bytes(content)
        assert api.run("plan.json", manifest="m.json", force=["Job:narrow"]).exit_code == 0
        code, text = shown(capsys, *PLAN)
        assert (code, "the facts of r0001 are damaged: " in text) == (2, True)


def test_how_a_file_is_read_may_come_from_an_input(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a;x\n1;2\n")
    (tmp_path / "b.csv").write_text("a;y\n1;3\n")
    (tmp_path / "w.yaml").write_text("""\
workflow: w
inputs:
  A: {type: dataset, default: a.csv}
  B: {type: dataset, default: b.csv}
  Sep: {type: string, default: ";"}
jobs:
  Merge:
    uses: data/merge
    with:
      primary_dataset: ${{ inputs.A }}
      secondary_dataset: ${{ inputs.B }}
      keys: [a]
      delimiter: ${{ inputs.Sep }}
    outputs: {m: {type: dataset, path: out/m.csv}}
""")
    assert list(api.validate("w.yaml")) == []
    assert api.run("w.yaml").exit_code == 0
    assert (tmp_path / "out/m.csv").read_text() == "a,x,y\n1,2,3\n"


def test_the_first_of_a_branch_and_a_dataset_is_there_whatever_runs(tmp_path: Path) -> None:
    after = action("after", "o", "copy", ("wide",), bound={"first": ["prod:wide:o", "input:main"]})
    wide, narrow = (action(step, "o", "copy") for step in ("wide", "narrow"))
    planned(tmp_path, condition("choose", more("columns", 5), ["wide"], ["narrow"]), wide, narrow, after)
    assert api.run("plan.json", manifest="m.json").exit_code == 0
    bound = {step["step_id"]: [made["id"] for made in step["bindings"]] for step in summary(tmp_path)["steps"]}
    assert bound["Job:after"] == ["Input:main"]


def test_a_condition_without_a_value_is_reported_once_and_recorded_for_each_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = ["small", "tiny"]
    nested(tmp_path, 0, steps, {"op": "lt", "left": "prod:diagnose:report.v", "right": 1}, value="abc")
    with pytest.raises(SystemExit) as ended:
        main(["run", "plan.json", "--manifest", "m.json"])
    assert ended.value.code == 1
    words = "condition `outer`: `prod:diagnose:report.v` is a string, and `lt` compares numbers"
    errors = capsys.readouterr().err
    first, *others = (line.split(" FAILED ", 1)[1] for line in errors.splitlines() if "] FAILED " in line)
    step = first.split()[0]
    assert first.endswith(words)
    (again,) = (line for line in errors.splitlines() if line.startswith(f"  {step} "))
    assert again.startswith(f"  {step} and 3 more  ExpressionError: the condition cannot be computed: ")
    assert errors.count(words) == 2  # when it happens, and in the summary
    assert sorted(line.split()[0] for line in (first, *others)) == [
        "Job:narrow", "Job:small", "Job:tiny", "Job:wide",
    ]  # fmt: skip
    assert {line.partition(" → ")[2] for line in others} == {f"its condition has no value, as that of {step}"}
    errors = [made["error"] for made in summary(tmp_path)["steps"] if "error" in made]
    assert len(errors) == 4
    assert all(error.endswith(words) for error in errors)


def test_a_killed_run_of_a_version_that_recorded_less_is_completed(tmp_path: Path) -> None:
    """Its manifest does not record what the conditions read, so their results are not known."""
    nested(tmp_path, 100, ["small"])
    assert api.run("plan.json", manifest="m.json").exit_code == 0
    run = tmp_path / ".whyrun/plan/runs/r0001"
    manifest = json.loads((run / "manifest.yaml").read_bytes())
    for asked in manifest["composition"]["conditions"]:
        del asked["asks"]
    recorded = file_sha256(run / "manifest.yaml")
    (run / "manifest.yaml").write_bytes(canonical_json(manifest))
    for written_last in ("composition_summary.json", "status.json"):
        (run / written_last).unlink()
    log = (run / "events.jsonl").read_bytes().replace(recorded.encode(), file_sha256(run / "manifest.yaml").encode())
    lines = log.splitlines(keepends=True)
    (run / "events.jsonl").write_bytes(b"".join(lines[:-1]))  # killed before its last word
    assert api.run("plan.json", manifest="m.json").exit_code == 0
    why = "not evaluated: the Whyrun that started this run did not record what its conditions read"
    outer = "not evaluated: `outer`, in whose branch it is, has no result"
    assert decisions(tmp_path) == {"outer": (None, [], [], [], why), "inner": (None, [], [], [], outer)}
