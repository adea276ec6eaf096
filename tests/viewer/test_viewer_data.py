"""The views say what the commands say: each names its command, and the command prints the same JSON."""

from __future__ import annotations

import hashlib
import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))

from cli_lab import whyrun
from viewer_lab import open_state, view

from project_lab import Lab
from whyrun import __version__ as whyrun_version
from whyrun.viewer.current import CurrentState, InvalidState, Params, StateSource
from whyrun.viewer.views import VIEWS, Views


@pytest.fixture(scope="module")
def state(told: Lab) -> CurrentState:
    return open_state(told)


def printed(told: Lab, command: str) -> Any:
    """What the command of a view prints."""
    words = shlex.split(command)
    assert words[0] == "whyrun"
    return whyrun(told.root, *words[1:]).json


def test_view_1_equals_explain_and_why(state: CurrentState, told: Lab) -> None:
    """For every job: its reasons equal `explain --json`, and `why ID --json` where it is clean."""
    explained = printed(told, state.command("explain"))
    jobs = [job for layer in explained["layers"] for job in layer["jobs"]]
    jobs += [*explained["deferred"], *explained["inactive"]]
    entries = {job["id"]: job for job in jobs}
    states = set()
    for id_ in state.graph.node_of:
        found = view(state, "why", id=id_)
        states.add(found["answer"]["jobs"][0]["state"])
        assert found["explain"] == entries.get(id_)
        assert printed(told, found["command"]) == found["answer"]
    assert states == {"planned", "reused", "inactive", "clean"}


def test_view_1_answers_for_inputs_and_for_earlier_plans(state: CurrentState, told: Lab) -> None:
    for parameters in ({"id": "Input:Photos[0]"}, {"id": "Input:Topic"}, {"id": "Job:Print[1]", "at": "r0002"}):
        found = view(state, "why", **parameters)
        assert printed(told, found["command"]) == found["answer"]


def test_view_1_shows_old_and_new(state: CurrentState, told: Lab) -> None:
    (change,) = view(state, "why", id="Job:Print[0]")["changes"]
    assert (change["name"], change["id"]) == ("source", "Input:Photos[0]")
    assert (told.root / "photos/a.txt").read_text() == "Ada, later\n"
    assert change["new"]["href"] == "input?id=Input%3APhotos%5B0%5D"
    changes = {one["name"]: one for one in view(state, "why", id="Job:Script", at="r0002")["changes"]}
    assert changes.keys() == {"notes"}


def test_a_failure_is_one_click_away(state: CurrentState) -> None:
    first = view(state, "state")
    assert [(one["id"], one["run"]) for one in first["failures"]] == [("Job:Check", "r0003")]
    failure = view(state, "why", id=first["failures"][0]["id"])["failure"]
    assert (failure["error_type"], failure["place"]) == ("ValueError", "story.py:20")
    assert failure["traceback"].startswith("Traceback")
    assert failure["stdout"] == ["checking [0.0, 0.5, 1.0]"]


def test_view_2_counts_every_instance(state: CurrentState, told: Lab) -> None:
    graph = view(state, "graph")
    nodes = {node["job"]: node for node in graph["nodes"]}
    assert {job: node["states"] for job, node in nodes.items()} == {
        "Script": {"clean": 1}, "Print": {"clean": 1, "planned": 1}, "Epilogue": {"inactive": 1}, "Fit": {"clean": 3},
        "Check": {"reused": 1},
    }  # fmt: skip
    printed_graph = printed(told, graph["command"])
    for kind in ("nodes", "edges", "groups", "inputs"):
        assert [
            {name: one[name] for name in wanted} for one, wanted in zip(graph[kind], printed_graph[kind], strict=True)
        ] == printed_graph[kind]
    assert {job: node["outcomes"] for job, node in nodes.items()} == {
        "Script": {"succeeded": 1}, "Print": {"succeeded": 2}, "Epilogue": {"never": 1}, "Fit": {"succeeded": 3},
        "Check": {"failed": 1},
    }  # fmt: skip
    assert {(e["from"], e["to"], e["kind"], *e["slots"]) for e in graph["edges"]} == {
        ("Print", "Epilogue", "data", "source"), ("Script", "Epilogue", "condition"),
        ("Script", "Fit", "data", "story"), ("Fit", "Check", "data", "scores"),
    }  # fmt: skip
    totals = view(state, "state")["totals"]
    assert sum(node["count"] for node in nodes.values()) == totals["jobs"] == 8


def test_cells_and_instances_say_the_same(state: CurrentState) -> None:
    for table in state.graph.tables:
        cells = view(state, "cells", job=table.name)
        texts = cells["texts"] or [f"[{p}]" for p in range(cells["count"])]
        rows = view(state, "instances", job=table.name)["rows"]
        assert [row["id"] for row in rows] == [f"Job:{table.name}{text}" for text in texts]
        legend = cells["legend"]
        assert [row["state"] for row in rows] == [legend["states"][letter] for letter in cells["states"]]
        assert [row["outcome"] for row in rows] == [legend["outcomes"][letter] for letter in cells["outcomes"]]
        codes = [None if c == "." else cells["headlines"][int(c, 36)] for c in cells["headline"]]
        assert [row["code"] for row in rows] == codes
    assert [row["id"] for row in view(state, "instances", outcome="failed")["rows"]] == ["Job:Check"]
    assert [row["id"] for row in view(state, "instances", code="INPUT_CHANGED")["rows"]] == ["Job:Print[0]"]
    assert [row["id"] for row in view(state, "instances", q="fit[1")["rows"]] == ["Job:Fit[1]"]


def test_focus_has_the_edges_of_the_plan(state: CurrentState) -> None:
    found = view(state, "focus", id="Job:Check")
    assert found["edges"] == [[f"Job:Fit[{i}]", "Job:Check", "scores"] for i in range(3)]
    assert found["upstream"] == ["Job:Fit[0]", "Job:Fit[1]", "Job:Fit[2]", "Job:Script"]
    found = view(state, "focus", id="Artifact:Script.Story")
    assert set(found["downstream"]) == {"Job:Epilogue", "Job:Fit[0]", "Job:Fit[1]", "Job:Fit[2]", "Job:Check"}


def test_view_3_equals_show(state: CurrentState, told: Lab) -> None:
    for row in view(state, "artifacts", leaves="1")["rows"]:
        found = view(state, "artifact", id=row["id"])
        assert printed(told, found["command"]) == found["facts"]
    versions = view(state, "artifact", id="Artifact:Print.Copy[1]")["versions"]
    assert [version["run"] for version in versions] == ["r0001", "r0002"]
    assert [version["current"] for version in versions] == [False, True]
    preview = view(state, "artifact", id="Artifact:Script.Story")["preview"]
    assert preview["value"] == {"Title": "cinema", "Long": False, "Words": 3}
    text = view(state, "preview", sha256=versions[0]["sha256"])
    assert (text["kind"], text["text"]) == ("text", "<b>cinema</b> Ben\n")


def test_view_4_equals_runs_and_show(state: CurrentState, told: Lab) -> None:
    runs = view(state, "runs")
    assert printed(told, runs["command"]) == {name: one for name, one in runs.items() if name != "command"}
    for run in told.runs():
        found = view(state, "run", id=run)
        assert printed(told, found["command"]) == found["facts"]
    shown = view(state, "run", id="r0001")
    assert shown["engine_version"] == whyrun_version
    assert [(one["path"], one["text"]) for one in shown["sources"]] == [
        ("workflow.yaml", (told.root / "workflow.yaml").read_text())
    ]
    seconds = [one["seconds"] for one in shown["slowest"]]
    assert seconds == sorted(seconds, reverse=True)
    assert len(seconds) == sum(one["steps"] for one in shown["by_job"]) == 7
    timeline = shown["timeline"]
    marks = {timeline["steps"][mark["step"]]: mark["status"] for mark in timeline["marks"]}
    assert marks == {"Job:Epilogue": "CONDITION_FALSE"}
    assert sorted(timeline["steps"][step] for step in timeline["step"]) == sorted(
        ["Job:Script", "Job:Print[0]", "Job:Print[1]", "Job:Fit[0]", "Job:Fit[1]", "Job:Fit[2]", "Job:Check"]
    )
    assert set(timeline["status"]) == {"EXECUTES"}
    lines = (told.run_folder("r0003") / "events.jsonl").read_text().splitlines()
    events = view(state, "log", run="r0003")["events"]
    assert [(event["seq"], event["event"]) for event in events] == [
        (json.loads(line)["seq"], json.loads(line)["event"]) for line in lines
    ]
    assert view(state, "log", run="r0003", after="3", limit="2")["events"] == events[3:5]
    assert view(state, "prints", run="r0003", id="Job:Check")["lines"] == ["<script>alert(1)</script>"]


def test_view_5_has_the_digest_of_every_plan(state: CurrentState, told: Lab) -> None:
    for run in told.runs():
        found = view(state, "plan", run=run)
        plan = json.loads((told.run_folder(run) / "plan.json").read_bytes())
        assert (found["digest"], found["checked"], found["problem"]) == (plan["digest"], True, None)
        assert found["jobs"] == plan["jobs"]
        assert printed(told, found["command"])["digest"] == plan["digest"]


def test_view_5_says_when_a_plan_is_not_that_of_the_log(told: Lab, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(told.root, tmp_path / "copy")
    lab = Lab(tmp_path / "copy")
    path = lab.run_folder("r0001") / "plan.json"
    path.write_text(path.read_text().replace("Job:Script", "Job:Scripu"))
    found = view(open_state(lab), "plan", run="r0001")
    assert found["checked"] is False
    assert found["problem"] == "the content of plan.json does not have its digest"


def hashes(state: Path) -> dict[Path, str]:
    """What is in a state folder, without what any plan may write: the index and the cache of hashes."""
    return {
        path: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(state.rglob("*"))
        if path.is_file() and not {"index", "stat-cache"} & {*path.relative_to(state).parts, path.stem}
    }


def test_view_5_shows_the_tombstone_of_a_pruned_run(told: Lab, tmp_path: Path) -> None:
    import shutil

    from whyrun.errors import WhyrunError
    from whyrun.evidence.retention.prune import Selection, prune
    from whyrun.log.journal import utc_now

    shutil.copytree(told.root, tmp_path / "copy")
    lab = Lab(tmp_path / "copy")
    for force in ((), ["Job:Print[1]"], ["Job:Print[1]"]):
        lab.succeed(force=force)
    prune(lab.opened(), Selection(("r0005",)), utc_now)
    state = open_state(lab)
    stone = view(state, "plan", run="r0005")["pruned"]
    assert (stone["run"], stone["state"], stone["mode"]) == ("r0005", "succeeded", "run")
    assert view(state, "state")["pruned"] == view(state, "runs")["pruned"] == [stone]
    with pytest.raises(WhyrunError, match="RUN_PRUNED"):
        view(state, "run", id="r0005")


@pytest.mark.parametrize(
    "asked",
    [
        {"assume": "Input:Topic=changed"},
        {"assume": "Input:Topic=opera", "up": "1"},
        {"force": "Job:Fit[*]", "target": "Artifact:Fit.Score[1]"},
        {},
    ],
)
def test_view_6_equals_explain_and_changes_nothing(state: CurrentState, told: Lab, asked: dict[str, str]) -> None:
    before = hashes(told.root / ".whyrun")
    if "target" in asked:
        asked = {**asked, "force": "Job:Fit[1]"}
    found = view(state, "whatif", **asked)
    assert printed(told, found["command"]) == found["answer"]
    assert found["same_as_now"] == (not asked)
    assert hashes(told.root / ".whyrun") == before


def test_view_7_equals_diff(state: CurrentState, told: Lab) -> None:
    found = view(state, "diff", old="r0001", new="r0002")
    assert printed(told, found["command"]) == found["answer"]
    contents = {one["id"]: one for one in found["contents"]}
    old, new = (contents["Artifact:Print.Copy[1]"][side]["sha256"] for side in ("old", "new"))
    compared = view(state, "content", id="Artifact:Print.Copy[1]", old=old, new=new)
    assert compared["identical"] is False
    assert ["-", "<b>cinema</b> Ben"] in compared["diff"]
    assert ["+", "<b>cinema</b> Ben, later"] in compared["diff"]


def test_view_8_equals_lineage(state: CurrentState, told: Lab) -> None:
    for id_ in ("Artifact:Fit.Score[1]", "Artifact:Script.Story.Words", "Job:Print[1]"):
        found = view(state, "lineage", id=id_)
        assert printed(told, found["command"]) == found["answer"]
    reads = {read["id"] for hop in found["answer"]["hops"] for read in hop["reads"]}
    assert "Input:Photos[1]" in reads
    assert view(state, "lineage", id="Artifact:Fit.Score[1]")["contents"]


def test_results_equal_table(state: CurrentState, told: Lab) -> None:
    known = view(state, "results")
    assert printed(told, known["command"]) == known["answer"]
    assert "Artifact:Fit.Score[*]" in known["patterns"]
    found = view(state, "results", pattern="Artifact:Fit.Score[*]")
    assert printed(told, found["command"]) == found["answer"]
    assert [row["values"] for row in found["answer"]["rows"]] == [[0.0], [0.5], [1.0]]


def test_a_workflow_without_datasets_says_so(state: CurrentState) -> None:
    assert view(state, "datasets") == {"command": None, "run": None, "runs": [], "answer": None}


def test_parameters_are_one_table(state: CurrentState) -> None:
    found = view(state, "parameters")
    names = [column["name"] for column in found["columns"]]
    fails = names.index("Input:Fails")
    assert [row["values"][fails] for row in found["rows"]] == [False, False, True]


def test_search_finds_jobs_artifacts_inputs_runs_and_errors(state: CurrentState) -> None:
    def kinds(text: str) -> set[tuple[str, str]]:
        return {(hit["kind"], hit["id"]) for hit in view(state, "search", q=text)["hits"]}

    assert kinds("check") == {("job", "Job:Check"), ("artifact", "Artifact:Check.Report")}
    assert kinds("r0002") == {("run", "r0002")}
    assert ("input", "Input:Topic") in kinds("topic")
    assert kinds("alert(") == {("error", "Job:Check")}


def test_an_invalid_workflow_shows_diagnostics_and_history(told: Lab, tmp_path: Path) -> None:
    import shutil

    from whyrun.errors import WhyrunError
    from whyrun.project import Project

    shutil.copytree(told.root, tmp_path / "copy")
    lab = Lab(tmp_path / "copy").edit("workflow.yaml", 'inputs.Topic }}", notes', 'inputs.Topik }}", notes')
    state = StateSource(lambda: Project.open(lab.file)).state()
    assert isinstance(state, InvalidState)
    found = view(state, "state")
    assert [problem["code"] for problem in found["problems"]] == ["UNKNOWN_REFERENCE"]
    assert [run["run"] for run in view(state, "runs")["runs"]] == ["r0001", "r0002", "r0003"]
    assert view(state, "plan", run="r0002")["checked"] is True
    with pytest.raises(WhyrunError, match="UNKNOWN_REFERENCE"):
        view(state, "graph")


def test_before_the_first_run_there_is_the_plan(project: Any) -> None:
    from viewer_lab import FILES, WORKFLOW

    lab = project(WORKFLOW, FILES)
    found = view(open_state(lab), "state")
    assert (found["log_position"], found["totals"]["planned"], found["runs"]) == (None, 8, [])
    assert not (lab.root / ".whyrun").exists()


def test_every_view_is_asked_here_or_in_the_report(state: CurrentState) -> None:
    text = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    for name in Views()._views | {"whatif": None}:
        assert f'"{name}"' in text or f"api/{name}" in text, name


def test_a_missing_parameter_says_what_to_give(state: CurrentState) -> None:
    from whyrun.errors import WhyrunError

    for name, one in VIEWS.items():
        if "id" in one.parameters:
            with pytest.raises(WhyrunError, match=r"this view needs `(id|run)`"):
                Views().answer(state, name, Params({}))


IMPORTED = """\
workflow: w
loops: {name: {values: [ada, bob]}}
imports: {Video: {workflow: ./video.yaml, for: [name]}}
jobs: {}
"""
VIDEO = """\
workflow: video
loops: {part: {count: 2}}
jobs:
  Clip: {for: [part], uses: shell, with: {run: "true"}, outputs: {X: {type: string}}}
  Film: {uses: shell, with: {run: "true"}, outputs: {X: {type: string}}}
"""


def test_jobs_of_an_import_in_a_loop_are_told_by_their_whole_path(tmp_path: Path) -> None:
    state = open_state(Lab(tmp_path).write({"workflow.yaml": IMPORTED, "video.yaml": VIDEO}))
    cells = view(state, "cells", job="Video/Clip")
    assert cells["texts"] == [f"Video[{name}]/Clip[{part}]" for name in ("ada", "bob") for part in (0, 1)]
    assert cells["axes"] == [{"loop": "name", "size": 2}, {"loop": "part", "size": 2}]
    assert [row["id"] for row in view(state, "instances", job="Video/Clip")["rows"]] == [
        f"Job:{text}" for text in cells["texts"]
    ]
    node = next(node for node in view(state, "graph")["nodes"] if node["job"] == "Video/Film")
    assert node["pattern"] == "Job:Video[*]/Film"
    assert view(state, "why", id="Job:Video[bob]/Film")["answer"]["jobs"][0]["id"] == "Job:Video[bob]/Film"
