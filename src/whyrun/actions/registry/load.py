"""Makes an action callable in the worker. Imports the user's code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whyrun.actions.base import MARK, Action, Comparer, FunctionFacts, call_function, call_plan
from whyrun.actions.builtin import BUILTIN
from whyrun.actions.code.action_import import import_target, prepare_instance
from whyrun.errors import WhyrunError

if TYPE_CHECKING:
    from whyrun.actions.code.import_facts import Import
    from whyrun.actions.description import ActionInfo

Call = Callable[[dict[str, Any], Any, Any], Any]  # (parameters, context, logger) → {output: value} or None


@dataclass(frozen=True, slots=True)
class LoadedAction:
    call: Call
    outputs: Mapping[str, str]  # outputs that the action may return in addition to those that the job declares
    compare: Comparer | None = None  # the action's own comparer


class ActionNotFound(Exception):
    """The worker cannot find the action that the host planned with."""


def load_action(uses: str, project: Path, found: ActionInfo | None = None) -> LoadedAction:
    """`found`: the action, if it was looked up already."""
    builtin = BUILTIN.get(uses)
    if builtin is not None and not builtin.is_class:
        return LoadedAction(builtin.load().run, {})
    return _callable_action(uses, builtin.load() if builtin is not None else _import_action(uses, project, found))


def look_up(uses: str, project: Path) -> ActionInfo | None:
    """Find an action without importing it. None: it is built in, or there is none, which `load_action` reports."""
    if uses in BUILTIN:
        return None
    # The registry reads the project's files, so built-in actions do without it.
    from whyrun.actions.registry.registry import find_action

    try:
        return find_action(uses, project)
    except WhyrunError:
        return None


def libraries_of(uses: str, with_: Mapping[str, Any], project: Path, found: ActionInfo | None) -> tuple[Import, ...]:
    """The installed libraries that the code of this step names."""
    from whyrun.actions.code.import_facts import Import  # a worker needs these once for each kind of step
    from whyrun.actions.code.libraries import libraries_of_plugin, libraries_of_project_code

    builtin = BUILTIN.get(uses)
    if uses == "python":
        from whyrun.actions.builtin.python import entry_file

        try:
            return libraries_of_project_code(entry_file(with_, project), project)
        except WhyrunError:
            return ()  # the step itself reports it
    if builtin is not None:
        return tuple(Import(0, (package,)) for package in builtin.extra.always) if builtin.extra is not None else ()
    if found is None or found.path is None:
        return ()
    if found.origin == "project":
        return libraries_of_project_code(project / found.path, project)
    return libraries_of_plugin(found.path)


def _import_action(uses: str, project: Path, found: ActionInfo | None) -> Any:
    """The function or class of an action of the project or of a plugin."""
    from whyrun.actions.registry.registry import find_action

    info = found or find_action(uses, project)
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
    import inspect

    parameters_of_run = inspect.signature(cls.run).parameters
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters_of_run.values())

    def call(parameters: dict[str, Any], context: Any, logger: Any) -> Any:
        offered = {"mode": "run", "context": context, "logger": logger}
        accepted = {name: value for name, value in offered.items() if open_ended or name in parameters_of_run}
        instance, inputs = prepare_instance(uses, cls, parameters)
        return instance.run(inputs, **accepted)

    return call
