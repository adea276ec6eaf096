"""Records inside `Params`: problems with their path, defaults that are safe, and how they are listed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
from problem_lab import plain

from whyrun import Action, File, Meta, Parameters
from whyrun.actions.base import TextFile
from whyrun.actions.description import ParameterInfo, describe
from whyrun.actions.parameters import InvalidParameter, check_values, converted
from whyrun.actions.problem import Bound, Problem, parameter_summary

Duration = Annotated[str, Meta(pattern=r"^\d+s$", title="a duration like `30s`")]
Pointer = Annotated[str, Meta(pattern="^/", title="a pointer like `/id`")]


class Progress(Parameters):
    done: Annotated[str, Meta(description="where it stands")]


class Poll(Parameters):
    id: str
    every: Duration = "2s"
    until: dict[Pointer, int] = {}  # noqa: RUF012  # msgspec copies it
    progress: Progress | None = None
    file: File | None = None

    def __post_init__(self) -> None:
        if self.id == self.every:
            raise ValueError("`id` and `every` are the same")


class Step(Parameters):
    name: str = "x"


class Params(Parameters):
    poll: Poll = Poll(id="/id")
    steps: list[Step] = []  # noqa: RUF012  # msgspec copies it


class Cat(msgspec.Struct, tag="cat", forbid_unknown_fields=True):
    lives: int


class Dog(msgspec.Struct, tag="dog", forbid_unknown_fields=True):
    bites: bool


class Pets(Parameters):
    pet: Cat | Dog


class Ask(Action):
    name = "ask"
    Params = Params

    def run(self, inputs: dict[str, Any]) -> dict[str, Any]:  # type: ignore[override]
        return {}


def check(given: dict[str, Any]) -> list[Problem]:
    return plain(check_values(Params, given, "the action `ask`"))


def test_every_problem_inside_a_record_is_told_with_its_path() -> None:
    poll = {"evry": "1s", "every": "1 s", "until": {"done": 1, "/n": "x"}, "progress": {}, "file": "a.csv"}
    problems = check({"poll": poll, "steps": [{"name": 1}, {"nam": "y"}, "z"]})
    known = "known: `id`, `every`, `until`, `progress`, `file`"
    assert problems == [
        Problem("poll", "`poll` needs `id`", "add `id:` to `poll:`"),
        Problem("poll", "`poll` has no `evry`", f"did you mean `every`? {known}", at_name=True, inner=".evry"),
        Problem(
            "poll", '`poll.every` is "1 s"; it takes a duration like `30s`', "correct `poll.every`", inner=".every"
        ),
        Problem(
            "poll",
            '`poll.until` has the key "done"; a key is a pointer like `/id`',
            "correct the key",
            at_name=True,
            inner=".until.done",
        ),
        Problem(
            "poll",
            '`poll.until["/n"]` is "x"; it takes an integer',
            'correct `poll.until["/n"]`',
            inner='.until["/n"]',
        ),
        Problem("poll", "`poll.progress` needs `done`", "add `done:` to `poll.progress:`", inner=".progress"),
        Problem(
            "poll",
            '`poll.file` is the text "a.csv", not a bound file or folder; it takes a file or null',
            "declare an input of type `file` and write `file: ${{ inputs.Name }}`: its content counts",
            inner=".file",
        ),
        Problem("steps", "`steps[0].name` is 1; it takes a text", "correct `steps[0].name`", inner="[0].name"),
        Problem(
            "steps", "`steps[1]` has no `nam`", "did you mean `name`? known: `name`", at_name=True, inner="[1].nam"
        ),
        Problem("steps", '`steps[2]` is "z"; it takes a mapping', "correct `steps[2]`", inner="[2]"),
    ]
    assert parameter_summary(problems) == (
        'missing required: poll.id, poll.progress.done, invalid: poll.every="1 s", poll.until: "done", '
        'poll.until["/n"]="x", poll.file="a.csv", steps[0].name=1, steps[2]="z", unknown: poll.evry, steps[1].nam'
    )


def test_what_is_bound_inside_a_record_hides_no_mistake_beside_it() -> None:
    problems = check({"poll": {"id": Bound(), "every": Bound("integer"), "evry": 1, "file": Bound("file")}})
    assert [(p.message, p.inner) for p in problems] == [
        ("`poll.every` is bound to something of type `integer`; it takes a duration like `30s`", ".every"),
        ("`poll` has no `evry`", ".evry"),
    ]


def test_a_record_may_refuse_values_that_fit_one_by_one() -> None:
    assert check({"poll": {"id": "2s"}}) == [
        Problem("poll", "`poll` is refused: `id` and `every` are the same", "correct `poll:`")
    ]


def test_of_many_wrong_members_the_first_are_told_and_the_rest_counted() -> None:
    problems = check({"steps": [{"name": i} for i in range(10)]})
    assert [p.message for p in problems] == [
        "`steps[0].name` is 0; it takes a text",
        "`steps[1].name` is 1; it takes a text",
        "`steps[2].name` is 2; it takes a text",
        "`steps` has 7 more members that do not fit",
    ]


def test_a_record_that_can_be_changed_is_a_safe_default() -> None:
    first, second = (converted(Params, {}, "ask") for _ in range(2))
    assert isinstance(first, Params)
    assert isinstance(second, Params)
    first.poll.every = "9s"
    assert (second.poll.every, Params().poll.every) == ("2s", "2s")


def test_a_step_gets_records_with_files_in_them(tmp_path: Path) -> None:
    file = tmp_path / "t.txt"
    file.write_text("/here")
    params = converted(Params, {"poll": {"id": TextFile(file), "file": TextFile(file)}}, "ask")
    assert params == Params(poll=Poll(id="/here", file=File(file)))
    with pytest.raises(InvalidParameter, match=r"^`poll` needs `id`; `poll.every` is 5; it takes a duration"):
        converted(Params, {"poll": {"every": 5}, "steps": []}, "ask")


def test_the_fields_of_a_record_are_described() -> None:
    described = describe(Ask).parameters
    assert described is not None
    poll, steps = described
    assert (steps.name, steps.type, steps.fields) == (
        "steps",
        "a list, each a mapping",
        [ParameterInfo("name", "a text", False, '"x"')],
    )
    assert poll.fields == [
        ParameterInfo("id", "a text", True),
        ParameterInfo("every", "a duration like `30s`", False, '"2s"'),
        ParameterInfo("until", "a mapping", False, "{}"),
        ParameterInfo(
            "progress",
            "a mapping or null",
            False,
            "null",
            "",
            [ParameterInfo("done", "a text", True, "", "where it stands")],
        ),
        ParameterInfo("file", "a file or null", False, "null"),
    ]


def test_a_record_without_a_kind_of_its_own_is_known_by_its_tag() -> None:
    (problem,) = check_values(Pets, {"pet": {"type": "dog", "bites": 3}}, "x")
    assert problem.message == "`pet.bites` is 3; it takes true or false"
