"""Which instances may be other than clean: those whose fingerprint would be another, or whose outputs are not there.

A memo of columns that were found equal saves the comparing, and never hides a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy

import msgspec
import pytest
from msgspec.structs import replace

from project_lab import Lab
from whyrun.artifacts.hash_column import HashColumn
from whyrun.artifacts.hashing import bytes_sha256, value_sha256
from whyrun.graph.fingerprint import counted, prefix, recorded_suffix
from whyrun.graph.tables import ArtifactAt, Graph, JobTable
from whyrun.planning.artifact_states import Available
from whyrun.planning.consume import Consumer
from whyrun.snapshot.build import join_tables
from whyrun.snapshot.records import Attempt, Output, Records, StepRecord
from whyrun.snapshot.snapshot import ActionFacts, PlanningSnapshot
from whyrun.snapshot.suspects import find_suspects

FLOW = """
    workflow: w
    inputs:
      Files: {type: "file[]", default: "in/*.txt"}
      Words: {type: "string[]", default: [a, b, c]}
      Nothing: {type: "string[]", default: []}
      Topic: {type: string, default: cats}
      K: {type: integer, default: 3}
    loops: {i: {each: inputs.Files}, none: {each: inputs.Nothing}, two: {count: 2}}
    jobs:
      Make:
        for: [i]
        uses: python
        with: {call: "acts:make", file: "${{ inputs.Files[i] }}", word: "${{ inputs.Words[i] }}"}
        outputs: {Text: {type: text, path: "out/${{ i }}.txt"}, Number: {type: integer}}
      Aligned:
        for: [i]
        uses: python
        with: {call: "acts:text", text: "${{ jobs.Make.outputs.Text[i] }}"}
        outputs: {Text: {type: text}}
      Before:
        for: [i]
        uses: python
        with: {call: "acts:text", text: "${{ first(jobs.Make.outputs.Text[i-1], inputs.Files[0]) }}"}
        outputs: {Text: {type: text}}
      Only:
        for: [i]
        if: "${{ inputs.Topic == 'cats' }}"
        uses: python
        with: {call: "acts:text"}
        outputs: {Text: {type: text}}
      Fixed:
        for: [i]
        uses: python
        with: {call: "acts:text", text: "${{ jobs.Make.outputs.Text[1] }}", topic: "${{ inputs.Topic }}"}
        outputs: {Text: {type: text}}
      All:
        uses: python
        with:
          call: acts:text
          texts: "${{ jobs.Make.outputs.Text[:] }}"
          again: "${{ jobs.Aligned.outputs.Text[:] }}"
          title: "about ${{ inputs.Topic }}"
        outputs: {Text: {type: text}}
      Sum:
        for: [i]
        uses: python
        with: {call: "acts:text", next: "${{ jobs.Make.outputs.Number[i] + i }}"}
        outputs: {Text: {type: text}}
      Mix:
        for: [i]
        uses: python
        with: {call: "acts:text", times: "${{ jobs.Make.outputs.Number[i] * inputs.K }}"}
        outputs: {Text: {type: text}}
      Perhaps:
        uses: python
        with: {call: "acts:text", text: "${{ first(jobs.Only.outputs.Text[1], inputs.Files[0]) }}"}
        outputs: {Text: {type: text}}
      Total:
        uses: python
        with: {call: "acts:text", total: "${{ sum(jobs.Make.outputs.Number[:]) }}"}
        outputs: {Text: {type: text}}
      Alone:
        for: [two]
        uses: python
        with: {call: "acts:alone"}
        outputs: {Deep: {type: json, leaves: {"Parts[two][0]": integer}}}
      Never:
        for: [none]
        uses: python
        with: {call: "acts:text", word: "${{ inputs.Nothing[none] }}"}
        outputs: {Text: {type: text}}
"""
CODE = """
def make(file, word):
    return {"Text": file.read_text() + word, "Number": len(word)}
def text(**given):
    return {"Text": "text"}
def alone():
    return {"Deep": {"Parts": [1, 2, 3]}}
"""


@pytest.fixture
def lab(project: Callable[..., Lab]) -> Lab:
    return project(FLOW, {"acts.py": CODE, **{f"in/{i}.txt": f"{i}" for i in range(3)}})


# The planner decides: a condition, `first` of what may be inactive, an expression of a fan-in.
ALWAYS = ["Only[0]", "Only[1]", "Only[2]", "Perhaps", "Total"]


def recorded(graph: Graph, actions: Mapping[str, ActionFacts]) -> dict[str, StepRecord]:
    """What a log would say after a run: each step with the fingerprint of what it consumed."""

    def output(table: JobTable, artifact: int, position: int) -> Output:
        spec, id_ = table.artifacts[artifact], table.artifact_id(artifact, position)
        is_value = spec.type == "integer"
        sha256 = value_sha256(1) if is_value else bytes_sha256(id_.encode())
        return Output(id_, sha256, 1, spec.type, None, (1,) if is_value else (), recorded_suffix(table, artifact))

    def look(at: ArtifactAt) -> Available:
        found = output(graph.tables[at.table], at.artifact, at.position)
        return Available(found.sha256, found.value)

    steps = {}
    for table in graph.tables:
        action = actions[table.name]
        for position in range(len(table)):
            head = prefix(table, action.sha256, position, action.uncounted)
            consumed = Consumer(graph, look).consume(table, position)
            fingerprint = consumed.fingerprint(head, counted(table, action.uncounted))
            outputs = tuple(output(table, artifact, position) for artifact in range(len(table.artifacts)))
            steps[table.job_id(position)] = StepRecord(Attempt(1, 2, 1, fingerprint, True, outputs))
    return steps


@pytest.fixture
def snapshot(lab: Lab) -> PlanningSnapshot:
    opened = lab.opened()
    steps = recorded(opened.graph, opened.actions)
    joined = join_tables(opened.graph, steps)
    rows, shas = [table.rows for table in joined], [table.shas for table in joined]
    found = PlanningSnapshot(opened.graph, Records(steps), opened.actions, {}, frozenset(), rows=rows, shas=shas)
    assert all(column.is_complete for columns in shas for column in columns)
    return found


def suspects(snapshot: PlanningSnapshot, memo: dict[str, str], changed: dict[str, str] | None = None) -> list[str]:
    """`changed`: step → the fingerprint that the log has of it."""
    graph = snapshot.dependency_graph
    fingerprints = [table.fingerprints for table in join_tables(graph, snapshot.records.steps)]
    for step, fingerprint in (changed or {}).items():
        table, position = graph.table_at(graph.node_of[f"Job:{step}"])
        fingerprints[table.number][position] = fingerprint
    found = find_suspects(snapshot, fingerprints, memo)
    assert found == sorted(set(found))
    return sorted(graph.job_id(node).removeprefix("Job:") for node in found)


def with_hash(snapshot: PlanningSnapshot, artifact: str, sha256: str | None) -> PlanningSnapshot:
    at = snapshot.dependency_graph.artifact_of[f"Artifact:{artifact}"]
    shas = [[HashColumn.of(column) for column in columns] for columns in snapshot.shas]
    shas[at.table][at.artifact][at.position] = sha256
    return replace(snapshot, shas=shas)


def test_of_what_is_as_it_was_only_what_the_planner_must_decide_is_suspect(snapshot: PlanningSnapshot) -> None:
    memo: dict[str, str] = {}
    assert suspects(snapshot, memo) == ALWAYS
    assert sorted(memo) == ["Aligned", "All", "Alone", "Before", "Fixed", "Make", "Mix", "Never", "Sum"]
    assert len(set(memo.values())) == len(memo)
    before = copy(memo)
    assert (suspects(snapshot, memo), memo) == (ALWAYS, before)


OTHER = "0" * 64
FIXED, MAKE = ([f"{job}[{i}]" for i in range(3)] for job in ("Fixed", "Make"))
Change = Callable[[Lab, PlanningSnapshot], PlanningSnapshot]


def inputs(*sets: str) -> Change:
    return lambda lab, snapshot: replace(snapshot, dependency_graph=lab.opened(sets).graph)


def hashed(artifact: str, sha256: str | None) -> Change:
    return lambda lab, snapshot: with_hash(snapshot, artifact, sha256)


def edited(old: str, new: str) -> Change:
    """The graph of another workflow, with what was recorded of this one."""

    def change(lab: Lab, snapshot: PlanningSnapshot) -> PlanningSnapshot:
        text = lab.read("workflow.yaml")
        lab.edit("workflow.yaml", old, new)
        graph = lab.opened().graph
        lab.file.write_text(text)
        return replace(snapshot, dependency_graph=graph)

    return change


def action(job: str, **facts: object) -> Change:
    def change(_: Lab, snapshot: PlanningSnapshot) -> PlanningSnapshot:
        changed = msgspec.structs.replace(snapshot.actions[job], **facts)
        return replace(snapshot, actions={**snapshot.actions, job: changed})

    return change


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (hashed("Make.Text[1]", None), ["Aligned[1]", "All", "Before[2]", *FIXED, "Make[1]"]),
        (hashed("Make.Text[0]", None), ["Aligned[0]", "All", "Before[1]", "Make[0]"]),
        (hashed("Make.Text[1]", OTHER), ["Aligned[1]", "All", "Before[2]", *FIXED]),
        (hashed("Make.Text[2]", "no hash"), ["Aligned[2]", "All"]),
        (hashed("Make.Number[1]", None), ["Make[1]", "Mix[1]", "Sum[1]"]),
        (hashed("Aligned.Text[2]", OTHER), ["All"]),
        (hashed("Aligned.Text[2]", None), ["Aligned[2]", "All"]),
        (hashed("All.Text", None), ["All"]),
        (hashed("Alone.Deep[1]", None), ["Alone[1]"]),
        (inputs("Topic=dogs"), ["All", *FIXED]),
        (inputs("Words=[a, x, c]"), ["Make[1]"]),
        (inputs("K=5"), ["Mix[0]", "Mix[1]", "Mix[2]"]),
        (inputs("Files=in/[201].txt"), []),
        (inputs("Files=[in/0.txt, in/2.txt, in/1.txt]"), ["Make[1]", "Make[2]"]),
        (edited("out/${{ i }}.txt", "out/${{ i }}.md"),
         ["Aligned[0]", "Aligned[1]", "Aligned[2]", "All", "Before[1]", "Before[2]", *FIXED, *MAKE]),
        (edited("Parts[two][0]", "Parts[0][0]"), ["Alone[1]"]),
        (edited("Parts[two][0]", "Parts[0][two]"), ["Alone[1]"]),
        (edited("+ i }}", "+ i * i }}"), ["Sum[2]"]),
        (edited("+ i }}", "// i }}"), ["Sum[0]", "Sum[1]", "Sum[2]"]),
        (action("Alone", sha256=OTHER), ["Alone[0]", "Alone[1]"]),
        (action("All", sha256=OTHER), ["All"]),
        (action("Make", uncounted=("word",)), MAKE),
        (action("Make", uncounted=("wo",)), []),
    ],
)  # fmt: skip
def test_what_would_be_computed_from_something_else_is_suspect_with_a_memo_or_without(
    lab: Lab, snapshot: PlanningSnapshot, change: Change, expected: list[str]
) -> None:
    memo: dict[str, str] = {}
    suspects(snapshot, memo)
    other = change(lab, snapshot)
    assert suspects(other, {}) == suspects(other, memo) == sorted([*ALWAYS, *expected])
    assert suspects(other, memo) == sorted([*ALWAYS, *expected]), "what was found is not remembered as equal"
    assert suspects(snapshot, memo) == ALWAYS


def test_a_step_with_another_recorded_fingerprint_or_none_is_suspect(snapshot: PlanningSnapshot) -> None:
    memo: dict[str, str] = {}
    suspects(snapshot, memo)
    changed = {"Make[1]": OTHER, "Alone[1]": "no hash", "All": OTHER}
    for known in ({}, memo, memo):
        assert suspects(snapshot, known, changed) == sorted([*ALWAYS, *changed])
