"""A snapshot is written down with all that was used beyond the log, and comes back as it was, to the byte."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from project_lab import Lab
from whyrun.artifacts.hashing import canonical_json
from whyrun.artifacts.shared.result import SharedOrigin, SharedOutput, SharedResult
from whyrun.errors import WhyrunError
from whyrun.planning.plan import compute_execution_plan
from whyrun.snapshot.history.replay import replay_snapshot, snapshot_blob
from whyrun.snapshot.snapshot import ActionFacts, PlanningSnapshot

Make = Callable[..., Lab]
FLOW = """\
workflow: w
inputs:
  Files: {type: "file[]", default: "in/*.txt"}
  Nested: {type: "integer[][]", default: [[1], [2, 3]]}
  Folder: {type: directory, default: in}
  Doc: {type: json, default: {a: [null]}}
  Maybe: {type: file, required: false}
loops: {i: {each: inputs.Files}}
jobs:
  Copy:
    for: [i]
    uses: python
    with: {call: "acts:copy", file: "${{ inputs.Files[i] }}"}
    outputs: {Shown: {type: text, path: "out/${{ i }}.txt"}, Kept: {type: text}}
  Join:
    uses: python
    with: {call: "acts:join", shown: "${{ jobs.Copy.outputs.Shown[:] }}", kept: "${{ jobs.Copy.outputs.Kept[:] }}"}
    outputs: {Part: {type: json, path: all.json, append: true}}
"""
CODE = """
def copy(file):
    return {"Shown": "shown " + file.read_text(), "Kept": "kept " + file.read_text()}
def join(shown, kept):
    return {"Part": {"of": len(shown) + len(kept)}}
"""


@pytest.fixture
def lab(project: Make) -> Lab:
    return project(FLOW, {"acts.py": CODE, "in/a.txt": "a", "in/b.txt": "b"})


def replayed(lab: Lab, snapshot: PlanningSnapshot) -> PlanningSnapshot:
    """From the blob and the log alone."""
    return replay_snapshot(snapshot_blob(snapshot), lab.opened().history())


def test_all_that_was_used_beyond_the_log_is_written_down(lab: Lab) -> None:
    snapshot = lab.snapshot()
    written = json.loads(snapshot_blob(snapshot))
    inputs = {id_: {k: v for k, v in value.items() if k != "sha256"} for id_, value in written["inputs"].items()}
    assert inputs == {
        "Input:Files": {
            "type": ["file", 1],
            "elements": [
                {"type": ["file", 0], "path": "in/a.txt", "sha256": digest(snapshot, "Files", 0)},
                {"type": ["file", 0], "path": "in/b.txt", "sha256": digest(snapshot, "Files", 1)},
            ],
        },
        "Input:Nested": {"type": ["integer", 2], "elements": written["inputs"]["Input:Nested"]["elements"]},
        "Input:Folder": {"type": ["directory", 0], "path": "in"},
        "Input:Doc": {"type": ["json", 0], "value": {"a": [None]}},
        "Input:Maybe": {"type": ["file", 0], "value": None},
    }
    deepest = [[item["value"] for item in row["elements"]] for row in written["inputs"]["Input:Nested"]["elements"]]
    assert deepest == [[1], [2, 3]]
    assert {name: value for name, value in written.items() if name not in ("inputs", "actions")} == {
        "version": 1,
        "root": snapshot.dependency_graph.workflow.source,
        "sources": {snapshot.dependency_graph.workflow.source: FLOW},
        "files": {},
        "lost": [],
        "moving": True,
        "opened": True,
    }
    assert written["actions"] == {
        job: {"name": "python", "sha256": facts.sha256, "deterministic": False, "files": dict(facts.files)}
        for job, facts in snapshot.actions.items()
    }


TEXT = "inputs: {Note: {type: text, default: in/a.txt}, Word: {type: string, default: w}}"
WORD = "inputs: {Word: {type: string, default: w}}"
OPENS = 'A: {uses: python, with: {call: "acts:copy", file: "x"}, outputs: {O: {type: json}}}'
OPENS_NOT = 'B: {uses: shell, with: {run: "true"}, outputs: {O: {type: json}}}'
WRITES = 'C: {uses: shell, with: {run: "true"}, outputs: {N: {type: json}, O: {type: text}}}'


@pytest.mark.parametrize(
    ("inputs", "jobs", "opened"),
    [
        (TEXT, [OPENS, OPENS_NOT], True),
        (TEXT, [OPENS_NOT], None),
        (WORD, [OPENS, OPENS_NOT], None),
        ("", [OPENS], None),
        ("", [OPENS, WRITES], True),
        ("", [WRITES], None),
    ],
)
def test_that_texts_may_be_opened_is_noted_where_there_is_a_text_and_somebody_who_is_given_its_content(
    project: Make, inputs: str, jobs: list[str], opened: bool | None
) -> None:
    lines = ["workflow: w", inputs, "jobs:", *(f"  {job}" for job in jobs)]
    lab = project("\n".join(lines) + "\n", {"acts.py": CODE, "in/a.txt": "a"})
    assert json.loads(snapshot_blob(lab.snapshot())).get("opened") is opened


def digest(snapshot: PlanningSnapshot, name: str, element: int) -> str:
    elements = snapshot.dependency_graph.inputs[f"Input:{name}"].elements
    assert elements is not None
    return elements[element].sha256


def test_inputs_come_back_as_they_were(lab: Lab) -> None:
    snapshot = lab.snapshot()
    assert dict(replayed(lab, snapshot).dependency_graph.inputs) == dict(snapshot.dependency_graph.inputs)


def test_what_is_known_of_actions_and_of_the_results_of_others_comes_back(lab: Lab) -> None:
    plain = ActionFacts("shell", "aa")
    whole = ActionFacts("mine", "bb", True, {"a.py": "cc"}, ("wait", "log"), {"mine": "1.0"}, True)
    outputs = (SharedOutput("Part", "c" * 64, 1, "json"), SharedOutput("Part.On", "d" * 64, 4, "boolean", value=True))
    found = {"f" * 64: SharedResult(1, "f" * 64, "mine", "bb", outputs, SharedOrigin("w", "Job:Join"))}
    snapshot = replace(lab.snapshot(), actions={"Copy": plain, "Join": whole}, shared=found)
    written: dict[str, Any] = json.loads(snapshot_blob(snapshot))
    assert written["actions"] == {
        "Copy": {"name": "shell", "sha256": "aa", "deterministic": False, "files": {}},
        "Join": {
            "name": "mine",
            "sha256": "bb",
            "deterministic": True,
            "files": {"a.py": "cc"},
            "uncounted": ["wait", "log"],
            "versions": {"mine": "1.0"},
            "effectful": True,
        },
    }
    again = replayed(lab, snapshot)
    assert (again.actions, again.shared) == (snapshot.actions, found)


def test_what_actions_and_connections_said_of_the_graph_is_said_again(lab: Lab) -> None:
    asked = {"Copy": {"Kept": ["kept/0.txt", "kept/1.txt"]}}
    connected = {"Join": {"kept": {"same": {"$connection": "db.one", "host": "a"}}}}
    snapshot = lab.snapshot()
    graph = msgspec.structs.replace(snapshot.dependency_graph, asked=asked, connected=connected)
    again = replayed(lab, replace(snapshot, dependency_graph=graph)).dependency_graph
    assert (again.asked, again.connected) == (asked, connected)
    (kept,) = (output for output in again.tables[0].outputs if output.name == "Kept")
    assert list(kept.paths or ()) == asked["Copy"]["Kept"]
    (slot,) = (slot for slot in again.tables[1].slots if slot.name == "kept")
    assert getattr(slot.column.at(0), "value", None) == connected["Join"]["kept"]["same"]


def test_what_is_lost_is_written_in_order(lab: Lab) -> None:
    lost = [f"{i:064}" for i in range(20)]
    assert json.loads(snapshot_blob(replace(lab.snapshot(), lost=frozenset(lost))))["lost"] == lost


def test_what_was_seen_other_than_the_log_says_is_seen_again(lab: Lab) -> None:
    lab.succeed()
    snapshot = lab.snapshot()
    assert (snapshot.files, snapshot.lost) == ({}, frozenset())
    kept = snapshot.available_artifacts["Artifact:Copy.Kept[1]"].sha256
    lab.blob(kept).unlink()
    lab.write({"out/0.txt": None, "all.json": "{}"})
    changed = lab.snapshot()
    assert (changed.files, changed.lost) == ({"out/0.txt": "deleted", "all.json § Join": "deleted"}, frozenset({kept}))
    blob, plan = snapshot_blob(changed), compute_execution_plan(changed).to_bytes()
    lab.write({"in": None, "out": None, "acts.py": None})
    again = replay_snapshot(blob, lab.opened().history())
    assert (again.files, again.lost, snapshot_blob(again)) == (changed.files, changed.lost, blob)
    assert compute_execution_plan(again).to_bytes() == plan
    assert (again.suspects, again.shas, again.consumed) == (changed.suspects, changed.shas, changed.consumed)


def test_a_snapshot_of_another_version_is_refused(lab: Lab) -> None:
    written = json.loads(snapshot_blob(lab.snapshot()))
    with pytest.raises(WhyrunError, match="this snapshot has version 2") as refused:
        replay_snapshot(canonical_json({**written, "version": 2}), lab.opened().history())
    assert [problem.code for problem in refused.value.diagnostics] == ["STORE_DAMAGED"]


COMPOSED = """\
workflow: panel
composition: {mode: sequential, roles: {Main: primary_dataset}}
inputs: {Main: {type: dataset, default: main.csv}}
jobs:
  Clean:
    uses: shell
    with: {run: 'true', primary_dataset: "${{ inputs.Main }}"}
    outputs: {Data: {type: dataset}}
  Model:
    uses: shell
    with: {run: 'true', primary_dataset: "${{ jobs.Clean.outputs.Data }}"}
    outputs: {Fit: {type: dataset}}
"""


def test_a_workflow_file_that_composes_is_read_again_as_a_workflow_file(project: Make) -> None:
    lab = project(COMPOSED, {"main.csv": "id\n1\n"})
    snapshot = lab.snapshot()
    assert "manifest" not in json.loads(snapshot_blob(snapshot))
    assert snapshot_blob(replayed(lab, snapshot)) == snapshot_blob(snapshot)
