"""Which action a name means, without importing anything, and whether a `with:` block fits."""

from __future__ import annotations

from pathlib import Path

import pytest
from problem_lab import plain

from whyrun.actions.problem import NOT_LITERAL, Problem
from whyrun.actions.registry.registry import check_parameters, resolve_action
from whyrun.errors import InvalidError

ACTIONS = """
import whyrun
from whyrun import Action as Base, action
raise RuntimeError("planning imports no user code")

@action("text/upper", outputs={"text": "text"}, version="3", deterministic=True)
def upper(text: str, *, times=1, context): ...

@whyrun.action("any")
def anything(**more): ...

@action("na" + "me")
def computed(): ...

class Learn(Base):
    name, version = "learn", "1.2"
    outputs = {"graph": "file"}

class Better(Learn):
    name: str = "learn/better"

class Abstract(Base):
    pass
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "actions").mkdir()
    (tmp_path / "actions" / "mine.py").write_text(ACTIONS)
    (tmp_path / "story.py").write_text(
        "from other import borrowed\ndef write(topic, segments=3, *, context): ...\nif True:\n    def late(): ...\n"
    )
    return tmp_path


def test_project_actions_are_found_by_reading(project: Path) -> None:
    upper = resolve_action("text/upper", project)
    assert (upper.origin, upper.path, upper.attribute, upper.version) == ("project", "actions/mine.py", "upper", "3")
    assert (upper.outputs, upper.deterministic) == ({"text": "text"}, True)
    assert resolve_action("learn", project).version == "1.2"
    assert resolve_action("learn/better", project).attribute == "Better"
    assert resolve_action("shell", project).origin == "builtin"


def test_an_unknown_action_is_refused_with_the_available_ones_nearest_first(project: Path) -> None:
    with pytest.raises(InvalidError) as refused:
        resolve_action("text/uper", project)
    (diagnostic,) = refused.value.diagnostics
    assert (diagnostic.code, diagnostic.message) == ("INVALID_USES", "there is no action `text/uper`")
    assert diagnostic.hint is not None
    assert diagnostic.hint.startswith("available, nearest first: `text/upper`, ")
    for name in ("any", "learn", "learn/better", "python", "shell"):
        assert f"`{name}`" in diagnostic.hint


def test_a_broken_file_stops_only_workflows_that_use_it(project: Path) -> None:
    (project / "actions" / "broken.py").write_text('@action("mine/broken")\ndef f(:\n')
    assert resolve_action("text/upper", project).name == "text/upper"
    with pytest.raises(InvalidError, match=r"`mine/broken` cannot be read: actions/broken.py:2: "):
        resolve_action("mine/broken", project)


def test_one_name_for_two_actions_is_refused(project: Path) -> None:
    (project / "actions" / "more.py").write_text('from whyrun import action\n@action("any")\ndef f(): ...\n')
    with pytest.raises(InvalidError, match=r"`any` is defined in `actions/mine\.py` and `actions/more\.py`"):
        resolve_action("any", project)


def problems(uses: str, with_: dict[str, object], outputs: dict[str, str], project: Path) -> list[Problem]:
    return plain(check_parameters(resolve_action(uses, project), with_, outputs, project))


def test_parameters_of_function_actions_are_checked_by_their_signature(project: Path) -> None:
    assert problems("text/upper", {"text": NOT_LITERAL, "times": 2}, {"text": "text"}, project) == []
    assert problems("any", {"whatever": 1}, {}, project) == []
    assert problems("text/upper", {"txt": 1, "context": 2}, {"txet": "text"}, project) == [
        Problem(None, "the action `text/upper` needs the parameter `text`", "add `text:` to `with:`"),
        Problem("txt", "the action `text/upper` has no parameter `txt`", "did you mean `text`?", at_name=True),
        Problem(
            "context",
            "the worker passes `context` to the action `text/upper`",
            "remove it from `with:`",
            at_name=True,
        ),
        Problem("outputs.txet", "the action `text/upper` has no output `txet`", "its outputs: `text`"),
    ]


@pytest.mark.parametrize(
    ("with_", "messages"),
    [
        ({"call": "story:write", "topic": NOT_LITERAL}, []),
        ({"call": "story:borrowed", "x": 1}, []),
        ({"call": "story:late"}, []),
        ({"call": "story:write"}, ["`story:write` needs the parameter `topic`"]),
        ({"call": "story:write", "topic": 1, "topik": 2}, ["`story:write` has no parameter `topik`"]),
        ({"call": "story:wrte"}, ["`story.py` does not define `wrte`"]),
        ({"call": "nowhere:f"}, ["the project has no module `nowhere`"]),
        ({"call": "story"}, ["`call: story` is not `module:function`"]),
        ({"call": NOT_LITERAL}, ["`call:` must be a plain text"]),
        ({}, ["`python` needs `call:` or `script:`"]),
        ({"call": "story:write", "script": "s.py"}, ["`python` has both `call:` and `script:`"]),
        ({"script": "none.py"}, ["there is no file `none.py`"]),
        ({"script": "../x.py"}, ["`script: ../x.py` leaves the project folder"]),
        ({"script": "story.py", "anything": 1}, []),
    ],
)
def test_python_steps_are_checked_without_running_them(
    project: Path, with_: dict[str, object], messages: list[str]
) -> None:
    assert [problem.message for problem in problems("python", with_, {}, project)] == messages


@pytest.mark.parametrize(
    ("with_", "found"),
    [
        ({"run": "echo hi", "name": 1, "shell": "sh"}, []),
        ({}, [("INVALID_PARAMETER", "`shell` needs `run:`")]),
        ({"run": NOT_LITERAL}, [("EXPRESSION_FORBIDDEN", "`run:` must be a plain script, without `${{ }}`")]),
        ({"run": " "}, [("INVALID_PARAMETER", "`run:` must be a text with commands")]),
        (
            {"run": "x", "a-b": 1, "PATH": 2, "out_Image": 3},
            [
                ("INVALID_PARAMETER", "`a-b` cannot be the name of a shell variable"),
                (
                    "INVALID_PARAMETER",
                    "`PATH` is a variable of the shell itself, which would replace the value or obey it",
                ),
                ("INVALID_PARAMETER", "`out_Image` is taken"),
            ],
        ),
    ],
)
def test_shell_steps_are_checked(project: Path, with_: dict[str, object], found: list[tuple[str, str]]) -> None:
    result = problems("shell", with_, {"Image": "image"}, project)
    assert [(problem.code, problem.message) for problem in result] == found
