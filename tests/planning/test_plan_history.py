"""How earlier attempts in the log affect the plan, with edited logs and without a disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from project_lab import Lab, codes, reasons
from scenarios.harness import Scenario, read_logs, write_logs
from whyrun.log import events as ev

Make = Callable[..., Lab]
Load = Callable[[str], Scenario]
Log = list[Any]


def failure(status: str, error_type: str) -> Any:
    return ev.StepFailed(
        step_id="Job:Montage", driver="image/montage", error="boom", error_type=error_type, traceback="", duration=1.0,
        status=status, will_retry=False,  # type: ignore[arg-type]
    )  # fmt: skip


def with_second_run(story: Scenario, mode: str, *ends: Any) -> Scenario:
    """r0002: Montage was started with what it consumed before, and then `ends`."""
    runs = story.opened.state.runs_dir
    logs: dict[str, Log] = read_logs(runs)  # type: ignore[assignment]
    first = logs["r0001"]
    start = next(e for e in first if isinstance(e, ev.StepStart) and e.step_id == "Job:Montage")
    second = [msgspec.structs.replace(first[0], mode=mode), start, *ends]
    logs["r0002"] = [msgspec.structs.replace(e, ts=first[-1].ts) for e in second]
    write_logs(runs, logs)
    return story


def run_end(story: Scenario) -> Any:
    return read_logs(story.source / "runs")["r0001"][-1]


def reuse_of(story: Scenario) -> dict[str, str | None]:
    return {job.id: job.reuse.run if job.reuse else None for job in story.plan().planned}


def test_a_failure_with_the_fingerprint_is_not_hidden_by_an_older_result(scenario: Load) -> None:
    story = scenario("then-and-now").with_log()
    with_second_run(story, "run", failure("FAILED", "ValueError"), run_end(story))
    assert codes(story.plan()) == {"Job:Montage": ["RETRY_PREVIOUS_FAILURE", "MISSING_OUTPUT"]}
    assert reuse_of(story) == {"Job:Montage": None}, "an older success with the same fingerprint does not count"


def test_a_time_out_is_a_failure_like_others(scenario: Load) -> None:
    story = scenario("then-and-now").with_log()
    with_second_run(story, "run", failure("TIMED_OUT", "TimedOut"), run_end(story))
    assert reuse_of(story) == {"Job:Montage": None}


def test_an_interruption_does_not_stand_in_the_way_of_reuse(scenario: Load) -> None:
    story = scenario("then-and-now").with_log()
    with_second_run(story, "run")  # killed: no end at all
    assert codes(story.plan()) == {"Job:Montage": ["RETRY_PREVIOUS_FAILURE", "MISSING_OUTPUT"]}
    assert reuse_of(story) == {"Job:Montage": "r0001"}


def test_an_input_edited_during_the_run_does_not_either(scenario: Load) -> None:
    story = scenario("then-and-now").with_log()
    with_second_run(story, "run", failure("FAILED", "InputChangedDuringRun"), run_end(story))
    assert reuse_of(story) == {"Job:Montage": "r0001"}


def test_a_compare_run_changes_nothing(scenario: Load) -> None:
    story = scenario("then-and-now").with_log()
    before = story.plan()
    with_second_run(story, "compare", failure("FAILED", "ValueError"), run_end(story))
    after = story.plan()
    assert after.headlines() == {}
    assert (after.digest, after.log_position) == (before.digest, {"run": "r0002", "seq": 4})


def test_reuse_needs_bytes_that_are_still_there(scenario: Load) -> None:
    story = scenario("reuse-certain").with_log()
    log = read_logs(story.source / "runs")["r0001"]
    first = next(e for e in log if isinstance(e, ev.ArtifactAvailable) and e.artifact == "Artifact:ThenImage.Image[1]")
    story.with_lost(first.sha256)
    plan = story.plan()
    assert [job.id for job in plan.planned if job.reuse is None] == ["Job:ThenImage[1]", "Job:Montage"]
    assert reasons(plan)["Job:Montage"][-1] == {"code": "UPSTREAM_DIRTY", "job": "Job:ThenImage[1]"}


def test_published_files_that_are_gone_or_edited(scenario: Load) -> None:
    story = scenario("then-and-now").with_log()
    story.with_published("out/frame-1.png", "deleted").with_published("out/montage.png", "changed")
    plan = story.plan()
    assert reasons(plan) == {
        "Job:Clip[1]": [
            {"code": "MISSING_OUTPUT", "artifact": "Artifact:Clip.Frame[1]", "change": "deleted",
             "path": "out/frame-1.png"}
        ],
        "Job:Montage": [
            {"code": "MISSING_OUTPUT", "artifact": "Artifact:Montage.Picture", "change": "changed",
             "path": "out/montage.png"}
        ],
    }  # fmt: skip
    assert reuse_of(story) == {"Job:Clip[1]": "r0001", "Job:Montage": "r0001"}, "what Clip[1] gives is known"


def test_a_declaration_that_changed(scenario: Load) -> None:
    """A leaf more is missing, a leaf less is nothing, another type says so."""
    story = scenario("then-and-now").with_log()
    leaf = '"Segments[segment].HasTransition": boolean'
    story.with_edit("workflow.yaml", leaf, f'{leaf}\n          "topic": string')
    (missing,) = reasons(story.plan())["Job:Script"]
    assert missing == {"code": "MISSING_OUTPUT", "artifact": "Artifact:Script.Story.topic"}
    story.with_edit("workflow.yaml", f'{leaf}\n          "topic": string', leaf)
    assert story.plan().headlines() == {}
    story.with_edit("workflow.yaml", "outputs: {Image: {type: image}}", "outputs: {Image: {type: file}}")
    assert reasons(story.plan())["Job:ThenImage[0]"] == [
        {"code": "MISSING_OUTPUT", "artifact": "Artifact:ThenImage.Image[0]", "change": "retyped"}
    ]


def test_the_same_content_from_another_source_is_no_change(project: Make) -> None:
    lab = project(
        """
        workflow: w
        inputs: {F: {type: file, default: a.txt}}
        jobs:
          Use:
            uses: shell
            with: {f: "${{ inputs.F }}", run: 'cat "$f" > "$out_T"'}
            outputs: {T: {type: text}}
        """,
        {"a.txt": "same", "b.txt": "same", "c.md": "same"},
    )
    lab.succeed()
    assert lab.plan(sets=["F=b.txt"]).headlines() == {}
    (reason,) = reasons(lab.plan(sets=["F=c.md"]))["Job:Use"]  # actions see the suffix
    assert (reason["code"], reason["binding"], reason["old"] == reason["new"]) == ("INPUT_CHANGED", "f", True)
