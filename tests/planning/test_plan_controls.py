"""`--force`, `--target` and `--up` apply in this order, and plans are identical to the byte."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from project_lab import Heard, Lab, codes, reasons, states
from scenarios.harness import Scenario
from whyrun.errors import Exit, InvalidError, StateError
from whyrun.execution.backends.registry import RunOptions
from whyrun.execution.run.session import run_workflow
from whyrun.planning.plan import PlanOptions, compute_execution_plan
from whyrun.snapshot.history.replay import snapshot_identity

Make = Callable[..., Lab]
Load = Callable[[str], Scenario]


def test_up_counts_the_layers_that_hold_planned_jobs(scenario: Load) -> None:
    story = scenario("up-boundary").with_log()
    assert story.plan(up=1).layers == [["Job:Clean[0]", "Job:Clean[1]"]]
    assert story.plan(up=2).layers == [["Job:Clean[0]", "Job:Clean[1]"], ["Job:Report"]]
    assert story.plan(up=9).to_json()["layers"] == story.plan().to_json()["layers"]
    with pytest.raises(InvalidError, match="USAGE"):
        story.plan(up=0)


def test_up_counts_no_layer_of_jobs_that_are_inactive_or_need_nothing(project: Make) -> None:
    lab = project(
        json.dumps({
            "workflow": "w",
            "inputs": {"Go": {"type": "boolean", "default": False}},
            "jobs": {
                "Off": {"if": "${{ inputs.Go }}", "uses": "shell", "with": {"run": "true"}},
                "One": {"uses": "shell", "with": {"run": "echo 1 > $out_T"}, "outputs": {"T": {"type": "text"}}},
                "Two": {
                    "uses": "shell", "with": {"one": "${{ jobs.One.outputs.T }}", "run": "echo 2 > $out_T"},
                    "outputs": {"T": {"type": "text"}},
                },
            },
        }),
        {},
    )  # fmt: skip
    lab.succeed()
    plan = lab.plan(up=1, force=["Job:Two"])
    assert states(plan) == {"Job:Off": "inactive", "Job:Two": "planned"}


def test_a_target_keeps_the_jobs_it_needs_and_defers_the_rest(scenario: Load) -> None:
    story = scenario("then-and-now").with_log().with_changed("Input:Topic", "theatre")
    plan = story.plan(targets=["Job:Clip[0]"])
    assert states(plan) == {
        "Job:Script": "planned", "Job:ThenImage[0]": "planned", "Job:Clip[0]": "planned",
        "Job:ThenImage[1]": "deferred", "Job:ThenImage[2]": "deferred", "Job:Clip[1]": "deferred",
        "Job:Clip[2]": "deferred", "Job:Montage": "deferred",
    }  # fmt: skip
    leaf = story.plan(targets=["Artifact:Script.Story.Segments[1].HasTransition"])
    assert list(leaf.headlines()) == ["Job:Script"]
    both = story.plan(targets=["Job:Script", "Job:ThenImage[1]"])
    assert list(both.headlines()) == ["Job:Script", "Job:ThenImage[1]"]


def test_target_comes_before_up(scenario: Load) -> None:
    """The first layer that holds planned jobs is that of the target's own needs."""
    story = scenario("up-boundary").with_log()
    plan = story.plan(targets=["Job:Clean[1]"], up=1)
    assert states(plan) == {"Job:Clean[1]": "planned", "Job:Clean[0]": "deferred", "Job:Report": "deferred"}


def test_force_makes_dependents_wait_and_needs_a_match(scenario: Load) -> None:
    story = scenario("then-and-now").with_log()
    assert reasons(story.plan(force=["Job:ThenImage[1]"])) == {
        "Job:ThenImage[1]": [{"code": "FORCED", "by": "Job:ThenImage[1]"}],
        "Job:Montage": [{"code": "UPSTREAM_DIRTY", "job": "Job:ThenImage[1]"}],
    }
    assert codes(story.plan(force=["Job:ThenImage[*]"])) == {
        "Job:ThenImage[0]": ["FORCED"], "Job:ThenImage[1]": ["FORCED"], "Job:ThenImage[2]": ["FORCED"],
        "Job:Clip[0]": ["UPSTREAM_DIRTY"], "Job:Clip[1]": ["UPSTREAM_DIRTY"], "Job:Clip[2]": ["UPSTREAM_DIRTY"],
        "Job:Montage": ["UPSTREAM_DIRTY"] * 6,
    }  # fmt: skip
    assert codes(story.plan(force=["Artifact:Montage.Picture"])) == {"Job:Montage": ["FORCED"]}
    with pytest.raises(InvalidError) as refused:
        story.plan(force=["Job:Montage"], targets=["Job:Script"])
    assert refused.value.diagnostics[0].code == "USAGE"


def test_force_takes_no_reuse_and_comes_last_among_the_reasons(scenario: Load) -> None:
    story = scenario("reuse-certain").with_log()
    plan = story.plan(force=["Job:ThenImage[0]"])
    forced = next(job for job in plan.planned if job.id == "Job:ThenImage[0]")
    assert ([r.code for r in forced.reasons], forced.reuse) == (["INPUT_CHANGED", "FORCED"], None)
    assert {job.id: job.reuse is not None for job in plan.planned} == {
        "Job:Script": True, "Job:ThenImage[0]": False, "Job:ThenImage[1]": True, "Job:ThenImage[2]": True,
        "Job:Clip[0]": False, "Job:Clip[1]": False, "Job:Clip[2]": False, "Job:Montage": False,
    }  # fmt: skip


def test_the_order_of_writing_does_not_matter(scenario: Load, tmp_path: Path) -> None:
    """The same workflow with its jobs, inputs and loops turned round: the same bytes."""
    import yaml

    straight = scenario("page-30").with_log()
    expected = straight.plan(up=1).to_bytes()
    path = straight.root / "workflow.yaml"
    document = yaml.safe_load(path.read_text())

    def turned(value: object) -> object:
        if isinstance(value, dict):
            return {key: turned(member) for key, member in reversed(value.items())}
        return value

    path.write_text(yaml.safe_dump(turned(document), sort_keys=False))
    assert straight.plan(up=1).to_bytes() == expected


def test_the_digest_covers_all_but_itself_and_the_log_position(scenario: Load) -> None:
    story = scenario("page-30").with_log()
    plan = story.plan(up=1)
    assert plan.to_bytes() == story.plan(up=1).to_bytes()
    assert plan.digest != story.plan(up=2).digest
    body = json.loads(plan.to_bytes())
    assert set(body) == {
        "version", "workflow", "digest", "log_position", "options", "snapshot", "totals", "layers", "jobs",
    }  # fmt: skip


def test_derived_files_change_nothing(scenario: Load) -> None:
    story = scenario("one-photo-changed").with_log()
    before = story.plan().to_bytes()
    (story.state / "stat-cache").unlink(missing_ok=True)
    index = story.opened.state.index_dir
    index.mkdir(parents=True, exist_ok=True)
    (index / "fold").write_bytes(b"not an index")
    assert story.plan().to_bytes() == before


def test_a_saved_plan_that_is_stale_is_refused(project: Make) -> None:
    lab = project(
        """
        workflow: w
        inputs: {Word: {type: string, default: one}}
        jobs:
          A:
            uses: shell
            with: {word: "${{ inputs.Word }}", run: 'printf "$word" > "$out_T"'}
            outputs: {T: {type: text}}
        """
    )
    saved = saved_plan(lab)
    lab.edit("workflow.yaml", "default: one", "default: two")
    run_with(lab, saved_plan(lab))
    assert lab.runs() == ["r0001"]
    with pytest.raises(StateError) as refused:
        run_with(lab, saved)
    assert refused.value.diagnostics[0].code == "PLAN_STALE"
    assert refused.value.exit is Exit.STATE
    assert lab.runs() == ["r0001"]


def saved_plan(lab: Lab) -> dict[str, Any]:
    snapshot = lab.opened().snapshot()
    return {**compute_execution_plan(snapshot, PlanOptions()).to_json(), **snapshot_identity(snapshot)}


def run_with(lab: Lab, saved: dict[str, Any]) -> None:
    run_workflow(lab.opened(), PlanOptions(), RunOptions(jobs=1), Heard(), saved_plan=saved)
