"""Dataset plans through the whole spine: run, run again, change a dataset, replay, compare; on the command line too."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest
from composition_lab import FIXTURES, GOOD, MANIFEST, plans

from fork_server import run_command
from whyrun import api
from whyrun.planning.reasons import reason_json
from whyrun.workflow.composition.plan_file.dataset_plan import PLAN_KEYS
from whyrun.workflow.composition.plan_file.manifest import DATASET_KEYS, MANIFEST_KEYS
from whyrun.workflow.composition.plan_file.predicates import OPERATORS, SHAPES
from whyrun.workflow.composition.plan_file.products import FIRST_KEYS, PRODUCT_KEYS
from whyrun.workflow.composition.plan_file.step_keys import (
    ACTION_KEYS,
    ACTION_PARAMS,
    CONDITION_KEYS,
    CONDITION_PARAMS,
    MERGE_KEYS,
    STEP_NAMES,
)
from whyrun.workflow.fields import names_of


def whyrun(folder: Path, *words: str) -> tuple[int, str, str]:
    done = run_command(words, cwd=folder, env=os.environ, timeout=300)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


UPSTREAM = "UPSTREAM_DIRTY"


@pytest.mark.parametrize(
    ("mode", "completed", "dataset", "expected"),
    [
        (
            "sequential",
            3,
            "main",
            {
                "Job:clean": ["INPUT_CHANGED primary_dataset Input:main"],
                "Job:model": [f"{UPSTREAM} Job:clean"],
                "Job:report": [f"{UPSTREAM} Job:model"],
            },
        ),
        (
            "merge",
            3,
            "controls",
            {
                "Job:merge-controls": ["INPUT_CHANGED secondary_dataset[0] Input:controls"],
                "Job:merge-again": [f"{UPSTREAM} Job:merge-controls"],
                "Job:model": [f"{UPSTREAM} Job:merge-again"],
            },
        ),
        (
            "parallel",
            4,
            "extra",
            {
                "Job:b-clean": ["INPUT_CHANGED primary_dataset Input:extra"],
                "Job:b": [f"{UPSTREAM} Job:b-clean"],
                "Job:all": [f"{UPSTREAM} Job:b"],
            },
        ),
        (
            "conditional",
            5,
            "extra",
            {
                "Job:diagnose": ["INPUT_CHANGED primary_dataset Input:extra"],
                "Job:clean": ["INPUT_CHANGED primary_dataset Input:extra", f"{UPSTREAM} Job:diagnose"],
                "Job:model-b": ["MISSING_OUTPUT Artifact:model-b.fit", f"{UPSTREAM} Job:diagnose"],
                "Job:model-c": [f"{UPSTREAM} Job:clean", f"{UPSTREAM} Job:diagnose"],
                "Job:model-d": [f"{UPSTREAM} Job:clean", f"{UPSTREAM} Job:diagnose"],
                "Job:join": [f"{UPSTREAM} Job:model-b", f"{UPSTREAM} Job:model-c"],
            },
        ),
    ],
)
def test_a_run_then_nothing_then_what_a_dataset_makes_dirty(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    completed: int,
    dataset: str,
    expected: dict[str, list[str]],
) -> None:
    project = plans(tmp_path)
    monkeypatch.chdir(project)
    manifest = project / MANIFEST
    data = json.loads(manifest.read_text())
    del data["datasets"][0]["fingerprint"]  # a dataset that may change has none
    manifest.write_text(json.dumps(data))
    flow = api.load(f"{mode}.json", manifest=MANIFEST)
    first = flow.run()
    assert (flow.name, first.exit_code, first.run, first.counts.completed) == (mode, 0, "r0001", completed)
    source = project / ".whyrun" / mode / "runs" / "r0001" / "source"
    kept = {path.relative_to(source).as_posix(): path.read_bytes() for path in source.rglob("*") if path.is_file()}
    assert kept == {name: (project / name).read_bytes() for name in (f"{mode}.json", MANIFEST)}
    assert flow.plan().headlines() == {}
    with (project / "inputs" / f"{dataset}.csv").open("a") as file:
        file.write("3,2001,8\n")
    assert {job.id: [_words(reason_json(reason)) for reason in job.reasons] for job in flow.plan().planned} == expected
    # Replayed from the log and the recorded sources; the same to the byte, or it would be refused.
    assert len(flow.plan(at="r0001").planned) == len(flow.project().graph.tables)
    assert flow.run().exit_code == 0
    assert flow.plan().headlines() == {}


def _words(reason: dict[str, Any]) -> str:
    return " ".join(str(value) for key, value in reason.items() if key not in ("old", "new"))


def test_compare_and_history_work_on_plans(tmp_path: Path) -> None:
    project = plans(tmp_path)
    words = ("merge.json", "--manifest", MANIFEST)
    assert whyrun(project, "run", *words)[0] == 0
    code, out, err = whyrun(project, "compare", *words)
    assert (code, "IDENTICAL 3" in out + err) == (0, True)
    code, out, _ = whyrun(project, "history", "Job:merge-again", *words)
    assert (code, out.split()[0]) == (0, "r0001")
    code, out, _ = whyrun(project, "show", "Artifact:merge-controls.merged", *words, "--json")
    assert (code, json.loads(out)["id"]) == (0, "Artifact:merge-controls.merged")
    code, out, _ = whyrun(project, "why", "Job:model", *words)
    assert code == 0


def test_the_command_line_takes_plans(tmp_path: Path) -> None:
    project = plans(tmp_path)
    assert whyrun(project, "validate", "merge.json", "--manifest", MANIFEST) == (
        0,
        "merge.json: `merge` is valid: 3 jobs, 3 instances, 4 inputs\n",
        "",
    )
    code, out, _ = whyrun(project, "plan", "merge.json", "--manifest", MANIFEST, "--json")
    assert (code, [(job["layer"], job["id"]) for job in json.loads(out)["jobs"]]) == (
        0,
        [(0, "Job:merge-controls"), (1, "Job:merge-again"), (2, "Job:model")],
    )
    code, out, _ = whyrun(project, "explain", "merge.json", "--manifest", MANIFEST)
    assert (code, "Job:merge-controls" in out) == (0, True)
    (project / "ten.json").write_text((FIXTURES / "refused" / "ten_mistakes.json").read_text())
    code, out, err = whyrun(project, "run", "ten.json", "--manifest", MANIFEST)
    assert (code, out, err.count("error[")) == (2, "", 10)
    code, out, _ = whyrun(project, "validate", "ten.json", "--manifest", MANIFEST, "--json")
    answer = json.loads(out)
    assert (code, answer["ok"], len(answer["diagnostics"])) == (2, False, 10)
    assert not (project / ".whyrun").exists()


def test_the_schemas_of_plans_and_manifests(tmp_path: Path) -> None:
    code, out, _ = whyrun(tmp_path, "schema", "plan")
    plan = json.loads(out)
    assert code == 0
    jsonschema.Draft202012Validator.check_schema(plan)
    checker = jsonschema.Draft202012Validator(plan)
    for mode in GOOD:
        checker.validate(json.loads((FIXTURES / "good" / f"{mode}.json").read_text()))
    of_form = [
        "bindings_empty",
        "bindings_missing",
        "composition_mode_missing",
        "composition_mode_unknown",
        "dataset_ref_invalid",
        "merge_operation_missing",
        "merge_operation_unknown",
        "predicate_missing",
        "predicate_unknown",
        "step_id_unsafe",
        "step_type_unknown",
        "template_missing",
        "timeout_wrong",
        "unknown_key",
        "wrong_version",
    ]
    for name in of_form:
        assert not checker.is_valid(json.loads((FIXTURES / "refused" / f"{name}.json").read_text())), name
    code, out, _ = whyrun(tmp_path, "schema", "manifest")
    manifest = json.loads(out)
    assert code == 0
    jsonschema.Draft202012Validator.check_schema(manifest)
    checker = jsonschema.Draft202012Validator(manifest)
    checker.validate(json.loads((FIXTURES / "good" / MANIFEST).read_text()))
    for name in ("version", "key_invalid", "role_unknown", "path_absolute", "path_up", "fingerprint_invalid"):
        assert not checker.is_valid(json.loads((FIXTURES / "refused" / f"manifest_{name}.json").read_text())), name


@pytest.mark.parametrize(
    ("manifest", "rel_path"),
    [
        ("manifest.json", "inputs/main.csv"),
        ("inputs/manifest.json", "inputs/main.csv"),
        ("inputs/manifest.json", "main.csv"),
        ("inputs/manifest.json", "./main.csv"),
    ],
)
def test_a_path_is_written_from_the_folder_of_the_manifest_or_with_its_name_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, manifest: str, rel_path: str
) -> None:
    project = plans(tmp_path)
    dataset = {"dataset_key": "main", "role": "primary_dataset", "rel_path": rel_path}
    names = {"dataset_key": "industry-names", "role": "auxiliary_data", "rel_path": rel_path}
    (project / manifest).write_text(json.dumps({"schema_version": 2, "datasets": [dataset, names]}))
    for folder in (project, tmp_path):
        monkeypatch.chdir(folder)
        flow = api.load(project / "sequential.json", manifest=project / manifest)
        assert {id_: value.path for id_, value in flow.project().inputs.items()} == {
            "Input:main": "inputs/main.csv",
            "Input:industry-names": "inputs/main.csv",
        }


@pytest.mark.parametrize(
    ("plan", "published", "text"),
    [
        ("data_merge", "out/counts.csv", "rows,y,names\n6,21,2\n"),
        ("data_parallel", "out/table.csv", "step,rows\na,2\nb,1\n"),  # labelled by step
        ("data_conditional", "out/join.csv", "how,rows\nknown,1\n"),
    ],
)
def test_the_data_actions_in_plans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: str, published: str, text: str
) -> None:
    pytest.importorskip("duckdb")
    project = plans(tmp_path)
    monkeypatch.chdir(project)
    flow = api.load(f"{plan}.json", manifest=MANIFEST)
    assert flow.run().exit_code == 0
    assert (project / published).read_text() == text
    assert flow.plan().headlines() == {}


def test_every_key_has_a_sentence_and_a_schema() -> None:
    tables = [PLAN_KEYS, ACTION_KEYS, CONDITION_KEYS, ACTION_PARAMS, CONDITION_PARAMS, MERGE_KEYS, PRODUCT_KEYS,
              FIRST_KEYS, MANIFEST_KEYS, DATASET_KEYS, *(keys for _, _, keys in SHAPES)]  # fmt: skip
    rows = [row for keys in tables for row in keys]
    assert [row.name for row in rows if not row.meaning.endswith((".", "…"))] == []
    assert {row.name for row in rows if not row.schema} == {"left", "right"}  # any value
    assert names_of(ACTION_KEYS) == names_of(CONDITION_KEYS) == STEP_NAMES


def test_the_rows_of_predicates_allow_their_operators() -> None:
    for operators, _, (op, *_) in SHAPES:
        assert op.name == "op"
        assert op.schema.get("enum", [op.schema.get("const")]) == list(operators)
    assert len(set(OPERATORS)) == sum(len(operators) for operators, _, _ in SHAPES) == 13


def test_a_manifest_may_lie_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = plans(tmp_path)
    data = tmp_path / "data"
    (project / "inputs").rename(data)
    text = (data / "manifest.json").read_text().replace('"inputs/', '"data/')
    (data / "manifest.json").write_text(text)
    monkeypatch.chdir(project)
    flow = api.load("sequential.json", manifest="../data/manifest.json")
    assert flow.run().exit_code == 0
    assert flow.project().inputs["Input:main"].path == "../data/main.csv"
    source = project / ".whyrun/sequential/runs/r0001/source"
    assert sorted(path.name for path in source.iterdir()) == ["..%2Fdata%2Fmanifest.json", "sequential.json"]
    assert len(flow.plan(at="r0001").planned) == 3
    assert flow.plan().headlines() == {}


def test_independent_steps_start_in_the_order_of_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = plans(tmp_path)
    monkeypatch.chdir(project)
    plan = json.loads(Path("parallel.json").read_text())
    a, b_clean, b, all_ = plan["steps"]
    plan["steps"] = [b_clean, a, b, all_]  # by name `a` would come first
    Path("ordered.json").write_text(json.dumps(plan))
    result = api.load("ordered.json", manifest=MANIFEST).run(jobs=1)
    events = (project / ".whyrun/ordered/runs" / str(result.run) / "events.jsonl").read_text().splitlines()
    started = [event["step_id"] for event in map(json.loads, events) if event["event"] == "step_start"]
    assert started == ["Job:b-clean", "Job:a", "Job:b", "Job:all"]


@pytest.mark.parametrize("linked", [False, True])
def test_data_outside_of_the_project_stand_in_evidence_by_a_relative_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, linked: bool
) -> None:
    project = plans(tmp_path)
    away = tmp_path / "deeper" / "plans"
    away.mkdir(parents=True)
    for file in project.glob("*.py"):
        (away / file.name).write_bytes(file.read_bytes())
    (away / "merge.json").write_bytes((project / "merge.json").read_bytes())
    here = away
    if linked:
        here = tmp_path / "link"
        here.symlink_to(away)
    monkeypatch.chdir(here)
    assert api.run("merge.json", manifest=project / MANIFEST).exit_code == 0
    folder = away / ".whyrun/merge/runs/r0001"
    files = [folder / "manifest.yaml", folder / "composition_summary.json", *folder.glob("cfg/*.json")]
    assert len(files) > 2
    assert [file.name for file in files if str(tmp_path) in file.read_text()] == []
    assert json.loads(files[1].read_text())["inputs_manifest"][0]["path"] == "../../project/inputs/main.csv"
