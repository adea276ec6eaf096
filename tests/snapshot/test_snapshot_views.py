"""A snapshot as people and programs see it: what is available, what failed, which inputs are others than recorded."""

from __future__ import annotations

import pytest

from project_lab import Lab
from whyrun.artifacts.hashing import value_sha256
from whyrun.log import events as ev
from whyrun.snapshot.records import InputRecord
from whyrun.snapshot.snapshot import (
    ArtifactAvailabilityRecord,
    InputStateRecord,
    ProducerAttemptRecord,
    changed_inputs,
    leaf_inputs,
)
from whyrun.workflow.inputs import InputValue
from whyrun.workflow.model import Type

FLOW = """
    workflow: w
    inputs: {Words: {type: "string[]", default: [a, b]}, Topic: {type: string, default: cats}}
    loops: {i: {each: inputs.Words}}
    jobs:
      Make:
        for: [i]
        uses: python
        with: {call: "acts:make", word: "${{ inputs.Words[i] }}"}
        outputs: {Text: {type: text, path: "out/${{ i }}.txt"}, Size: {type: integer}}
      Kept:
        uses: python
        with: {call: "acts:kept", topic: "${{ inputs.Topic }}"}
        outputs: {Text: {type: text}, Doc: {type: json, leaves: {On: json}}}
      Later:
        uses: python
        with: {call: "acts:kept", topic: "${{ jobs.Make.outputs.Text[:] }}"}
        outputs: {Text: {type: text}}
"""
CODE = """
def make(word):
    if word == "b":
        raise ValueError("no b")
    return {"Text": word, "Size": len(word)}
def kept(topic):
    return {"Text": topic, "Doc": {"On": None}}
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    lab = Lab(tmp_path_factory.mktemp("views")).write({"workflow.yaml": FLOW, "acts.py": CODE})
    assert lab.run(targets=["Job:Make[1]"]).exit_code == 1
    assert lab.run(jobs=1).exit_code == 1
    return lab


def test_before_the_first_run_nothing_is_there(tmp_path_factory: pytest.TempPathFactory) -> None:
    snapshot = Lab(tmp_path_factory.mktemp("none")).write({"workflow.yaml": FLOW, "acts.py": CODE}).snapshot()
    assert (snapshot.log_position, snapshot.available_artifacts, snapshot.failed_artifacts) == (None, {}, frozenset())
    assert (snapshot.inputs_changed, snapshot.record(0)) == ([], None)
    jobs = ["Job:Make[0]", "Job:Make[1]", "Job:Kept", "Job:Later"]
    assert snapshot.latest_job_status == {job: ProducerAttemptRecord(job, "never_run") for job in jobs}
    assert {state.recorded_sha256 for state in snapshot.input_state.values()} == {None}


def test_what_is_available_is_told_with_the_attempt_that_made_it(lab: Lab) -> None:
    snapshot = lab.snapshot()
    seqs = {event.step_id: event.seq for event in lab.events("r0002") if isinstance(event, ev.StepStart)}
    graph, shown = snapshot.dependency_graph, {}
    for id_, found in snapshot.available_artifacts.items():
        output = snapshot.output(graph.artifact_of[id_])
        assert (output.id, output.sha256) == (id_, found.sha256)
        assert found == ArtifactAvailabilityRecord(
            id_, output.sha256, output.size, output.type, "r0002", seqs[found.step_id], found.step_id, output.path
        )
        shown[id_] = (found.type, found.path, found.step_id, snapshot.value(graph.artifact_of[id_]) == found.sha256)
    assert shown == {
        "Artifact:Make.Text[0]": ("text", "out/0.txt", "Job:Make[0]", True),
        "Artifact:Make.Size[0]": ("integer", None, "Job:Make[0]", False),
        "Artifact:Kept.Text": ("text", None, "Job:Kept", True),
        "Artifact:Kept.Doc": ("json", None, "Job:Kept", True),
        "Artifact:Kept.Doc.On": ("json", None, "Job:Kept", False),
    }
    assert snapshot.value(graph.artifact_of["Artifact:Make.Size[0]"]) == 1
    assert snapshot.value(graph.artifact_of["Artifact:Kept.Doc.On"]) is None


def test_each_job_has_the_status_of_its_latest_attempt(lab: Lab) -> None:
    snapshot = lab.snapshot()
    assert snapshot.latest_job_status == {
        "Job:Make[0]": ProducerAttemptRecord("Job:Make[0]", "succeeded", "r0002", 1),
        "Job:Make[1]": ProducerAttemptRecord("Job:Make[1]", "failed", "r0002", 1, "ValueError", "no b"),
        "Job:Kept": ProducerAttemptRecord("Job:Kept", "succeeded", "r0002", 1),
        "Job:Later": ProducerAttemptRecord("Job:Later", "never_run"),
    }
    assert snapshot.failed_artifacts == {"Artifact:Make.Text[1]", "Artifact:Make.Size[1]"}
    last = lab.events("r0002")[-1]
    assert snapshot.log_position == {"run": "r0002", "seq": last.seq}
    graph = snapshot.dependency_graph
    for job in ("Job:Make[0]", "Job:Make[1]", "Job:Kept"):
        record = snapshot.record(graph.node_of[job])
        assert record is not None
        assert record is snapshot.records.steps[job]
    assert snapshot.record(graph.node_of["Job:Later"]) is None


def test_inputs_are_compared_with_those_of_the_last_run_element_by_element(lab: Lab) -> None:
    def state(name: str, now: str, before: str | None) -> InputStateRecord:
        return InputStateRecord(name, value_sha256(now), None if before is None else value_sha256(before))

    same, other = lab.snapshot(), lab.snapshot(["Words=[a, x, c]"])
    assert same.inputs_changed == []
    assert other.input_state == {
        "Input:Words[0]": state("Input:Words[0]", "a", "a"),
        "Input:Words[1]": state("Input:Words[1]", "x", "b"),
        "Input:Words[2]": state("Input:Words[2]", "c", None),
        "Input:Topic": state("Input:Topic", "cats", "cats"),
    }
    assert other.inputs_changed == ["Input:Words[1]", "Input:Words[2]"]
    assert lab.snapshot(["Words=[x, b]", "Topic=dogs"]).inputs_changed == ["Input:Topic", "Input:Words[0]"]
    fewer = lab.snapshot(["Words=[]", "Topic=dogs"])
    assert fewer.inputs_changed == ["Input:Topic", "Input:Words[0]", "Input:Words[1]"]


def plain(value: object) -> InputValue:
    elements = tuple(map(plain, value)) if isinstance(value, list) else None
    return InputValue(Type("json"), value, value_sha256(value), elements, None)


def test_an_input_is_told_by_its_finest_elements() -> None:
    inputs = {"Input:A": plain(1), "Input:B": plain([2, 3]), "Input:C": plain([[4], [5, 6]]), "Input:D": plain([])}
    found = [(id_, value.value) for id_, value in leaf_inputs(inputs)]
    assert found == [
        ("Input:A", 1), ("Input:B[0]", 2), ("Input:B[1]", 3), ("Input:C[0][0]", 4), ("Input:C[1][0]", 5),
        ("Input:C[1][1]", 6),
    ]  # fmt: skip


def test_inputs_that_are_gone_have_changed_unless_that_is_recorded() -> None:
    recorded = {
        "Input:A": InputRecord(value_sha256(1)), "Input:B": InputRecord("other"), "Input:Gone": InputRecord("aa"),
        "Input:Told": InputRecord(""),
    }  # fmt: skip
    inputs = {"Input:A": plain(1), "Input:B": plain(2), "Input:New": plain(3)}
    assert list(changed_inputs(inputs, recorded)) == ["Input:B", "Input:New", "Input:Gone"]
