"""Issue 20: fields of JSON inputs are canonical inputs, at any depth, so that another field changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from project_lab import ECHO, Lab
from whyrun.errors import WhyrunError
from whyrun.facts.subjects import find_subject
from whyrun.facts.why import readers_of_input
from whyrun.ids import parse_id
from whyrun.planning.answers.whatif import assume
from whyrun.planning.plan import PlanOptions, compute_execution_plan
from whyrun.snapshot.observing.observe import InputObserver

Make = Callable[..., Lab]

TEXT = """\
workflow: w
inputs:
  Settings:
    type: json
    default: {size: 96, "my key": a, tones: [sepia, grey], deep: {er: {x: 1.5, "1": one}}, weights: {a: 1, b: 2}}
  Sheet: {type: "json[]", default: s.csv, key: id}
  Rows: {type: "json[]", default: [{n: 1}, {n: 2, m: x}]}
loops:
  sample: {each: inputs.Sheet}
  weight: {values: [a, b]}
jobs:
  One:
    uses: python
    with:
      call: "echo:received"
      size: "${{ inputs.Settings.size }}"
      odd: "${{ inputs.Settings['my key'] }}"
      tone: "${{ inputs.Settings.tones[1] }}"
      x: "${{ inputs.Settings.deep.er.x }}"
      one: "${{ inputs.Settings['deep'].er['1'] }}"
      twice: "${{ inputs.Settings.size * 2 }}"
      all: "${{ inputs.Rows[:].n }}"
      text: "${{ inputs.Sheet['01'].mask }}"
      other: "${{ first(inputs.Rows[0].m, inputs.Rows[1].m) }}"
      has: "${{ exists(inputs.Rows[0].m) }}"
    outputs: {Got: {type: json}}
  Each:
    for: [sample]
    if: ${{ inputs.Sheet[sample].use == "yes" }}
    uses: shell
    with: {mask: "${{ inputs.Sheet[sample].mask }}", run: 'echo "$mask" > "$out_T"'}
    outputs: {T: {type: text}}
  Weigh:
    for: [weight]
    uses: python
    with: {call: "echo:received", w: "${{ inputs.Settings.weights[weight] }}"}
    outputs: {Got: {type: json}}
"""
FILES = {"echo.py": ECHO, "s.csv": "id,mask,use\n01,m 1,yes\nb,m2,no\nc,m3,yes\n"}


@pytest.fixture
def lab(project: Make) -> Lab:
    return project(TEXT, FILES)


def test_each_field_is_an_input_of_its_own_with_its_own_type(lab: Lab) -> None:
    plan = {job.id: job.bindings for job in lab.plan().planned}
    assert plan["Job:One"] == {
        "size": "Input:Settings.size",
        "odd": 'Input:Settings["my key"]',
        "tone": "Input:Settings.tones[1]",
        "x": "Input:Settings.deep.er.x",
        "one": 'Input:Settings.deep.er["1"]',
        "all": ["Input:Rows[0].n", "Input:Rows[1].n"],
        "text": 'Input:Sheet["01"].mask',
        "other": "Input:Rows[1].m",
    }
    assert plan["Job:Weigh[a]"] == {"w": "Input:Settings.weights.a"}
    lab.succeed()
    assert lab.content("Artifact:One.Got") == {
        "size": 96, "odd": "a", "tone": "grey", "x": 1.5, "one": "one", "twice": 192, "all": [1, 2], "text": "m 1",
        "other": "x", "has": False,
    }  # fmt: skip
    assert lab.content('Artifact:Each.T["01"]') == "m 1\n"  # a text as it is, not as JSON
    assert [job["id"] for job in lab.plan().to_json()["jobs"]] == ["Job:Each[b]"]  # inactive


def test_another_field_changes_nothing(lab: Lab) -> None:
    lab.succeed()
    lab.edit("workflow.yaml", "weights: {a: 1, b: 2}", "weights: {a: 1, b: 3}, new: 1")
    assert lab.plan().headlines() == {"Job:Weigh[b]": "INPUT_CHANGED"}
    lab.edit("s.csv", "c,m3", "c,m4")
    assert lab.plan().headlines() == {"Job:Weigh[b]": "INPUT_CHANGED", "Job:Each[c]": "INPUT_CHANGED"}
    reason = next(job for job in lab.plan().planned if job.id == "Job:Weigh[b]").reasons[0]
    assert reason.text("Job:Weigh[b]") == "w ← Input:Settings.weights.b  2 → 3"


def test_ids_of_fields_are_found_and_have_one_spelling(lab: Lab) -> None:
    graph = lab.opened().graph
    for id_ in ("Input:Settings.size", 'Input:Settings["my key"]', 'Input:Sheet["01"].mask', "Input:Settings.tones[0]"):
        assert str(parse_id(id_)) == id_
        found = find_subject(graph, id_)
        assert found.kind == "input"
        assert found.value is not None
    for text, hint in (
        ("Input:Settings[size]", "the one spelling is `Input:Settings.size`"),
        ("Input:Settings.sise", "did you mean `size`?"),
        ("Input:Settings.tones[2]", "elements are counted from 0"),
        ("Input:Settings.size.x", "elements are counted from 0"),
    ):
        with pytest.raises(WhyrunError) as caught:
            find_subject(graph, text)
        assert caught.value.diagnostics[0].hint == hint


def test_a_field_can_be_assumed(lab: Lab) -> None:
    lab.succeed()
    opened = lab.opened()
    observer = InputObserver(opened.folder, opened.cache)
    for text, planned in (
        ("Input:Settings.weights.b=7", {"Job:Weigh[b]"}),
        ("Input:Settings.deep.er.x=changed", {"Job:One"}),
        ("Input:Sheet[b].use=yes", {"Job:Each[b]"}),
        ("Input:Settings=changed", {"Job:One", "Job:Weigh[a]", "Job:Weigh[b]"}),
    ):
        inputs, _ = assume(opened.workflow, opened.inputs, [text], observer)
        other = lab.opened()
        other.__dict__["inputs"] = inputs
        plan = compute_execution_plan(other.snapshot(), PlanOptions())
        assert {job.id for job in plan.planned} == planned


@pytest.mark.parametrize(
    ("reference", "code", "message", "hint"),
    [
        (
            "inputs.Settings.sise", "UNKNOWN_REFERENCE", "`Input:Settings` has no field `sise`", "did you mean `size`?",
        ),
        (
            "inputs.Settings.deep.er[1]", "UNKNOWN_REFERENCE", "`Input:Settings.deep.er` has no field `1`",
            'write `["1"]`',
        ),
        (
            "inputs.Settings.tones[2]", "INDEX_OUT_OF_RANGE",
            "`Input:Settings.tones[2]` does not exist: the list has 2", None,
        ),
        (
            "inputs.Settings.tones.x", "INDEX_FORMAT_INVALID", "`Input:Settings.tones` is a list, and `x` is no index "
            "of one", "items are counted from 0: `[0]`",
        ),
        (
            "inputs.Settings.size.x", "INDEX_PARENT_NOT_ARRAY",
            "`Input:Settings.size` is neither an object nor a list, so it has no field `x`", None,
        ),
        (
            "inputs.Sheet.mask", "UNKNOWN_REFERENCE", "the input `Sheet` has no parts with names",
            "name an element first: `inputs.Sheet[0].…`, `inputs.Sheet[loop].…`",
        ),
        (
            "inputs.Settings.tones[:]", "EXPRESSION_FORBIDDEN",
            "`[:]` selects from arrays and loops, not within a JSON value", "name one field, or take the whole value",
        ),
        (
            "inputs.Settings[-1]", "INDEX_FORMAT_INVALID", "`-1` is no field and no index of a list",
            "items are counted from 0",
        ),
    ],
)  # fmt: skip
def test_what_is_no_field_is_refused(project: Make, reference: str, code: str, message: str, hint: str | None) -> None:
    lab = project(TEXT.replace("inputs.Settings.tones[1]", reference), FILES)
    (only,) = lab.opened().problems
    assert (only.code, only.message, only.hint) == (code, message, hint)


def test_imports_get_fields(project: Make) -> None:
    child = """\
workflow: child
inputs: {Size: {type: integer}}
jobs:
  J:
    uses: python
    with: {call: "echo:received", size: "${{ inputs.Size }}"}
    outputs: {Got: {type: json}}
"""
    text = """\
workflow: w
inputs: {Settings: {type: json, default: {size: 3, name: x}}}
imports: {C: {workflow: ./child.yaml, with: {Size: "${{ inputs.Settings.size }}"}}}
jobs: {}
"""
    lab = project(text, {"echo.py": ECHO, "child.yaml": child})
    lab.succeed()
    assert lab.content("Artifact:C/J.Got") == {"size": 3}
    lab.edit("workflow.yaml", "inputs.Settings.size", "inputs.Settings.name")
    (only,) = lab.opened().problems
    assert (only.code, only.message) == ("INPUT_TYPE", "`Size`: `integer` is expected, not `string`")


def test_readers_of_a_sheet_and_of_its_rows_are_those_of_their_fields(lab: Lab) -> None:
    opened = lab.opened()
    for id_, jobs in (
        ("Input:Sheet[c]", ["Job:Each[c]"]),
        ("Input:Sheet", ['Job:Each["01"]', "Job:Each[b]", "Job:Each[c]", "Job:One"]),
        ("Input:Settings.weights", ["Job:Weigh[a]", "Job:Weigh[b]"]),
    ):
        assert sorted(reader.job for reader in readers_of_input(opened, opened.graph, id_)) == jobs
