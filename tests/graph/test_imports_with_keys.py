"""Issue 20: imports with `for`, `if`, `needs`, and with results of jobs as their inputs."""

from __future__ import annotations

import json
from collections.abc import Callable

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest

from project_lab import ECHO, Lab, reasons, states
from whyrun.facts.graph import graph_facts, instance_facts
from whyrun.facts.show import id_facts
from whyrun.facts.subjects import find_subject
from whyrun.planning.answers.whatif import assume
from whyrun.planning.plan import PlanOptions, compute_execution_plan
from whyrun.snapshot.history.replay import replay_snapshot, snapshot_blob
from whyrun.snapshot.index import split_step, step_of
from whyrun.snapshot.observing.observe import InputObserver
from whyrun.workflow.parsing.parse import workflow_schema

Make = Callable[..., Lab]

VIDEO = """\
workflow: video
inputs:
  Portrait: {type: text, default: usual.txt}
  Style: {type: string, default: plain}
  N: {type: integer, default: 2}
loops: {segment: {count: inputs.N}}
jobs:
  Clip:
    for: [segment]
    if: ${{ inputs.N > 0 }}
    uses: python
    with:
      call: "echo:received"
      portrait: "${{ inputs.Portrait }}"
      style: "${{ inputs.Style }}"
      title: "${{ inputs.Style }} ${{ segment }}"
      before: "${{ first(jobs.Clip.outputs.Got[segment-1], inputs.Portrait) }}"
    outputs: {Got: {type: json, path: "clip-${{ segment }}.json"}}
  Film:
    uses: python
    with: {call: "echo:received", clips: "${{ jobs.Clip.outputs.Got[:] }}"}
    outputs: {Got: {type: json, path: film.json}}
"""
MAIN = """\
workflow: w
inputs:
  WithVideo: {type: boolean, default: true}
  Names: {type: "string[]", default: [ada, bob]}
loops: {celebrity: {values: inputs.Names}}
imports:
  Video:
    workflow: ./video.yaml
    for: [celebrity]
    if: ${{ inputs.WithVideo }}
    needs: [Prepare]
    with: {Portrait: "${{ jobs.Image.outputs.Image[celebrity] }}", Style: "as ${{ celebrity }}"}
jobs:
  Prepare: {uses: shell, with: {run: "true"}}
  Image:
    for: [celebrity]
    uses: shell
    with: {name: "${{ celebrity }}", run: 'echo "$name" > "$out_Image"'}
    outputs: {Image: {type: text}}
  Each:
    for: [celebrity]
    uses: python
    with: {call: "echo:received", film: "${{ jobs.Video.Film.outputs.Got[celebrity] }}"}
    outputs: {Got: {type: json}}
  All:
    needs: [Video]
    uses: python
    with:
      call: "echo:received"
      films: "${{ named(jobs.Video.Film.outputs.Got[:]) }}"
      clips: "${{ jobs.Video.Clip.outputs.Got[:, :] }}"
    outputs: {Got: {type: json}}
"""
FILES = {"echo.py": ECHO, "video.yaml": VIDEO, "usual.txt": "usual\n"}
OF_VIDEO = [f"Job:Video[{name}]/{job}" for name in ("ada", "bob") for job in ("Clip[0]", "Clip[1]", "Film")]


@pytest.fixture
def lab(project: Make) -> Lab:
    return project(MAIN, FILES)


def test_each_index_has_jobs_inputs_and_paths_of_its_own(lab: Lab) -> None:
    ran = lab.succeed()
    assert sorted(job for job in ran.executed if job.startswith("Job:Video")) == OF_VIDEO
    clip = next(job for job in ran.plan.planned if job.id == "Job:Video[ada]/Clip[1]")
    assert clip.bindings == {
        "portrait": "Artifact:Image.Image[ada]",  # the input is that artifact: it has no second name
        "style": "Input:Video[ada]/Style",
        "before": "Artifact:Video[ada]/Clip.Got[0]",
    }
    assert lab.content("Artifact:Video[ada]/Clip.Got[1]")["title"] == "as ada 1"
    assert lab.content("Artifact:Video[bob]/Clip.Got[0]")["portrait"] == "file:bob\n"
    assert json.loads(lab.read("Video/bob/clip-1.json"))["title"] == "as bob 1"
    assert lab.content("Artifact:All.Got")["films"].keys() == {"ada", "bob"}
    assert lab.plan().headlines() == {}
    one = next(job for job in lab.plan(force=["Job:All"]).planned if job.id == "Job:All")
    assert one.bindings["clips"] == [f"Artifact:Video[{name}]/Clip.Got[{n}]" for name in ("ada", "bob") for n in (0, 1)]


def test_a_change_stays_at_its_index(lab: Lab) -> None:
    lab.succeed()
    styles = "Style: \"${{ 'new' if celebrity == 'bob' else 'as ada' }}\""
    lab.edit("workflow.yaml", 'Style: "as ${{ celebrity }}"', styles)
    plan = lab.plan()
    assert plan.headlines() == {
        "Job:Video[bob]/Clip[0]": "INPUT_CHANGED",
        "Job:Video[bob]/Clip[1]": "INPUT_CHANGED",
        "Job:Video[bob]/Film": "UPSTREAM_DIRTY",
        "Job:Each[bob]": "UPSTREAM_DIRTY",
        "Job:All": "UPSTREAM_DIRTY",
    }
    changed = reasons(plan)["Job:Video[bob]/Clip[0]"]
    assert [(each["code"], each["source"]) for each in changed] == [
        ("INPUT_CHANGED", "Input:Video[bob]/Style"),
        ("INPUT_CHANGED", "Input:Video[bob]/Clip[0].with.title"),
    ]
    assert lab.succeed().executed == sorted(plan.headlines())
    assert lab.plan(sets=['Names=["eve", "ada", "bob"]']).headlines().keys() >= {"Job:Video[eve]/Film"}
    assert "Job:Video[ada]/Film" not in lab.plan(sets=['Names=["eve", "ada", "bob"]']).headlines()


def test_the_condition_of_an_import_is_that_of_all_its_jobs(lab: Lab) -> None:
    ran = lab.succeed(sets=["WithVideo=false"])
    inactive = [job for job, state in states(ran.plan).items() if state == "inactive"]
    assert sorted(inactive) == sorted([*OF_VIDEO, "Job:Each[ada]", "Job:Each[bob]"])
    (one,) = [j for j in ran.plan.jobs if j.id == "Job:Video[ada]/Clip[0]"]
    assert one.because == {
        "condition": "(inputs.WithVideo) and (inputs.N > 0)",
        "inputs": {"Input:WithVideo": False, "Input:Video[ada]/N": 2},
    }
    assert lab.content("Artifact:All.Got") == {"films": {}, "clips": []}


def test_what_an_import_needs_blocks_all_its_jobs(lab: Lab) -> None:
    lab.edit("workflow.yaml", 'run: "true"', 'run: "false"')
    ran = lab.run()
    assert ran.failed.keys() == {"Job:Prepare"}
    assert sorted(ran.blocked) == sorted([*OF_VIDEO, "Job:All", "Job:Each[ada]", "Job:Each[bob]"])


def test_the_file_runs_alone(lab: Lab) -> None:
    (lab.root / "workflow.yaml").unlink()
    (lab.root / "video.yaml").rename(lab.root / "workflow.yaml")
    assert lab.succeed().executed == ["Job:Clip[0]", "Job:Clip[1]", "Job:Film"]
    assert lab.content("Artifact:Clip.Got[0]")["portrait"] == "file:usual\n"


def test_plans_replay_and_the_index_of_the_log_knows_the_steps(lab: Lab) -> None:
    lab.succeed()
    snapshot = lab.snapshot()
    again = replay_snapshot(snapshot_blob(snapshot), lab.opened().history())
    options = PlanOptions(force=("Job:Video[bob]/*", "Job:Video[bob]/Clip[*]"))
    plans = [compute_execution_plan(each, options).to_json() for each in (again, snapshot)]
    assert plans[0] == plans[1]
    assert len(plans[0]["jobs"]) == 5
    lab.succeed(force=["Job:Video[bob]/Clip[*]"])  # it reads the index that the first run has left
    assert lab.plan().headlines() == {}
    assert [split_step(step) for step in sorted(lab.opened().history().records.steps) if "bob" in step][2:] == [
        ("Video[]/Clip", "[bob][0]"), ("Video[]/Clip", "[bob][1]"), ("Video[]/Film", "[bob]"),
    ]  # fmt: skip
    assert step_of("Video[]/Clip", "[bob][0]") == "Job:Video[bob]/Clip[0]"


def test_what_is_told(lab: Lab) -> None:
    lab.succeed()
    snapshot, plan = lab.snapshot(), lab.plan()
    graph = snapshot.dependency_graph
    facts = graph_facts(graph, plan)
    clip = next(node for node in facts["nodes"] if node["job"] == "Video/Clip")
    assert (clip["pattern"], clip["loops"], clip["import"]) == (
        "Job:Video[*]/Clip[*]",
        ["celebrity", "segment"],
        "Video",
    )
    groups = {group["import"]: group["jobs"] for group in instance_facts(graph, plan)["groups"]}
    assert groups["Video[ada]"] == ["Video[ada]/Clip[0]", "Video[ada]/Clip[1]", "Video[ada]/Film"]
    for id_, value in (("Input:Video[ada]/Style", "as ada"), ("Input:Video[bob]/Clip[1].with.title", "as bob 1")):
        assert find_subject(graph, id_).id == id_
        assert id_facts(lab.opened(), id_)["value"] == value


def test_an_assumption_about_one_index(lab: Lab) -> None:
    lab.succeed()
    opened = lab.opened()
    inputs, _ = assume(
        opened.workflow, opened.inputs, ["Input:Video[ada]/Style=x"], InputObserver(lab.root, opened.cache)
    )
    assert inputs["Input:Video[ada]/Style"].value == "x"
    assert inputs["Input:Video[bob]/Style"].value == "as bob"


def test_the_schema_knows_the_keys() -> None:
    decl = {"workflow": "./a.yaml", "for": ["x"], "if": "${{ inputs.A }}", "needs": ["B"], "with": {}}
    file = {"workflow": "w", "loops": {"x": {"count": 1}}, "imports": {"I": decl}, "jobs": {}}
    checker = jsonschema.Draft202012Validator(workflow_schema())
    assert checker.is_valid(file)
    assert not checker.is_valid({**file, "imports": {"I": {**decl, "if": 3}}})
