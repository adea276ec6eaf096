"""`class Params(Parameters)`: every problem of a block at once, in words that say what it takes."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from problem_lab import plain

from whyrun import Directory, File, FileOrDirectory, Meta, Parameters
from whyrun.actions.base import TextFile
from whyrun.actions.parameters import InvalidParameter, check_values, converted
from whyrun.actions.problem import Bound, Problem, parameter_summary
from whyrun.actions.types import accepts, type_text


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Params(Parameters):
    data: File
    algorithm: Literal["pc", "hc"] = "pc"
    alpha: Annotated[float, Meta(gt=0, lt=1)] = 0.05
    seeds: list[Annotated[int, Meta(ge=0)]] = []  # noqa: RUF012  # msgspec copies it
    model: File | None = None


class Ordered(Parameters):
    low: int
    high: int = 10

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError("`low` is above `high`")


class Later(Parameters):
    size: int = 1
    name: str  # a required one may follow one with a default: they are given by name


class Heir(Later):
    colour: Colour


def check(given: dict[str, Any], params: type[Parameters] = Params) -> list[Problem]:
    return plain(check_values(params, given, "the action `learn`"))


def test_a_block_that_fits_has_no_problems() -> None:
    assert check({"data": Bound("file"), "algorithm": "hc", "alpha": 0.2, "seeds": [1, 2], "model": None}) == []
    assert check({"data": Bound(), "alpha": Bound("number"), "seeds": Bound("integer[]")}) == []


def test_every_problem_is_told_not_only_the_first() -> None:
    given = {"algoritm": "hc", "algorithm": "xx", "alpha": -0.1, "seeds": [1, -2], "model": "model.bin"}
    problems = check(given)
    assert problems == [
        Problem(None, "the action `learn` needs the parameter `data`", "add `data:` to `with:`"),
        Problem(
            "algoritm", "the action `learn` has no parameter `algoritm`", "did you mean `algorithm`?", at_name=True
        ),
        Problem("algorithm", '`algorithm` is "xx"; it takes one of "hc", "pc"', "correct `algorithm:`"),
        Problem("alpha", "`alpha` is -0.1; it takes a number > 0 and < 1", "correct `alpha:`"),
        Problem("seeds", "`seeds[1]` is -2; it takes an integer ≥ 0", "correct `seeds[1]`", inner="[1]"),
        Problem(
            "model",
            '`model` is the text "model.bin", not a bound file or folder; it takes a file or null',
            "declare an input of type `file` and write `model: ${{ inputs.Name }}`: its content counts",
        ),
    ]
    assert parameter_summary(problems) == (
        'missing required: data, invalid: algorithm="xx", alpha=-0.1, seeds[1]=-2, model="model.bin", unknown: algoritm'
    )


def test_the_summary_is_the_line_of_the_contract() -> None:
    class Learn(Parameters):
        data_path: str
        alpha: Annotated[float, Meta(gt=0)]

    assert parameter_summary(check({"alpha": -0.1}, Learn)) == "missing required: data_path, invalid: alpha=-0.1"
    assert parameter_summary([Problem("run", "`shell` needs `run:`")]) == "`shell` needs `run:`"
    assert parameter_summary([]) == ""


def test_what_is_bound_is_checked_by_its_type() -> None:
    problems = check({"data": Bound("directory"), "alpha": Bound("string"), "seeds": Bound("image[]")})
    assert [(p.entry, p.message) for p in problems] == [
        ("data", "`data` is bound to something of type `directory`; it takes a file"),
        ("alpha", "`alpha` is bound to something of type `string`; it takes a number > 0 and < 1"),
        ("seeds", "`seeds` is bound to something of type `image[]`; it takes a list, each an integer ≥ 0"),
    ]


def test_values_that_fit_one_by_one_may_still_contradict_each_other() -> None:
    assert [p.message for p in check({"low": 11}, Ordered)] == ["`low` is above `high`"]
    assert check({"low": 11, "high": Bound("integer")}, Ordered) == [], "not known yet: said when the step starts"
    with pytest.raises(InvalidParameter, match="`low` is above `high`"):
        converted(Ordered, {"low": 11}, "learn")


def test_fields_are_given_by_name_in_any_order_and_may_be_inherited() -> None:
    assert [p.message for p in check({"size": 2, "colour": "green"}, Heir)] == [
        "the action `learn` needs the parameter `name`",
        '`colour` is "green"; it takes one of "red", "blue"',
    ]
    params = converted(Heir, {"colour": "red", "name": "x"}, "learn")
    assert params == Heir(size=1, name="x", colour=Colour.RED)


def test_a_step_gets_typed_values_with_defaults(tmp_path: Path) -> None:
    file = tmp_path / "data.csv"
    file.write_text("a\n")
    params = converted(Params, {"data": file, "alpha": 0.5}, "learn")
    assert params == Params(data=File(file), alpha=0.5)
    assert isinstance(params, Params)
    assert isinstance(params.data, Path)
    assert params.data.read_text() == "a\n"


def test_a_step_is_refused_with_all_that_does_not_fit(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter) as refused:
        converted(Params, {"data": tmp_path, "alpha": 7, "beta": 1}, "learn")
    assert str(refused.value) == (
        f"`data` is {tmp_path.name}: there is no such file; it takes a file; "
        "`alpha` is 7; it takes a number > 0 and < 1; "
        "the action `learn` has no parameter `beta`"
    )


def test_a_text_file_arrives_as_its_content_where_a_text_is_asked_for(tmp_path: Path) -> None:
    class Texts(Parameters):
        content: str
        path: File

    file = tmp_path / "t.txt"
    file.write_text("hello")
    params = converted(Texts, {"content": TextFile(file), "path": TextFile(file)}, "x")
    assert params == Texts(content="hello", path=File(file))


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (int, "an integer"),
        (float, "a number"),
        (bool, "true or false"),
        (str, "a text"),
        (Annotated[str, Meta(min_length=2, pattern="^a")], "a text of at least 2 characters that matches `^a`"),
        (Annotated[str, Meta(min_length=2, max_length=2)], "a text of 2 characters"),
        (Annotated[int, Meta(multiple_of=5, le=50)], "an integer ≤ 50 and a multiple of 5"),
        (Colour, 'one of "red", "blue"'),
        (list, "a list"),
        (Annotated[list[str], Meta(max_length=3)], "a list of 0 to 3 members, each a text"),
        (tuple[int, str], "a list of an integer, a text"),
        (dict[str, int], "a mapping"),
        (File, "a file"),
        (Directory, "a directory"),
        (FileOrDirectory, "a file or directory"),
        (Path, "a path"),
        (int | None, "an integer or null"),
        (Any, "any value"),
    ],
    ids=str,
)
def test_types_are_told_in_words(type_: Any, text: str) -> None:
    assert type_text(type_) == text


@pytest.mark.parametrize(
    ("type_", "fits", "refused"),
    [
        (File, "file image text dataset", "directory string integer file[]"),
        (Directory, "directory", "file string"),
        (FileOrDirectory, "file directory", "string"),
        (str, "string text json", "integer boolean file string[]"),
        (int, "integer number json", "string boolean file"),
        (float, "integer number", "string"),
        (bool, "boolean", "string integer"),
        (list[File], "file[] image[]", "file directory[]"),
        (list[list[int]], "integer[][]", "integer[]"),
        (File | None, "file", "string"),
        (Any, "file string[] directory json", ""),
    ],
    ids=str,
)
def test_what_may_be_bound_to_a_type(type_: Any, fits: str, refused: str) -> None:
    assert [bound for bound in f"{fits} {refused}".split() if accepts(type_, bound)] == fits.split()
