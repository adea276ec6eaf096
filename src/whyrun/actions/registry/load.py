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

from whyrun.actions.base import MARK, Action, Comparer, FunctionFacts, call_function, call_plan, plain
from whyrun.actions.builtin import BUILTIN
from whyrun.actions.discovery import ACTIONS_FOLDER

# A package of its own for the project's actions, so that `actions/json.py` hides nobody's `json`.
PACKAGE = "_whyrun_project_actions"

Call = Callable[[dict[str, Any], Any, Any], Any]  # (parameters, context, logger) → {output: value} or None


@dataclass(frozen=True, slots=True)
class LoadedAction:
    call: Call
    outputs: Mapping[str, str]  # what the action may return beyond what the job declares
    compare: Comparer | None = None  # its own comparer


class ActionNotFound(Exception):
    """The worker does not find the action that the host planned with."""


def load_action(uses: str, project: Path) -> LoadedAction:
    builtin = BUILTIN.get(uses)
    if builtin is not None and not builtin.is_class:
        return LoadedAction(builtin.load().run, {})
    return loaded(uses, builtin.load() if builtin is not None else import_action(uses, project))


def project_entry(uses: str, with_: Mapping[str, Any], project: Path) -> tuple[Path, bool] | None:
    """The file of the project that such a step begins with, and whether it is imported by its name. None: none."""
    from whyrun.actions.registry import find_action

    if uses == "python":
        from whyrun.actions.builtin.python import entry_file

        return entry_file(with_, project), "call" in with_
    info = find_action(uses, project)
    return (project / info.path, False) if info.origin == "project" and info.path is not None else None


def import_action(uses: str, project: Path) -> Any:
    """The function or class of the project or of a plugin."""
    from whyrun.actions.registry import find_action  # reads files, so only for actions that are not built in

    info = find_action(uses, project)
    assert info.path is not None
    return import_found(info.origin, info.path, info.attribute or "", project)


def import_found(origin: str, path: str, attribute: str, project: Path) -> Any:
    """A file of the project and a name in it, or `package.module:attribute` as an entry point names it."""
    if origin == "project":
        return getattr(_project_module(project, Path(path).stem), attribute)
    module_name, _, attribute = path.partition(":")
    target: Any = importlib.import_module(module_name)
    for name in attribute.split(".") if attribute else ():
        target = getattr(target, name)
    return target


def loaded(uses: str, target: Any) -> LoadedAction:
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
        taken = {name: value for name, value in offered.items() if open_ended or name in parameters_of_run}
        instance, inputs = prepared(uses, cls, parameters)
        return instance.run(inputs, **taken)

    return call


def prepared(
    uses: str, cls: type[Action], parameters: dict[str, Any], *, partial: bool = False, made: bool = True
) -> tuple[Action, dict[str, Any]]:
    """A fresh instance, and its `inputs`: typed and with defaults where the class has `Params`.

    `partial`: not everything is known yet, as when a runtime is estimated. What is known is handed over as it is, with
    the defaults of the rest. `made`: the files are there already.
    """
    from whyrun.actions.describe import params_of

    instance = cls()
    params = params_of(cls)
    if params is None:
        return instance, dict(plain(parameters))
    from whyrun.actions.parameters import converted, defaults_of, fields_of

    if partial:
        return instance, {**defaults_of(params), **plain(parameters)}
    instance.params = converted(params, parameters, uses, made=made)
    return instance, {name: getattr(instance.params, field.name) for name, field in fields_of(params).items()}


def _project_module(project: Path, name: str) -> types.ModuleType:
    if PACKAGE not in sys.modules:
        package = types.ModuleType(PACKAGE)
        package.__path__ = [str(project / ACTIONS_FOLDER)]
        sys.modules[PACKAGE] = package
    return importlib.import_module(f"{PACKAGE}.{name}")


def forget_project_code() -> None:
    """As if this process had not imported anything of the project yet."""
    from whyrun.actions.builtin.python import forget_functions
    from whyrun.actions.from_source import take_project_modules

    forget_functions()
    take_project_modules()
