"""Makes an action callable in the worker. Imports the user's code."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import machinery
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whyrun.actions.base import MARK, Action, Comparer, FunctionFacts, call_function, call_plan
from whyrun.actions.builtin import BUILTIN
from whyrun.actions.code.action_import import import_target, prepare_instance
from whyrun.actions.code.editable import editable_in
from whyrun.actions.code.module_files import FileFacts, Import, files_of, read_module
from whyrun.actions.code.source import SourceError
from whyrun.errors import WhyrunError

if TYPE_CHECKING:
    from whyrun.actions.description import ActionInfo


# --- libraries --------------------------------------------------------------------------------------------------------
# Which installed libraries the code of an action names, so that a worker can import them once, before it forks a
# process for each step.
#
# Only names that are certain to mean the same in every process: none if the code changes where modules are found, loads
# files by name, or mentions the environment, which a library may read when it is imported.


_ENVIRONMENT = (b"environ", b"putenv")


def libraries_of_project_code(entry: Path, project: Path) -> tuple[Import, ...]:
    """Those that a file of the project and the project modules that it imports name."""
    root = str(project).rstrip("/")
    editable = editable_in(root)
    named: dict[Import, None] = {}
    queue, seen = [str(entry)], set[str]()
    while queue:
        path = queue.pop()
        if path in seen:
            continue
        seen.add(path)
        try:
            facts = read_module(path, root)
        except SourceError:
            return ()  # the step itself reports it
        if not _is_certain(facts):
            return ()
        for each in facts.imports:
            own = list(files_of(each, root, os.path.dirname(path), editable))
            queue += own
            if not own:
                named[each] = None
    return _libraries(named)


def libraries_of_plugin(target: str) -> tuple[Import, ...]:
    """Those that the module of an installed action names. The module itself is not imported before a fork: like a
    project's module it may hold state, such as a random generator."""
    module = target.partition(":")[0].split(".")
    folders: Sequence[str] | None = None
    for part in module[:-1]:
        spec = machinery.PathFinder.find_spec(part, folders)
        if spec is None or spec.submodule_search_locations is None:
            return ()
        folders = list(spec.submodule_search_locations)
    spec = machinery.PathFinder.find_spec(module[-1], folders)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return ()
    try:
        facts = read_module(spec.origin, os.path.dirname(spec.origin))
    except SourceError:
        return ()
    named = {each: None for each in facts.imports if not each.level and each.module[:1] != (module[0],)}
    return _libraries(named) if _is_certain(facts) else ()


def _is_certain(facts: FileFacts) -> bool:
    if facts.source is None or facts.changes_sys_path or facts.loads_by_name:
        return False
    return not any(word in facts.source for word in _ENVIRONMENT)


def _libraries(named: dict[Import, None]) -> tuple[Import, ...]:
    known = {*sys.stdlib_module_names, "whyrun", "__main__"}
    return tuple(sorted((each for each in named if not each.level and each.module[0] not in known), key=_order))


def _order(one: Import) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return one.module, one.names


# --- load -------------------------------------------------------------------------------------------------------------


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
    from whyrun.actions.code.module_files import Import  # a worker needs these once for each kind of step

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
    parameters_of_run = inspect.signature(cls.run).parameters
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters_of_run.values())

    def call(parameters: dict[str, Any], context: Any, logger: Any) -> Any:
        offered = {"mode": "run", "context": context, "logger": logger}
        accepted = {name: value for name, value in offered.items() if open_ended or name in parameters_of_run}
        instance, inputs = prepare_instance(uses, cls, parameters)
        return instance.run(inputs, **accepted)

    return call
