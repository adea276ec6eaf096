"""For each refusal a file with that one mistake, and the exact words; all that is wrong at once, and nothing runs.

`fixtures/refused/NAME.json` is the plan (or the manifest, where the name says so), `NAME.txt` the reported problems.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from composition_lab import FIXTURES, MANIFEST, plans, refused

from whyrun import api
from whyrun.errors import CODES, Exit, InvalidError
from whyrun.project import Project

NAMES = sorted(path.stem for path in (FIXTURES / "refused").glob("*.json"))
SEVERAL = {"ten_mistakes": 10, "mistakes_behind_mistakes": 25}
OF_THE_PAGE = [
    "COMPOSITION_MODE_MISSING",
    "COMPOSITION_MODE_UNKNOWN",
    "COMPOSITION_MODE_MISMATCH",
    "COMPOSITION_MODE_SHAPE",
    "DATASET_UNKNOWN",
    "PRODUCT_STEP_UNKNOWN",
    "PRODUCT_UNKNOWN",
    "PRODUCT_DUPLICATE",
    "PRODUCT_SELF",
    "DEPENDENCY_MISSING",
    "DEPENDENCY_CYCLE",
    "DEPENDENCY_UNKNOWN",
    "STEP_ID_DUPLICATE",
    "STEP_TYPE_UNKNOWN",
    "BINDINGS_MISSING",
    "MERGE_INPUTS_MISSING",
    "MERGE_OPERATION_MISSING",
    "DATASET_REF_INVALID",
    "MERGE_KEYS_MISSING",
    "MERGE_OPERATION_UNKNOWN",
    "PREDICATE_UNKNOWN",
    "BRANCH_OVERLAP",
    "BRANCH_UNKNOWN_STEP",
    "STEP_ID_UNSAFE",
    "MERGE_KEY_UNKNOWN",
    "JSON_SYNTAX",
    "OUTPUT_UNUSABLE",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_mistake_is_reported_as_in_its_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    project = plans(tmp_path)
    monkeypatch.chdir(project)
    opened = refused(project, name)
    reported = "\n".join(problem.render() for problem in opened.problems) + "\n"
    assert reported == (FIXTURES / "refused" / f"{name}.txt").read_text()
    assert len(opened.problems) == SEVERAL.get(name, 1)
    assert all(problem.line and problem.column and problem.source_line and problem.hint for problem in opened.problems)
    with pytest.raises(InvalidError) as refusal:
        opened.snapshot()
    assert refusal.value.diagnostics == opened.problems
    assert not (project / ".whyrun").exists()


def test_every_code_of_plans_and_manifests_has_such_a_file() -> None:
    reported = "".join((FIXTURES / "refused" / f"{name}.txt").read_text() for name in NAMES)
    manifest = [code for code in CODES if code.startswith("MANIFEST_") and code != "MANIFEST_MISSING"]
    assert [code for code in (*OF_THE_PAGE, *manifest) if f"error[{code}]" not in reported] == []
    assert all(CODES[code].exit is Exit.INVALID for code in OF_THE_PAGE)


def test_a_product_on_top_of_the_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(plans(tmp_path))
    plan = (FIXTURES / "refused" / "path_outside.json").read_text()
    Path("over.json").write_text(plan.replace("../fit.csv", MANIFEST))
    (reported,) = Project.open("over.json", manifest=MANIFEST).problems
    assert (reported.code, reported.message) == (
        "DUPLICATE_OUTPUT_PATH",
        "`inputs/manifest.json` is a file that this workflow imports; publishing there would replace it",
    )


def test_plan_and_manifest_that_are_swapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(plans(tmp_path))
    (reported,) = Project.open(MANIFEST, manifest="merge.json").problems
    assert (reported.code, reported.message, reported.hint) == (
        "MANIFEST_MISSING",
        "this is an inputs manifest, and `merge.json` is the plan: they are swapped",
        "name the plan first: `merge.json --manifest inputs/manifest.json`",
    )


def test_a_line_that_is_very_long_is_shown_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(plans(tmp_path))
    Path("long.json").write_text('{"plan_version": ' + "9" * 5000 + "}")
    (reported,) = [
        problem for problem in Project.open("long.json", manifest=MANIFEST).problems if problem.code == "JSON_SYNTAX"
    ]
    shown = reported.render().split("\n")
    assert max(map(len, shown)) <= 250
    assert shown[1] == '    1 | {"plan_version": ' + "9" * 221 + "…"
    assert shown[2] == " " * 5 + " | " + " " * 17 + "^" * 222


def test_a_plan_without_its_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(plans(tmp_path))
    assert [problem.render() for problem in Project.open("merge.json").problems] == [
        "error[MANIFEST_MISSING] merge.json: the dataset plan was given without its inputs manifest\n"
        "   hint: name it: `--manifest inputs/manifest.json`"
    ]
    assert [problem.render() for problem in Project.open("merge.json", manifest="no.json").problems] == [
        "error[MANIFEST_MISSING] no.json: the inputs manifest cannot be read: No such file or directory\n"
        "   hint: check the path"
    ]
    Path("folder").mkdir()
    assert [problem.render() for problem in Project.open("merge.json", manifest="folder").problems] == [
        "error[MANIFEST_MISSING] folder: the inputs manifest cannot be read: it is not a regular file\n"
        "   hint: check the path"
    ]
    Path("latin.json").write_bytes(b'{"schema_version": "\xff"}')
    assert [problem.render() for problem in Project.open("merge.json", manifest="latin.json").problems] == [
        "error[JSON_SYNTAX] latin.json: the inputs manifest is not UTF-8 text\n   hint: save it as UTF-8"
    ]


def test_mistakes_of_plan_and_manifest_are_reported_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = plans(tmp_path)
    monkeypatch.chdir(project)
    refused(project, "dependency_missing")
    refused(project, "manifest_fingerprint_mismatch")
    refused(project, "manifest_file_missing")
    both = (project / "inputs/manifest_file_missing.json").read_text().replace("sha256:b41b", "sha256:b41a")
    (project / "inputs/both.json").write_text(both)
    opened = Project.open("dependency_missing.json", manifest="inputs/both.json")
    assert [(problem.code, problem.file, problem.line) for problem in opened.problems] == [
        ("DEPENDENCY_MISSING", "dependency_missing.json", 18),
        ("MANIFEST_FINGERPRINT_MISMATCH", "inputs/both.json", 5),
        ("MANIFEST_FILE_MISSING", "inputs/both.json", 7),
    ]


def test_a_link_that_stays_inside_is_fine_and_a_folder_is_no_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = plans(tmp_path)
    monkeypatch.chdir(project)
    extra = project / "inputs/extra.csv"
    extra.rename(project / "inputs/real.csv")
    extra.symlink_to("real.csv")
    assert Project.open("merge.json", manifest=MANIFEST).problems == ()
    extra.unlink()
    extra.mkdir()
    assert [problem.message for problem in Project.open("merge.json", manifest=MANIFEST).problems] == [
        "dataset `extra`: `inputs/extra.csv` is not a file"
    ]
    extra.rmdir()
    extra.symlink_to(extra)
    assert [problem.code for problem in Project.open("merge.json", manifest=MANIFEST).problems] == [
        "MANIFEST_FILE_MISSING"
    ]


def test_a_link_out_of_the_folder_of_the_manifest_is_refused_also_where_it_leads_to_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = plans(tmp_path)
    monkeypatch.chdir(project)
    extra = project / "inputs/extra.csv"
    extra.rename(project / "beside.csv")
    extra.symlink_to("../beside.csv")
    found = Project.open("merge.json", manifest=MANIFEST).problems
    assert [(problem.code, problem.message) for problem in found] == [
        (
            "MANIFEST_PATH_OUTSIDE",
            "dataset `extra`: `inputs/extra.csv` is a link that leads out of the folder of the manifest",
        )
    ]


def test_a_workflow_file_takes_no_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(plans(tmp_path))
    Path("workflow.yaml").write_text("workflow: x\njobs: {A: {uses: shell, with: {run: 'true'}}}\n")
    Path("workflow.json").write_text('{"workflow": "x", "jobs": {"A": {"uses": "shell", "with": {"run": "true"}}}}')
    assert api.validate("workflow.json") == ()
    for file in ("workflow.yaml", "workflow.json"):
        assert [problem.render() for problem in api.validate(file, manifest=MANIFEST)] == [
            f"error[USAGE]: `{file}` is not a dataset plan, so it takes no inputs manifest\n"
            "   hint: the inputs of a workflow file are given with `--inputs` and `--set`"
        ]


@pytest.mark.parametrize(
    ("old", "new", "reported"),
    [
        ('"step_id": "model", ', "", [("MISSING_KEY", 10, "a step has no `step_id`")]),
        ('"step_id": "model"', '"step_id": "my model"',
         [("STEP_ID_UNSAFE", 10, "`my model` cannot be the id of a step"),
          ("DEPENDENCY_UNKNOWN", 15, "there is no step `model`"),
          ("PRODUCT_STEP_UNKNOWN", 17, "there is no step `model`")]),
        ('"step_id": "model", "type": "action"', '"step_id": "model", "type": 1',
         [("WRONG_TYPE", 10, "`type` of step `model` is the number `1`, not a string")]),
        ('"depends_on": ["clean"]', '"depends_on": "clean"',
         [("WRONG_TYPE", 10, "`depends_on` of step `model` must be a list, and this is a string")]),
        ('"depends_on": ["clean"]', '"depends_on": ["claen"]',
         [("DEPENDENCY_UNKNOWN", 10, "there is no step `claen`")]),
        ('"product_id": "fit"', '"product_id": 7',
         [("WRONG_TYPE", 14, "`product_id` of a product of step `model` is the number `7`, not a string")]),
        ('"params": {"composition_mode": "sequential", "template_id": "python", "call": "plan_steps:model"',
         '"prams": {"composition_mode": "sequential", "template_id": "python", "call": "plan_steps:model"',
         [("UNKNOWN_KEY", 11, "a step has no key `prams`")]),
    ],
)  # fmt: skip
def test_one_mistake_is_one_message_where_others_refer_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, reported: list[tuple[str, int, str]]
) -> None:
    monkeypatch.chdir(plans(tmp_path))
    text = Path("sequential.json").read_text()
    assert old in text
    Path("changed.json").write_text(text.replace(old, new, 1))
    problems = Project.open("changed.json", manifest=MANIFEST).problems
    assert [(problem.code, problem.line, problem.message) for problem in problems] == reported
