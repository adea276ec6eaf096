"""Shapes of datasets: a hint never demotes the primary dataset, and speaks the words of the file it is about."""

from __future__ import annotations

import json
from pathlib import Path

from whyrun.errors import Diagnostic
from whyrun.project import Project

WORKFLOW = """\
workflow: panel
composition: {mode: sequential}
inputs:
  Zone: {type: dataset, default: zone.csv}
  Area: {type: dataset, default: area.csv}
jobs:
  Model:
    uses: data/sql
    with: {WITH, query: "select 1"}
    outputs: {Table: {type: dataset}}
"""


def reported(folder: Path, with_: str) -> tuple[Diagnostic, ...]:
    for name in ("zone", "area"):
        (folder / f"{name}.csv").write_text("k\n1\n")
    (folder / "workflow.yaml").write_text(WORKFLOW.replace("WITH", with_))
    return Project.open(folder / "workflow.yaml").problems


def test_sequential_with_a_secondary_keeps_its_primary(tmp_path: Path) -> None:
    both = 'primary_dataset: "${{ inputs.Zone }}", secondary_dataset: "${{ inputs.Area }}"'
    (found,) = reported(tmp_path, both)
    assert found.code == "COMPOSITION_MODE_SHAPE"
    assert found.message == "`Input:Area` is a second dataset; `sequential` starts from one, `Input:Zone`"
    assert found.hint == "bind `Input:Area` as `auxiliary_data`"
    assert reported(tmp_path, both.replace("secondary_dataset", "auxiliary_data")) == ()


def test_auxiliary_data_alone_is_told_how_to_be_the_primary_one(tmp_path: Path) -> None:
    (found,) = reported(tmp_path, 'auxiliary_data: "${{ inputs.Area }}"')
    assert (found.code, found.line) == ("COMPOSITION_MODE_SHAPE", 2)
    assert found.message == (
        "no step reads a dataset but as `auxiliary_data` (`Input:Area`), and `sequential` starts from a primary one"
    )
    assert found.hint == "bind it as the primary one: `primary_dataset: ${{ inputs.Area }}`"
    assert reported(tmp_path, 'primary_dataset: "${{ inputs.Area }}"') == ()


def test_a_dataset_with_the_role_of_auxiliary_data_is_told_which_role_to_give(tmp_path: Path) -> None:
    """Bound as the primary one, it was "no step reads a dataset"."""
    workflow, roles = WORKFLOW, "{mode: sequential, roles: {Area: auxiliary_data}}"
    (tmp_path / "area.csv").write_text("k\n1\n")
    (tmp_path / "zone.csv").write_text("k\n1\n")
    with_ = 'primary_dataset: "${{ inputs.Area }}"'
    text = workflow.replace("WITH", with_).replace("{mode: sequential}", roles)
    (tmp_path / "workflow.yaml").write_text(text)
    (found,) = Project.open(tmp_path / "workflow.yaml").problems
    assert found.message == (
        "no step reads a dataset but as `auxiliary_data` (`Input:Area`), and `sequential` starts from a primary one"
    )
    assert found.hint == "give it the role of the primary one, under `composition:`: `roles: {Area: primary_dataset}`"
    (tmp_path / "workflow.yaml").write_text(text.replace("roles: {Area: auxiliary_data}", found.hint.split("`")[3]))
    assert Project.open(tmp_path / "workflow.yaml").problems == ()


def test_a_dataset_plan_is_told_in_its_own_words(tmp_path: Path) -> None:
    (tmp_path / "area.csv").write_text("k\n1\n")
    dataset = {"dataset_key": "area", "role": "primary_dataset", "rel_path": "area.csv"}
    manifest = {"schema_version": 2, "datasets": [dataset]}
    auxiliary = {"schema_version": 2, "datasets": [{**dataset, "role": "auxiliary_data"}]}

    def plan(role: str) -> tuple[Diagnostic, ...]:
        params = {
            "composition_mode": "sequential", "template_id": "data/sql", "query": "select 1",
            "input_bindings": {role: "input:area"}, "products": [{"product_id": "t", "kind": "dataset"}],
        }  # fmt: skip
        step = {"step_id": "model", "type": "action", "depends_on": [], "produces": [], "params": params}
        (tmp_path / "plan.json").write_text(json.dumps({"plan_version": 1, "plan_id": "p", "steps": [step]}))
        return Project.open(tmp_path / "plan.json", manifest=tmp_path / "manifest.json").problems

    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    (found,) = plan("auxiliary_data")
    assert found.hint == 'bind it as the primary one: `"primary_dataset": "input:area"`'
    assert plan("primary_dataset") == ()
    (tmp_path / "manifest.json").write_text(json.dumps(auxiliary))
    (found,) = plan("primary_dataset")
    assert found.hint == 'give `area` the role of the primary one, in the manifest: `"role": "primary_dataset"`'
