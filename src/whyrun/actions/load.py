"""Actions made callable, in the worker. Here, and only here, is the user's code imported."""

from __future__ import annotations

import importlib
import inspect
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whyrun.actions.base import MARK, Action, FunctionFacts, call_function, call_plan, plain
from whyrun.actions.builtin import BUILTIN
from whyrun.actions.discovery import ACTIONS_FOLDER

# A package of its own for the project's actions, so that `actions/json.py` hides nobody's `json`.
PACKAGE = "_whyrun_project_actions"

Call = Callable[[dict[str, Any], Any, Any], Any]  # (parameters, context, logger) → {output: value} or None


@dataclass(frozen=True, slots=True)
class LoadedAction:
    call: Call
    outputs: Mapping[str, str]  # what the action may return beyond what the job declares


class ActionNotFound(Exception):
    """The worker does not find the action that the host planned with."""


def load_action(uses: str, project: Path) -> LoadedAction:
    if uses in BUILTIN:
        module = importlib.import_module(f"whyrun.actions.builtin.{uses}")
        return LoadedAction(module.run, {})
    from whyrun.actions.registry import resolve_action  # reads files, so only for actions that are not built in

    info = resolve_action(uses, project)
    if info.origin == "project":
        assert info.path is not None
        assert info.attribute is not None
        target = getattr(_project_module(project, Path(info.path).stem), info.attribute)
    else:
        assert info.path is not None
        module_name, _, attribute = info.path.partition(":")
        target = getattr(importlib.import_module(module_name), attribute)
    return loaded(uses, target)


def loaded(uses: str, target: Any) -> LoadedAction:
    facts = getattr(target, MARK, None)
    if isinstance(facts, FunctionFacts):
        plan = call_plan(target)
        return LoadedAction(
            lambda parameters, context, logger: call_function(target, plan, parameters, context, logger), facts.outputs
        )
    if isinstance(target, type) and issubclass(target, Action):
        return LoadedAction(_class_call(target), target.outputs)
    raise ActionNotFound(f"`{uses}` is neither a function with @action nor a subclass of Action")


def _class_call(cls: type[Action]) -> Call:
    parameters_of_run = inspect.signature(cls.run).parameters
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters_of_run.values())

    def call(parameters: dict[str, Any], context: Any, logger: Any) -> Any:
        offered = {"mode": "run", "context": context, "logger": logger}
        taken = {name: value for name, value in offered.items() if open_ended or name in parameters_of_run}
        return cls().run(plain(parameters), **taken)  # a fresh instance for every step

    return call


def _project_module(project: Path, name: str) -> types.ModuleType:
    if PACKAGE not in sys.modules:
        package = types.ModuleType(PACKAGE)
        package.__path__ = [str(project / ACTIONS_FOLDER)]
        sys.modules[PACKAGE] = package
    return importlib.import_module(f"{PACKAGE}.{name}")
