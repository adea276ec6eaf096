"""Which action a `uses:` names, and whether a `with:` block fits it. On the host; nothing of the user's is imported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from whyrun.actions.builtin import BUILTIN
from whyrun.actions.discovery import ProjectActions, discover_project_actions
from whyrun.actions.problem import NOT_LITERAL, Problem, check_signature
from whyrun.actions.source import Signature
from whyrun.errors import WhyrunError, error

__all__ = ["NOT_LITERAL", "ActionInfo", "Problem", "available_actions", "check_parameters", "resolve_action"]

ENTRY_POINT_GROUP = "whyrun.actions"


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


def resolve_action(uses: str, project: Path) -> ActionInfo:
    """The one action of that name, or `INVALID_USES` with the available ones, nearest first."""
    if uses in BUILTIN:
        return ActionInfo(name=uses, version=BUILTIN[uses], origin="builtin")
    found = discover_project_actions(project)
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
        )
    # Entry points cost about 40 ms to discover, so they are asked last.
    plugins = _plugins()
    if uses in plugins:
        target, distribution = plugins[uses]
        return ActionInfo(name=uses, version="", origin="plugin", path=target, distribution=distribution)
    raise _unknown(uses, found, [*BUILTIN, *found.actions, *plugins])


def available_actions(project: Path) -> list[str]:
    return sorted({*BUILTIN, *discover_project_actions(project).actions, *_plugins()})


def _unknown(uses: str, found: ProjectActions, names: list[str]) -> WhyrunError:
    for broken in found.broken:
        if f'"{uses}"' in broken.text or f"'{uses}'" in broken.text:
            return error(
                "INVALID_USES",
                f"the action `{uses}` cannot be read: {broken.problem}",
                hint=f"correct `{broken.path}`",
            )
    near = get_close_matches(uses, names, n=len(names), cutoff=0.0)
    hint = "available, nearest first: " + ", ".join(f"`{name}`" for name in near)
    if found.broken:
        hint += "; not readable: " + "; ".join(broken.problem for broken in found.broken)
    return error("INVALID_USES", f"there is no action `{uses}`", hint=hint)


@lru_cache(maxsize=1)
def _plugins() -> dict[str, tuple[str, str]]:
    from importlib.metadata import entry_points

    return {
        point.name: (point.value, f"{point.dist.name} {point.dist.version}" if point.dist else "")
        for point in entry_points(group=ENTRY_POINT_GROUP)
    }


def check_parameters(
    info: ActionInfo, with_: Mapping[str, Any], outputs: Mapping[str, str], project: Path
) -> tuple[Problem, ...]:
    """Everything about a `with:` block and the declared outputs that does not fit the action.

    `with_` holds literals as they are and `NOT_LITERAL` for whatever is computed or bound.
    """
    if info.origin == "builtin":
        if info.name == "shell":
            from whyrun.actions.builtin.shell import check_with as check_shell

            return check_shell(with_, outputs)
        from whyrun.actions.builtin.python import check_with as check_python

        return check_python(with_, project)
    problems: list[Problem] = []
    if info.signature is not None:
        problems += check_signature(info.signature, with_, f"the action `{info.name}`")
    if info.outputs is not None:
        for name in outputs:
            if name not in info.outputs:
                known = ", ".join(f"`{known}`" for known in info.outputs) or "none"
                message = f"the action `{info.name}` has no output `{name}`"
                problems.append(Problem(f"outputs.{name}", message, f"its outputs: {known}"))
    return tuple(problems)
