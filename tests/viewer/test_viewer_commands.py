"""View 10: the command of each view gives the same answer, also in a report of an earlier run."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))

from cli_lab import whyrun
from test_viewer_report import made
from viewer_lab import open_state, view

from project_lab import Lab
from whyrun.viewer.current import CurrentState


@pytest.fixture(scope="module")
def state(told: Lab) -> CurrentState:
    return open_state(told)


def lines_of(told: Lab, command: str) -> list[Any]:
    """What the command prints: JSON, or a line of JSON for each event."""
    words = shlex.split(command)
    assert words[0] == "whyrun"
    answer = whyrun(told.root, *words[1:])
    assert answer.code == 0, answer.err
    return [json.loads(line) for line in answer.out.splitlines()]


def test_the_first_screen(state: CurrentState, told: Lab) -> None:
    found = view(state, "state")
    (status,) = lines_of(told, found["command"])
    assert (status["plan"], status["inputs_changed"], status["log_position"]) == (
        found["totals"], found["inputs_changed"], found["log_position"],
    )  # fmt: skip
    assert status["unfinished"] is found["unfinished"] is None
    (explained,) = lines_of(told, found["explain"])
    assert explained["digest"] == found["digest"]
    assert found["headline"].startswith(explained["headline"])


def test_instances_and_cells(state: CurrentState, told: Lab) -> None:
    for name, parameters in (("instances", {}), ("instances", {"job": "Print"}), ("cells", {"job": "Print"})):
        found = view(state, name, **parameters)
        (explained,) = lines_of(told, found["command"])
        jobs = [job for layer in explained["layers"] for job in layer["jobs"]]
        codes = {job["id"]: job["reasons"][0]["code"] for job in jobs}
        if name == "cells":
            shown = {
                f"Job:Print[{p}]": found["headlines"][int(c, 36)] for p, c in enumerate(found["headline"]) if c != "."
            }
        else:
            shown = {row["id"]: row["code"] for row in found["rows"] if row["state"] in ("planned", "reused")}
        assert shown == codes


def test_artifacts(state: CurrentState, told: Lab) -> None:
    found = view(state, "artifacts", leaves="1")
    (status,) = lines_of(told, found["command"])
    listed = {artifact["id"]: artifact for artifact in status["artifacts"]}
    assert found["total"] == len(found["rows"]) == len(listed)
    for row in found["rows"]:
        assert {name: row[name] for name in listed[row["id"]]} == listed[row["id"]]


def test_the_log_and_what_a_step_printed(state: CurrentState, told: Lab) -> None:
    found = view(state, "log", run="r0003")
    told_of = [(event["seq"], event["event"], event["ts"]) for event in lines_of(told, found["command"])]
    assert [(event["seq"], event["event"], event["ts"]) for event in found["events"]] == told_of
    printed = view(state, "prints", run="r0003", id="Job:Check", stream="stdout")
    words = shlex.split(printed["command"])[1:]
    assert printed["lines"][0] in whyrun(told.root, *[word for word in words if word != "--json"]).out


def test_in_a_report_of_a_run_commands_answer_as_of_that_run(told: Lab) -> None:
    """Or there is none: no command then tells of the present as if it were the past."""
    report = made(told, "r0002")
    first = report.get("state")
    assert first["command"] == first["explain"]
    (plan,) = lines_of(told, first["command"])
    assert (plan["digest"], plan["totals"]) == (first["digest"], first["totals"])
    why = report.whys("Print")[1]
    assert lines_of(told, why["command"]) == [why["answer"]]
    lineage = report.get("lineage?id=Artifact%3APrint.Copy%5B1%5D")
    assert lines_of(told, lineage["command"]) == [lineage["answer"]]
    run = report.get("run?id=r0002")
    assert lines_of(told, run["command"]) == [run["facts"]]
    for member in ("graph", "artifacts?page=0", "artifact?id=Artifact%3APrint.Copy%5B1%5D", "runs", "cells?job=Fit"):
        assert report.get(member)["command"] is None
