"""Values of inputs: where they come from, whether they fit, and their elements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from whyrun.errors import InvalidError
from whyrun.graph.inputs import lookup
from whyrun.workflow.inputs import IndexProblem, InputValue, element, known_inputs
from whyrun.workflow.model import Type, Workflow
from whyrun.workflow.parsing.parse import parse_workflow

TEXT = """\
workflow: w
inputs:
  Topic: {type: string, default: cinema}
  N: {type: integer}
  Rate: {type: number, default: 1}
  On: {type: boolean, default: false}
  Config: {type: json, required: false}
  Photo: {type: image, default: a.png}
  Photos: {type: "image[]", default: photos/*.png}
  Grid: {type: "integer[][]", default: [[1, 2], [3]]}
jobs: {}
"""
DEFAULTS: dict[str, Any] = {
    "Topic": "cinema",
    "Rate": 1,
    "On": False,
    "Config": None,
    "Photo": "a.png",
    "Photos": "photos/*.png",
    "Grid": [[1, 2], [3]],
}


@pytest.fixture
def workflow() -> Workflow:
    return parse_workflow("w.yaml", {"w.yaml": TEXT}.__getitem__)


def collected(workflow: Workflow, file: Path | None, sets: list[str]) -> dict[str, Any]:
    values, problems = known_inputs(workflow, file, sets)
    if problems:
        raise InvalidError(problems)
    return values


def test_later_sources_win(workflow: Workflow, tmp_path: Path) -> None:
    file = tmp_path / "inputs.yaml"
    file.write_text("Topic: no\nN: 4\nConfig: {a: [1, null]}\n")
    assert collected(workflow, None, ["N=1"]) == {**DEFAULTS, "N": 1}
    assert collected(workflow, file, []) == {**DEFAULTS, "Topic": "no", "N": 4, "Config": {"a": [1, None]}}
    assert collected(workflow, file, ["N=5", "N=6"])["N"] == 6
    assert list(collected(workflow, file, [])) == list(workflow.inputs)


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("Topic=3", "3"),
        ("Topic=", ""),
        ("Topic=a=b", "a=b"),
        ("N=0x10", 16),
        ("Rate=0.5", 0.5),
        ("Rate=2", 2),
        ("On=true", True),
        ('Config={"a": [1]}', {"a": [1]}),
        ("Config=text", "text"),
        ("Photo=b c.png", "b c.png"),
        ("Photos=in/*.jpg", "in/*.jpg"),
        ("Photos=[a.png, b.png]", ["a.png", "b.png"]),
        ("Grid=[[1],[2,3]]", [[1], [2, 3]]),
        ("Grid=[]", []),
        ("Config=null", None),
    ],
)
def test_set_reads_the_text_by_the_declared_type(workflow: Workflow, entry: str, value: Any) -> None:
    found = collected(workflow, None, ["N=1", entry])[entry.partition("=")[0]]
    assert (type(found), found) == (type(value), value)


def test_all_problems_are_reported_at_once(workflow: Workflow, tmp_path: Path) -> None:
    file = tmp_path / "inputs.yaml"
    file.write_text("Topik: x\nRate: fast\nGrid: [[1, true]]\nPhotos: [1]\n")
    with pytest.raises(InvalidError) as caught:
        collected(workflow, file, ["On=yes", "Nope=1", "Topic", "Config=[", "Grid=7"])
    assert (
        str(caught.value)
        == f"""\
error[INPUT_UNKNOWN] {file}:1:1: the workflow has no input `Topik`
    1 | Topik: x
      | ^^^^^
   hint: did you mean `Topic`?
error[INPUT_TYPE] {file}:2:7: input `Rate`: `number` is expected, not a string
    2 | Rate: fast
      |       ^^^^
   hint: for example `0.5`
error[INPUT_TYPE] {file}:3:7: input `Grid`: [0][1]: `integer` is expected, not the boolean `true`
    3 | Grid: [[1, true]]
      |       ^^^^^^^^^^^
   hint: for example `[[3]]`
error[INPUT_TYPE] {file}:4:9: input `Photos`: [0]: `image` is given as a path, not the number `1`
    4 | Photos: [1]
      |         ^^^
   hint: for example `["photos/a.png"]` or a pattern: `photos/*.png`
error[INPUT_TYPE]: `--set On`: `boolean` is expected, not a string
   hint: for example `true`
error[INPUT_UNKNOWN]: `--set Nope`: the workflow has no input `Nope`
   hint: known: `Topic`, `N`, `Rate`, `On`, `Config`, `Photo`, `Photos`, `Grid`
error[USAGE]: `--set Topic` has no value
   hint: write `--set Name=value`
error[INPUT_TYPE]: `--set Config`: did not find expected node content while parsing a flow node
   hint: for example `{{"a": 1}}`
error[INPUT_TYPE]: `--set Grid`: `integer[][]` needs a list, not the number `7`
   hint: for example `[[3]]`
error[INPUT_MISSING] w.yaml:4:3: the input `N` (integer) has no value
    4 |   N: {{type: integer}}
      |   ^
   hint: give it with `--set N=…` or in a file with `--inputs FILE.yaml`"""
    )


def test_a_missing_inputs_file_is_named(workflow: Workflow, tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match=r"error\[FILE_MISSING\] .*none\.yaml: the inputs file cannot be read"):
        collected(workflow, tmp_path / "none.yaml", [])


def scalar(value: int) -> InputValue:
    return InputValue(Type("integer"), value, f"sha-{value}", None, None)


def array(*members: InputValue) -> InputValue:
    declared = Type("integer", members[0].type.depth + 1)
    return InputValue(declared, [m.value for m in members], "sha", members, None)


GRID = array(array(scalar(1), scalar(2)), array(scalar(3)))


def test_elements_are_found_by_position_at_any_depth() -> None:
    assert element(GRID, []) is GRID
    assert element(GRID, [1]).value == [3]
    assert element(GRID, [0, 1]).value == 2


@pytest.mark.parametrize(
    ("indices", "code"),
    [
        ([2], "INDEX_OUT_OF_RANGE"),
        ([1, 1], "INDEX_OUT_OF_RANGE"),
        ([0, 0, 0], "INDEX_PARENT_NOT_ARRAY"),
        ([-1], "INDEX_FORMAT_INVALID"),
        ([True], "INDEX_FORMAT_INVALID"),
        (["asia"], "INDEX_FORMAT_INVALID"),
        ([0.0], "INDEX_FORMAT_INVALID"),
    ],
)
def test_a_wrong_index_has_its_own_error(indices: list[Any], code: str) -> None:
    with pytest.raises(IndexProblem) as caught:
        element(GRID, indices)
    assert caught.value.code == code


def test_lookup_takes_the_exact_id_before_the_parent() -> None:
    own = scalar(99)
    inputs = {"Input:Grid": GRID, "Input:Grid[1][0]": own, "Input:Intro/N": scalar(5)}
    assert lookup(inputs, "Input:Grid") is GRID
    assert lookup(inputs, "Input:Grid[1][0]") is own
    assert lookup(inputs, "Input:Grid[0][1]").value == 2
    assert lookup(inputs, "Input:Intro/N").value == 5
    for text, code in {
        "Input:Grod[0]": "INDEX_PARENT_MISSING",
        "Input:N": "INDEX_PARENT_MISSING",
        "Input:Intro/N[0]": "INDEX_PARENT_NOT_ARRAY",
        "Input:Grid[7]": "INDEX_OUT_OF_RANGE",
        "Input:Grid[asia]": "INDEX_FORMAT_INVALID",
    }.items():
        with pytest.raises(IndexProblem) as caught:
            lookup(inputs, text)
        assert (caught.value.code, text in caught.value.message) == (code, True)
