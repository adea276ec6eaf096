"""The report: one file with the application and its data, which keeps secrets and limits."""

from __future__ import annotations

import json
import os
import re
from typing import Any

import pytest
from viewer_lab import FILES, WORKFLOW, open_state, view

from page_checks import Opened
from project_lab import Lab
from whyrun.errors import WhyrunError
from whyrun.viewer import report as report_module
from whyrun.viewer.report import ReportOptions, make_report
from whyrun.viewer.views import APP, Views, asset, script_hash


def made(lab: Lab, at: str | None = None, **options: Any) -> Opened:
    return Opened("".join(make_report(open_state(lab, at), Views(("explain",)), ReportOptions(**options)).texts))


@pytest.fixture(scope="module")
def opened(told: Lab) -> Opened:
    return made(told, logs=True)


def test_it_has_the_answers_of_the_server(opened: Opened, told: Lab) -> None:
    state = open_state(told)
    for name, parameters in [
        ("graph", {}), ("parameters", {}), ("runs", {}), ("datasets", {}), ("cells", {"job": "Fit"}),
        ("run", {"id": "r0003"}), ("plan", {"run": "r0002"}), ("log", {"run": "r0001"}),
        ("diff", {"old": "r0001", "new": "r0002"}),
        ("artifact", {"id": "Artifact:Print.Copy[0]"}), ("artifact", {"id": "Artifact:Script.Story.Words"}),
        ("lineage", {"id": "Artifact:Script.Story.Words"}), ("why", {"id": "Input:Topic"}),
    ]:  # fmt: skip
        assert opened.get(report_module.member_name(name, parameters)) == view(state, name, **parameters)
    for table in state.graph.tables:
        ids = table.job_ids()
        assert opened.whys(table.name) == [
            {**view(state, "why", id=id_), "focus": view(state, "focus", id=id_)} for id_ in ids
        ]


def test_it_has_the_bytes_that_its_answers_name(opened: Opened, told: Lab) -> None:
    for row in opened.get("artifacts?page=0")["rows"]:
        if "href" in row:
            assert opened.bytes(row["sha256"]) == told.blob(row["sha256"]).read_bytes()
    (change,) = opened.whys("Print")[0]["changes"]
    assert opened.bytes(change["new"]["sha256"]) == b"Ada, later\n"


def test_it_loads_nothing_and_runs_exactly_its_own_script(opened: Opened) -> None:
    (policy,) = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', opened.text)
    policy = policy.replace("&#x27;", "'")
    scripts = re.findall(r"<script>(.*?)</script>", opened.text, re.DOTALL)
    assert scripts == [asset(APP)]
    assert f"script-src '{script_hash(scripts[0])}'" in policy
    assert "connect-src 'none'" in policy
    outside = opened.text.replace(asset(APP), "")
    assert not re.search(r"(src|href)=", outside)
    assert opened.text.index("Content-Security-Policy") < opened.text.index("<title>")


def test_hostile_text_cannot_end_an_element(told: Lab) -> None:
    text = made(told, logs=True).text.replace(asset(APP), "")
    assert "alert(" not in text
    assert "<b>" not in text


def test_what_steps_printed_only_with_logs(opened: Opened, told: Lab) -> None:
    assert opened.whys("Check")[0]["failure"]["stdout"] == ["checking [0.0, 0.5, 1.0]"]
    without = made(told)
    assert "stdout" not in without.whys("Check")[0]["failure"]
    assert "stderr" not in without.get("run?id=r0003")["failures"][0]
    assert without.whys("Check")[0]["failure"]["traceback"]


def test_the_report_of_a_run_is_the_state_at_its_end(told: Lab) -> None:
    first = made(told, "r0001")
    assert first.get("state")["at"] == "r0001"
    assert [run["run"] for run in first.get("state")["runs"]] == ["r0001"]
    assert [run["run"] for run in first.get("runs")["runs"]] == ["r0001"]
    assert first.get("state")["outcomes"] == {"succeeded": 7, "failed": 0, "running": 0, "never": 1}
    assert first.get("state")["totals"]["planned"] == 8, "its plan"
    rows = {row["id"]: row for row in first.get("artifacts?page=0")["rows"]}
    assert rows["Artifact:Print.Copy[1]"]["run"] == "r0001"
    assert first.bytes(rows["Artifact:Print.Copy[1]"]["sha256"]) == b"<b>cinema</b> Ben\n"
    scores = first.get("results?pattern=Artifact%3AFit.Score%5B%2A%5D")["answer"]["rows"]
    assert [(row["values"], row["runs"], row["states"]) for row in scores] == [
        ([score], ["r0001"], ["available"]) for score in (0.0, 0.5, 1.0)
    ]
    assert "later" not in json.dumps([first.part(name) for name in first.elements if name.startswith("m")])
    second = made(told, "r0002").whys("Print")[1]["job"]
    assert (second["latest_attempt"]["run"], [one["run"] for one in second["outputs"]]) == ("r0002", ["r0002"])
    third = made(told, "r0003")
    assert third.get("state")["failures"][0]["id"] == "Job:Check"
    assert third.whys("Check")[0]["job"]["latest_attempt"]["status"] == "FAILED"


def test_media(told: Lab) -> None:
    without = made(told, media="none")
    assert without.index["blobs"] == {}
    assert without.index["left_out"][-1].endswith("contents: `--media none`")
    tight = made(told, largest=1)
    assert tight.index["blobs"] == {}
    assert "the file would be over" in tight.index["left_out"][-1]
    assert made(told, media="all", largest=1).index["blobs"]


def test_what_does_not_fit_is_left_out_the_largest_first(project: Any) -> None:
    lab = project(
        """
        workflow: sizes
        inputs: {Files: {type: "file[]", default: "given/*"}}
        loops: {file: {each: inputs.Files}}
        jobs:
          Take:
            for: [file]
            uses: file/copy
            with: {source: "${{ inputs.Files[file] }}"}
            outputs: {File: {type: file}}
        """,
        {f"given/{n}.bin": os.urandom(n << 10) for n in (90, 10, 50, 200)},
    )
    sizes = [one["size"] for one in made(lab).index["blobs"].values()]
    whole = len(made(lab).text) + (64 << 10)
    for room, kept in ((whole, 4), (whole - 100_000, 3), (whole - 300_000, 2), (whole - 450_000, 1)):
        found = made(lab, largest=room)
        assert sorted(one["size"] for one in found.index["blobs"].values()) == sorted(sizes)[:kept]
        assert found.index["left_out"] == (
            [f"{4 - kept} contents: the file would be over {room / 1e6:.0f} MB (`--media all` takes them)"]
            if kept < 4
            else []
        )


def test_a_large_image_becomes_a_thumbnail(project: Any) -> None:
    from PIL import Image

    lab = project(
        """
        workflow: pictures
        inputs: {Photo: {type: image, default: photo.png}}
        jobs:
          Take:
            uses: file/copy
            with: {source: "${{ inputs.Photo }}"}
            outputs: {File: {type: image}}
        """
    )
    Image.frombytes("RGB", (800, 600), os.urandom(800 * 600 * 3)).save(lab.root / "photo.png")
    found = made(lab)
    graph_input = found.get("why?id=Input%3APhoto")["input"]["content"]
    blob = found.index["blobs"][graph_input["sha256"]]
    assert (blob["media_type"], blob["thumbnail"]) == ("image/webp", True)
    assert found.bytes(graph_input["sha256"])[8:12] == b"WEBP"


def test_a_known_secret_is_refused(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "hunter2-is-my-key")
    lab = project(
        """
        workflow: careless
        jobs:
          Ask:
            uses: python
            secrets: [API_KEY]
            with: {call: "ask:ask"}
            outputs: {Answer: {type: string}}
        """,
        {"ask.py": "def ask():\n    return {'Answer': 'fine'}\n"},
    )
    lab.succeed()
    assert made(lab).get("state")["workflow"] == "careless"
    lab.edit("workflow.yaml", "workflow: careless", "description: it is hunter2-is-my-key\nworkflow: careless")
    with pytest.raises(WhyrunError, match="SECRET_IN_REPORT"):
        made(lab)


def test_beyond_ten_thousand_instances_hashes_are_cut(told: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """And beyond two thousand there are the reasons, but no contents."""
    monkeypatch.setattr(report_module, "CUT_FROM", 7)
    monkeypatch.setattr(report_module, "FULL", 7)
    monkeypatch.setattr(report_module, "PART", 2)
    found = made(told)
    assert [len(found.index["members"]["why"][job]) for job in ("Fit", "Print", "Check")] == [2, 1, 1]
    state = open_state(told)
    whys = found.whys("Fit")
    assert [one["id"] for one in whys] == [f"Job:Fit[{i}]" for i in range(3)]
    assert "cells?job=Fit" in found.index["members"]["others"]
    whole = view(state, "why", id="Job:Print[0]")["answer"]["jobs"][0]["reasons"]
    short = found.whys("Print")[0]["answer"]["jobs"][0]["reasons"]
    assert [(one["code"], one["new"]) for one in short] == [(one["code"], one["new"][:16]) for one in whole]
    clean = found.whys("Fit")[1]["answer"]["jobs"][0]
    assert clean["last_success"] == view(state, "why", id="Job:Fit[1]")["answer"]["jobs"][0]["last_success"]
    assert clean["compared"] == []
    assert all(len(key) == 16 for key in found.index["blobs"])
    assert not re.search(r"[0-9a-f]{64}", json.dumps([found.part(name) for name in found.elements if name[0] == "m"]))


def test_between_there_are_the_reasons_of_every_job(told: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_module, "FULL", 7)
    state = open_state(told)
    found = made(told)
    for table in state.graph.tables:
        for id_, one in zip(table.job_ids(), found.whys(table.name), strict=True):
            whole = view(state, "why", id=id_)
            assert {name: one[name] for name in ("answer", "explain", "roots", "chain", "outcome", "command")} == {
                name: whole[name] for name in ("answer", "explain", "roots", "chain", "outcome", "command")
            }


def test_a_project_without_runs_has_a_report(project: Any) -> None:
    found = made(project(WORKFLOW, FILES))
    assert found.get("state")["totals"]["planned"] == 8
