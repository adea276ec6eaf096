"""Makes an action callable in the worker. Imports the user's code."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whyrun.actions.base import MARK, Action, Comparer, FunctionFacts, call_function, call_plan
from whyrun.actions.builtin import BUILTIN
from whyrun.actions.code.action_import import import_target, prepare_instance

Call = Callable[[dict[str, Any], Any, Any], Any]  # (parameters, context, logger) → {output: value} or None


@dataclass(frozen=True, slots=True)
class LoadedAction:
    call: Call
    outputs: Mapping[str, str]  # outputs that the action may return in addition to those that the job declares
    compare: Comparer | None = None  # the action's own comparer


class ActionNotFound(Exception):
    """The worker cannot find the action that the host planned with."""


def load_action(uses: str, project: Path) -> LoadedAction:
    builtin = BUILTIN.get(uses)
    if builtin is not None and not builtin.is_class:
        return LoadedAction(builtin.load().run, {})
    return _callable_action(uses, builtin.load() if builtin is not None else _import_action(uses, project))


def project_entry(uses: str, with_: Mapping[str, Any], project: Path) -> tuple[Path, bool] | None:
    """The project file that this step starts from, and whether it is imported by its module name.

    None: the step runs no code of the project.
    """
    from whyrun.actions.registry.registry import find_action

    if uses == "python":
        from whyrun.actions.builtin.python import entry_file

        return entry_file(with_, project), "call" in with_
    info = find_action(uses, project)
    return (project / info.path, False) if info.origin == "project" and info.path is not None else None


def _import_action(uses: str, project: Path) -> Any:
    """The function or class of an action of the project or of a plugin."""
    # The registry reads the project's files, so built-in actions do without it.
    from whyrun.actions.registry.registry import find_action

    info = find_action(uses, project)
    assert info.path is not None
    return import_target(info.origin, info.path, info.attribute or "", project)


def _callable_action(uses: str, target: Any) -> LoadedAction:
    facts = getattr(target, MARK, None)
    if isinstance(facts, FunctionFacts):
        plan = call_plan(target)
        return LoadedAction(
            lambda parameters, context, logger: call_function(target, plan, parameters, context, logger),
            facts.outputs,
            facts.compare,
        )
    if isinstance(target, type) and issubclass(target, Action):
        own = None if target.compare is Action.compare else lambda *versions: target().compare(*versions)
        return LoadedAction(_class_call(uses, target), target.outputs or {}, own)
    raise ActionNotFound(f"`{uses}` is neither a function with @action nor a subclass of Action")


def _class_call(uses: str, cls: type[Action]) -> Call:
    parameters_of_run = inspect.signature(cls.run).parameters
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters_of_run.values())

    def call(parameters: dict[str, Any], context: Any, logger: Any) -> Any:
        offered = {"mode": "run", "context": context, "logger": logger}
        accepted = {name: value for name, value in offered.items() if open_ended or name in parameters_of_run}
        instance, inputs = prepare_instance(uses, cls, parameters)
        return instance.run(inputs, **accepted)

    return call


def forget_project_code() -> None:
    """Unload the project's modules, so that the next step imports them afresh."""
    from whyrun.actions.builtin.python import forget_functions
    from whyrun.actions.code.source_loader import remove_project_modules

    forget_functions()
    remove_project_modules()
