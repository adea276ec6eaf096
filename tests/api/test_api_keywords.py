"""The functions of the module take the keywords of the methods. A keyword stands in a method and in a TypedDict: here
each is held to the other."""

from __future__ import annotations

import ast
import inspect
import runpy
import typing
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, get_args
from unittest.mock import patch

import pytest

from whyrun import api
from whyrun.api import LoadedWorkflow

for node in ast.walk(ast.parse(Path(api.__file__).read_text())):
    if isinstance(node, ast.ImportFrom) and node.module is not None:
        import_module(node.module)  # now, or it would import what only type checkers need, such as pandas
with patch.object(typing, "TYPE_CHECKING", True):  # the TypedDicts exist for type checkers only
    CHECKED = runpy.run_path(api.__file__)
PlanArguments, RunArguments, CompareArguments, ExecutionArguments = (
    CHECKED[f"{name}Arguments"] for name in ("Plan", "Run", "Compare", "Execution")
)
PAIRS = [
    (LoadedWorkflow.plan, PlanArguments),
    (LoadedWorkflow.explain, PlanArguments),
    (LoadedWorkflow.run, RunArguments),
    (LoadedWorkflow.compare, CompareArguments),
]
OF_LOAD = {"inputs": "Inputs", "state": "PathLike | None", "manifest": "PathLike | None"}


def keywords(function: Callable[..., Any]) -> dict[str, str]:
    """The types of its keywords, as written; those in `**options` come from their TypedDict."""
    found = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY:
            found[name] = parameter.annotation
        elif parameter.kind is parameter.VAR_KEYWORD:
            (unpacked,) = get_args(eval(parameter.annotation, CHECKED))
            found |= entries(unpacked)
    return found


def entries(arguments: type) -> dict[str, str]:
    return {name: reference.__forward_arg__ for name, reference in arguments.__annotations__.items()}


@pytest.mark.parametrize(("method", "arguments"), PAIRS, ids=lambda each: each.__name__)
def test_the_keywords_of_a_method_are_those_of_its_typed_dict(method: Callable[..., Any], arguments: type) -> None:
    assert keywords(method) == entries(arguments)


@pytest.mark.parametrize(("method", "arguments"), PAIRS, ids=lambda each: each.__name__)
def test_the_function_takes_the_keywords_of_the_method_and_of_load(method: Callable[..., Any], arguments: type) -> None:
    function = getattr(api, method.__name__)
    assert inspect.signature(function).parameters["options"].annotation == f"Unpack[{arguments.__name__}]"
    assert keywords(function) == {**OF_LOAD, **keywords(method)}
    assert keywords(api.load) == OF_LOAD


def test_what_run_and_compare_share_is_written_once() -> None:
    shared = keywords(LoadedWorkflow.run).items() & keywords(LoadedWorkflow.compare).items()
    assert dict(shared) == entries(ExecutionArguments)
