"""Which action a `uses:` names, and whether a `with:` block fits it. On the host.

Nothing of the user's is imported here. Functions are read; what only running code can tell, of a class with typed
parameters or of an installed plugin, is asked of a process of its own (`asking`).

One name is one action. Built-in names are taken: an action of the project under such a name is refused. Between the
project and an installed plugin the project's goes first, so that installing a package never changes a project; two
plugins with one name are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from whyrun.actions.builtin import BUILTIN
from whyrun.actions.discovery import BrokenFile, ProjectActions, discover_project_actions
from whyrun.actions.plugins import installed_plugins
from whyrun.actions.problem import NOT_LITERAL, Bound, Problem, check_signature
from whyrun.actions.source import Signature
from whyrun.errors import WhyrunError, error

if TYPE_CHECKING:
    from whyrun.actions.asking import Asker
    from whyrun.actions.describe import Description
    from whyrun.actions.places import ConnectionPlace

__all__ = [
    "NOT_LITERAL",
    "ActionInfo",
    "Problem",
    "available_actions",
    "check_parameters",
    "find_action",
    "is_there",
    "nearest_first",
    "resolve_action",
]


@dataclass(frozen=True, slots=True)
class ActionInfo:
    name: str
    version: str
    origin: Literal["builtin", "project", "plugin"]
    path: str | None = None  # project: the file, relative to the project; plugin: "package.module:attribute"
    attribute: str | None = None
    distribution: str = ""  # plugin: "package 1.2"
    outputs: Mapping[str, str] | None = None  # None: the job alone says
    deterministic: bool = False
    signature: Signature | None = None  # None: parameters are not known from the source
    asked: bool = False  # there is more to know of it than its source shows
    typed: bool = False  # has `Params`
    uncounted: tuple[str, ...] = ()  # parameters that do not count
    hooks: frozenset[str] = frozenset()  # the optional methods that it has of its own
    connections: tuple[ConnectionPlace, ...] = ()  # where its typed parameters take a connection


def find_action(uses: str, project: Path) -> ActionInfo:
    """The one action of that name, as far as it is known without running code; else `INVALID_USES`."""
    found = discover_project_actions(project)
    if uses in BUILTIN:
        if uses in found.actions:
            place = found.actions[uses].path
            message = f"the action `{uses}` is built in, and `{place}` defines one of that name"
            raise error("INVALID_USES", message, hint="give yours another name")
        return ActionInfo(name=uses, version=BUILTIN[uses].version, origin="builtin", asked=BUILTIN[uses].is_class)
    if uses in found.duplicates:
        places = " and ".join(f"`{place}`" for place in found.duplicates[uses])
        raise error("INVALID_USES", f"the action `{uses}` is defined in {places}", hint="give each its own name")
    if uses in found.actions:
        action = found.actions[uses]
        return ActionInfo(
            name=uses,
            version=action.version,
            origin="project",
            path=action.path,
            attribute=action.attribute,
            outputs=action.outputs,
            deterministic=action.deterministic,
            signature=action.signature,
            asked=bool(action.brings),
        )
    # Entry points cost about 40 ms to discover, so they are asked last.
    plugins = installed_plugins()
    offered = [plugin for plugin in plugins if plugin.name == uses]
    if len(offered) > 1:
        sources = " and ".join(f"`{plugin.distribution}`" for plugin in offered)
        message = f"the action `{uses}` is offered by {sources}"
        raise error("INVALID_USES", message, hint="uninstall one of them, or name your own in `actions/`")
    if offered:
        (plugin,) = offered
        return ActionInfo(
            name=uses,
            version="",
            origin="plugin",
            path=plugin.target,
            distribution=plugin.distribution,
            asked=True,
        )
    raise _unknown(uses, found, available_actions(project))


def resolve_action(uses: str, project: Path, asker: Asker | None = None) -> ActionInfo:
    """The same, with all that there is to know of it. What does not import or does not fit is `INVALID_USES`."""
    info = find_action(uses, project)
    if not info.asked:
        return info
    return _described(info, _description(info, project, asker))


def _description(info: ActionInfo, project: Path, asker: Asker | None) -> Description:
    from whyrun.actions.describe import describe

    if info.origin == "builtin":
        extra = BUILTIN[info.name].extra
        if extra is not None and (missing := extra.missing()):
            message = f"the action `{info.name}` needs {', '.join(f'`{package}`' for package in missing)}"
            raise error("INVALID_USES", message, hint=f"pip install 'whyrun[{extra.name}]'")
        return describe(BUILTIN[info.name].load())
    answer = _asker(project, asker).describe(info)
    if isinstance(answer, str):
        whose = f"the plugin `{info.distribution}`" if info.origin == "plugin" else f"`{info.path}`"
        raise error("INVALID_USES", f"the action `{info.name}` cannot be used: {answer}", hint=f"correct {whose}")
    return answer


def _described(info: ActionInfo, known: Description) -> ActionInfo:
    hooks = frozenset(known.hooks)
    if info.origin == "project":  # name, version and outputs are read from the source: that is what the plan rests on
        outputs = known.outputs if info.outputs is None else info.outputs
        return replace(
            info,
            outputs=outputs,
            deterministic=known.deterministic,
            typed=known.typed,
            uncounted=known.uncounted,
            hooks=hooks,
            connections=known.connections,
        )
    return replace(
        info,
        version=info.version or known.version,
        outputs=known.outputs,
        deterministic=known.deterministic,
        signature=known.signature,
        typed=known.typed,
        uncounted=known.uncounted,
        hooks=hooks,
        connections=known.connections,
    )


def _asker(project: Path, asker: Asker | None) -> Asker:
    if asker is not None:
        return asker
    from whyrun.actions.asking import Asker

    return Asker(project)


def available_actions(project: Path) -> list[str]:
    plugins = [plugin.name for plugin in installed_plugins()]
    return sorted({*BUILTIN, *discover_project_actions(project).actions, *plugins})


def is_there(uses: str, project: Path) -> bool:
    """Is there an action of that name, be it one that cannot be used?"""
    return uses in available_actions(project) or broken_file(uses, discover_project_actions(project)) is not None


def broken_file(uses: str, found: ProjectActions) -> BrokenFile | None:
    """The file of the project that cannot be read and seems to define it."""
    return next((b for b in found.broken if f'"{uses}"' in b.text or f"'{uses}'" in b.text), None)


def nearest_first(uses: str, names: list[str]) -> list[str]:
    """Names by likeness, then by name: the whole list, since the right one may look quite different."""
    return sorted(names, key=lambda name: (-SequenceMatcher(None, uses, name).ratio(), name))


def _unknown(uses: str, found: ProjectActions, names: list[str]) -> WhyrunError:
    broken = broken_file(uses, found)
    if broken is not None:
        message = f"the action `{uses}` cannot be read: {broken.problem}"
        return error("INVALID_USES", message, hint=f"correct `{broken.path}`")
    hint = "available, nearest first: " + ", ".join(f"`{name}`" for name in nearest_first(uses, names))
    if found.broken:
        hint += "; not readable: " + "; ".join(broken.problem for broken in found.broken)
    return error("INVALID_USES", f"there is no action `{uses}`", hint=hint)


# --- parameters --------------------------------------------------------------------------------------------------


def check_parameters(
    info: ActionInfo,
    with_: Mapping[str, Any],
    outputs: Mapping[str, str],
    project: Path,
    asker: Asker | None = None,
) -> tuple[Problem, ...]:
    """Everything about a `with:` block and the declared outputs that does not fit the action.

    `with_` holds literals as they are and `NOT_LITERAL` for whatever is computed or bound.
    """
    if info.origin == "builtin" and not info.asked:
        if info.name == "shell":
            from whyrun.actions.builtin.shell import check_with as check_shell

            return check_shell(with_, outputs)
        from whyrun.actions.builtin.python import check_with as check_python

        return check_python(with_, project)
    problems: list[Problem] = []
    if info.signature is not None:
        problems += check_signature(info.signature, with_, f"the action `{info.name}`")
    if info.typed:
        problems += check_typed(info, with_, project, asker)
    if info.outputs is not None:
        for name in outputs:
            if name not in info.outputs:
                known = ", ".join(f"`{known}`" for known in info.outputs) or "none"
                message = f"the action `{info.name}` has no output `{name}`"
                problems.append(Problem(f"outputs.{name}", message, f"its outputs: {known}"))
    if info.origin == "builtin" and info.name == "http/json":
        from whyrun.actions.builtin.http_params import check_outputs

        problems += check_outputs(with_, outputs)
    return tuple(problems)


def check_typed(info: ActionInfo, with_: Mapping[str, Any], project: Path, asker: Asker | None = None) -> list[Problem]:
    """The entries against `Params`. A `Bound` one is checked by its type; `NOT_LITERAL` is there and nothing more."""
    from whyrun.actions.parameters import check_beside_files, check_values

    given = {name: Bound() if value is NOT_LITERAL else value for name, value in with_.items()}
    if info.origin == "builtin":
        params = BUILTIN[info.name].load().Params
        return check_values(params, given, f"the action `{info.name}`") or check_beside_files(params, given)
    return _asker(project, asker).check(info, given)
