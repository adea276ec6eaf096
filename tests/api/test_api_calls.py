"""Whyrun from Python: load, plan, explain, run, validate."""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import whyrun
from project_lab import Lab

WORKFLOW = """\
workflow: greet
inputs:
  Names: {type: "text[]", required: true}
  Word:  {type: string, default: hello}
loops:
  name: {each: inputs.Names}
jobs:
  Greet:
    for: [name]
    uses: shell
    with:
      name: ${{ inputs.Names[name] }}
      word: ${{ inputs.Word }}
      run: |
        test "$word" != fail
        echo "$word $(cat "$name")" > "$out_Line"
    outputs: {Line: {type: text}}
  All:
    uses: shell
    with: {lines: "${{ jobs.Greet.outputs.Line[:] }}", run: 'cat "${lines[@]}" > "$out_Text"'}
    outputs: {Text: {type: text, path: out/all.txt}}
"""


@pytest.fixture
def lab(project: Callable[..., Lab]) -> Lab:
    return project(WORKFLOW, {"names/a.txt": "Ann\n", "names/b.txt": "Bob\n"})


def test_load_plan_explain_run_and_run_again(lab: Lab) -> None:
    flow = whyrun.load(lab.file, inputs={"Names": "names/*.txt"})
    assert flow.name == "greet"
    assert repr(flow) == f"<whyrun workflow {str(lab.file)!r}>"
    plan = flow.plan(up=1)
    assert isinstance(plan, whyrun.Plan)
    assert plan.headlines() == {"Job:Greet[0]": "MISSING_OUTPUT", "Job:Greet[1]": "MISSING_OUTPUT"}
    result = flow.run(jobs=2)
    assert isinstance(result, whyrun.RunResult)
    assert (result.run, result.state, result.exit_code, result.counts.completed) == ("r0001", "succeeded", 0, 3)
    assert lab.read("out/all.txt") == "hello Ann\nhello Bob\n"
    assert flow.run().run is None
    # The same handle sees what changed since.
    lab.write({"names/b.txt": "Bea\n"})
    assert flow.plan().headlines() == {"Job:Greet[1]": "INPUT_CHANGED", "Job:All": "UPSTREAM_DIRTY"}
    assert flow.explain(targets="Job:Greet[0]").splitlines()[0] == (
        "greet after r0001: none of 3 jobs to run, 2 deferred by --target Job:Greet[0], 1 up to date"
    )
    assert flow.plan(at="r0001").to_bytes() == (lab.run_folder("r0001") / "plan.json").read_bytes()
    assert flow.plan(assume="Input:Word=bye").totals["planned"] == 3


def test_the_functions_do_the_same_as_the_handle(lab: Lab) -> None:
    given = {"Names": [Path("names/a.txt")], "Word": "bye"}
    assert whyrun.plan(lab.file, inputs=given).totals["planned"] == 2
    assert whyrun.explain(lab.file, inputs=given).splitlines()[0] == "greet before its first run: 2 of 2 jobs to run"
    assert whyrun.run(lab.file, inputs=given, force="Job:Greet[*]").exit_code == 0
    assert lab.read("out/all.txt") == "bye Ann\n"
    assert whyrun.validate(lab.file, inputs=given) == ()


def test_inputs_from_a_file_and_state_elsewhere(lab: Lab, tmp_path: Path) -> None:
    lab.write({"values.yaml": "Names: [names/b.txt]\n"})
    result = whyrun.run(lab.file, inputs=lab.root / "values.yaml", state=tmp_path / "state")
    assert result.exit_code == 0
    assert lab.read("out/all.txt") == "hello Bob\n"
    assert (tmp_path / "state/greet/runs/r0001/status.json").exists()
    assert not (lab.root / ".whyrun").exists()


def test_a_failed_job_is_a_result_and_not_an_exception(lab: Lab) -> None:
    result = whyrun.run(lab.file, inputs={"Names": ["names/a.txt"], "Word": "fail"})
    assert (result.exit_code, result.state, result.counts.failed, result.counts.blocked) == (1, "failed", 1, 1)


@pytest.mark.parametrize(
    ("inputs", "codes"),
    [
        ({}, ["INPUT_MISSING"]),
        ({"Names": ["names/z.txt"]}, ["INPUT_MISSING"]),
        ({"Names": "names/*.txt", "Word": 3}, ["INPUT_TYPE"]),
        ({"Nmaes": "names/*.txt"}, ["INPUT_UNKNOWN", "INPUT_MISSING"]),
    ],
)
def test_wrong_inputs_are_refused_and_validate_lists_them(
    lab: Lab, inputs: dict[str, object], codes: list[str]
) -> None:
    flow = whyrun.load(lab.file, inputs=inputs)
    with pytest.raises(whyrun.InvalidError) as caught:
        flow.plan()
    assert [d.code for d in caught.value.diagnostics] == codes
    assert [d.code for d in whyrun.validate(lab.file, inputs=inputs)] == codes


TYPED = """\
workflow: typed
inputs: {S: {type: string, default: s}, N: {type: number, default: 1}, J: {type: json, default: {}}}
jobs:
  A:
    uses: shell
    with: {s: "${{ inputs.S }}", n: "${{ inputs.N }}", j: "${{ inputs.J }}", run: 'echo "$s $n $j" > "$out_O"'}
    outputs: {O: {type: text}}
"""


class Word(str):
    pass


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


def nested(levels: int) -> object:
    value: list[object] = []
    for _ in range(levels - 1):
        value = [value]
    return value


NO_TEXT = "a text in it is not UTF-8 (half of a surrogate pair)"
BITS = "it holds a whole number of more than 63 bits (give it as a text)"


@pytest.mark.parametrize(
    ("name", "value", "message", "hint"),
    [
        ("S", "\ud800", NO_TEXT, "for example `cinema`"),
        ("J", {"a": ["\udcff"]}, NO_TEXT, 'for example `{"a": 1}`'),
        ("J", {"\ud800": 1}, NO_TEXT, 'for example `{"a": 1}`'),
        ("J", nested(66), "it nests deeper than 64 levels", 'for example `{"a": 1}`'),
        ("J", nested(500), "it nests deeper than 64 levels", 'for example `{"a": 1}`'),
        ("J", nested(100_000), "it nests deeper than 64 levels", 'for example `{"a": 1}`'),
        ("J", [2**63], BITS, 'for example `{"a": 1}`'),
        ("N", -(2**63), BITS, "for example `0.5`"),
    ],
    ids=["half a character", "in a list", "a key", "66 levels", "500 levels", "100,000 levels", "63 bits", "negative"],
)
def test_values_that_no_log_can_hold_are_refused(
    project: Callable[..., Lab], name: str, value: object, message: str, hint: str
) -> None:
    lab = project(TYPED)
    with pytest.raises(whyrun.InvalidError) as refused:
        whyrun.run(lab.file, inputs={name: value})
    assert [(d.code, d.message, d.hint) for d in refused.value.diagnostics] == [
        ("INPUT_TYPE", f"input `{name}`: {message}", hint)
    ]


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        ({"S": Word("w")}, {"S": "w"}),
        ({"S": Colour.RED, "N": Level.HIGH}, {"S": "red", "N": 3}),
        ({"J": {Word("k"): (Word("v"), Colour.RED, True, None, 1.5)}}, {"J": {"k": ["v", "red", True, None, 1.5]}}),
        ({"J": nested(65)}, {"J": nested(65)}),
    ],
    ids=["a class of one's own", "enums", "in a dict", "65 levels"],
)
def test_subclasses_are_the_texts_and_numbers_that_they_are(
    project: Callable[..., Lab], given: dict[str, object], plain: dict[str, object]
) -> None:
    lab = project(TYPED)
    assert whyrun.run(lab.file, inputs=given).exit_code == 0
    assert whyrun.plan(lab.file, inputs=plain).headlines() == {}
    assert whyrun.plan(lab.file, inputs=given).headlines() == {}


def test_a_file_that_is_wrong_or_absent_is_refused_by_load(lab: Lab) -> None:
    with pytest.raises(whyrun.InvalidError) as caught:
        whyrun.load(lab.root / "nope.yaml")
    assert [d.code for d in caught.value.diagnostics] == ["FILE_MISSING"]
    lab.edit("workflow.yaml", "inputs.Word", "inputs.Wrod")
    with pytest.raises(whyrun.InvalidError) as caught:
        whyrun.load(lab.file)
    assert [d.code for d in caught.value.diagnostics] == ["UNKNOWN_REFERENCE"]
    assert [d.code for d in whyrun.validate(lab.root / "nope.yaml")] == ["FILE_MISSING"]


def test_a_run_in_a_thread_as_notebooks_do_it(lab: Lab) -> None:
    results: list[whyrun.RunResult] = []
    flow = whyrun.load(lab.file, inputs={"Names": "names/*.txt"})
    thread = threading.Thread(target=lambda: results.append(flow.run()))
    thread.start()
    thread.join(300)
    assert [result.exit_code for result in results] == [0]


def test_lines_go_to_stderr_when_they_are_wanted(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    flow = whyrun.load(lab.file, inputs={"Names": ["names/a.txt"]})
    flow.run()
    assert capsys.readouterr() == ("", "")
    flow.run(force="Job:All", logger=whyrun.WorkflowLogger())
    told = capsys.readouterr()
    assert told.out == ""
    assert [line.split(" ", 2)[2].split(" in ")[0] for line in told.err.splitlines()] == ["[shell] EXECUTES Job:All"]


def test_every_public_name_is_there_and_no_other() -> None:
    for name in whyrun.__all__:
        assert getattr(whyrun, name) is not None
    with pytest.raises(AttributeError, match="module 'whyrun' has no attribute 'nope'"):
        whyrun.nope  # noqa: B018
