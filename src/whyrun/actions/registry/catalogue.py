"""Every action there is, as `whyrun actions` shows it: built in, of the project, of plugins; usable or broken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whyrun.actions.asking import Asker
from whyrun.actions.builtin import BUILTIN, Builtin
from whyrun.actions.describe import Description, ParameterInfo, describe
from whyrun.actions.discovery import FoundAction, ProjectActions, discover_project_actions
from whyrun.actions.plugins import Plugin, installed_plugins
from whyrun.actions.registry import ActionInfo, broken_file
from whyrun.errors import did_you_mean, error


@dataclass(frozen=True, slots=True)
class Listed:
    name: str
    version: str
    origin: str  # "builtin", "project" or "plugin"
    place: str  # the file of the project, or the distribution; "" for built-in ones
    summary: str = ""
    error: str | None = None  # why it cannot be used
    description: Description | None = None

    def to_json(self, *, details: bool) -> dict[str, Any]:
        found: dict[str, Any] = {
            "name": self.name,
            "version": self.version,
            "origin": self.origin,
            "place": self.place,
            "summary": self.summary,
            "error": self.error,
        }
        if details and self.description is not None:
            known = self.description
            found |= {
                "parameters": None if known.parameters is None else [_plain(p) for p in known.parameters],
                "open_ended": known.open_ended,
                "outputs": known.outputs,
                "deterministic": known.deterministic,
                "example": known.example,
            }
        return found


def _plain(parameter: ParameterInfo) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "type": parameter.type,
        "required": parameter.required,
        "default": None if parameter.required else parameter.default,
        "description": parameter.description,
        **({"fields": [_plain(inner) for inner in parameter.fields]} if parameter.fields else {}),
    }


def catalogue(project: Path, wanted: str | None = None) -> list[Listed]:
    """By name. Code of the project and of plugins runs in a process of its own; nothing that was kept is believed.

    A built-in one is described only if it is `wanted`: its summary stands in the table, and nothing is imported for it.
    """
    asker = Asker(project)
    try:
        found = [*_builtins(wanted), *_of_project(project, asker, wanted), *_of_plugins(project, asker)]
    finally:
        asker.close()
    order = ("builtin", "project", "plugin")
    return sorted(found, key=lambda action: (action.name, order.index(action.origin), action.place))


def listed_action(name: str, actions: list[Listed]) -> Listed:
    """The one of that name that a workflow would get; else an error with the nearest."""
    candidates = [action for action in actions if action.name == name]
    if not candidates:
        hint = did_you_mean(name, sorted({action.name for action in actions})) or "`whyrun actions` lists them"
        raise error("INVALID_USES", f"there is no action `{name}`", hint=hint)
    return next((action for action in candidates if action.error is None), candidates[0])


def _builtins(wanted: str | None) -> Iterator[Listed]:
    for name, builtin in BUILTIN.items():
        missing = builtin.extra.missing() if builtin.extra is not None else []
        if builtin.extra is not None and missing:
            problem = f"it needs {', '.join(missing)}: pip install 'whyrun[{builtin.extra.name}]'"
            yield Listed(name, builtin.version, "builtin", "", builtin.summary, problem)
            continue
        known = None
        if name == wanted:
            known = describe(builtin.load()) if builtin.is_class else _of_module(builtin)
        yield Listed(name, builtin.version, "builtin", "", builtin.summary, None, known)


def _of_module(builtin: Builtin) -> Description:
    parameters = [ParameterInfo(name, type_, description=text) for name, type_, text in builtin.parameters]
    return Description(builtin.version, summary=builtin.summary, parameters=parameters, example=builtin.example)


# --- the project -------------------------------------------------------------------------------------------------


def _of_project(project: Path, asker: Asker, wanted: str | None) -> Iterator[Listed]:
    found = discover_project_actions(project)
    for action in found.actions.values():
        yield _listed(action, found, asker)
    meant = broken_file(wanted, found) if wanted is not None and wanted not in found.actions else None
    for broken in found.broken:
        # What is in it cannot be told; but that it speaks of the one that is looked for.
        name = wanted if broken is meant and wanted is not None else "?"
        yield Listed(name, "", "project", broken.path, error=broken.problem)


def _listed(action: FoundAction, found: ProjectActions, asker: Asker) -> Listed:
    problem: str | None = None
    known: Description | None = None
    if action.name in BUILTIN:
        problem = "the name is that of a built-in action; give it another"
    elif action.name in found.duplicates:
        problem = "defined more than once: " + ", ".join(found.duplicates[action.name])
    else:
        answer = asker.describe(ActionInfo(action.name, action.version, "project", action.path, action.attribute))
        if isinstance(answer, str):
            problem = answer
        else:
            known = _of_function(action) if action.signature is not None else answer
    return Listed(action.name, action.version, "project", action.path, action.summary, problem, known)


def _of_function(action: FoundAction) -> Description:
    assert action.signature is not None
    names = [*((name, True) for name in action.signature.required), *((n, False) for n in action.signature.optional)]
    return Description(
        version=action.version,
        deterministic=action.deterministic,
        outputs=None if action.outputs is None else dict(action.outputs),
        summary=action.summary,
        parameters=[
            ParameterInfo(name, "any value", required) for name, required in names if name not in ("context", "logger")
        ],
        open_ended=action.signature.open_ended,
    )


# --- plugins -----------------------------------------------------------------------------------------------------


def _of_plugins(project: Path, asker: Asker) -> Iterator[Listed]:
    plugins = installed_plugins()
    names = [plugin.name for plugin in plugins]
    of_project = discover_project_actions(project).actions
    for plugin in plugins:
        hidden = _hidden(plugin, names.count(plugin.name), of_project)
        if hidden is not None:
            yield Listed(plugin.name, "", "plugin", plugin.distribution, error=hidden)
            continue
        info = ActionInfo(plugin.name, "", "plugin", plugin.target, distribution=plugin.distribution)
        answer = asker.describe(info)
        if isinstance(answer, str):
            yield Listed(plugin.name, "", "plugin", plugin.distribution, error=answer)
        else:
            yield Listed(plugin.name, answer.version, "plugin", plugin.distribution, answer.summary, None, answer)


def _hidden(plugin: Plugin, offers: int, of_project: Any) -> str | None:
    if plugin.name in BUILTIN:
        return "the name is that of a built-in action: the plugin cannot be used under it"
    if plugin.name in of_project:
        return f"hidden by the project's own in {of_project[plugin.name].path}"
    return "more than one installed package offers this name" if offers > 1 else None


def example_of(action: Listed) -> str:
    """The action's own example, or one made from what it takes and gives."""
    known = action.description
    if known is None or known.example:
        return known.example if known is not None else ""
    lines = ["jobs:", "  Example:", f"    uses: {action.name}"]
    entries = [f"      {p.name}: …  # {p.type}" for p in known.parameters or () if p.required]
    if entries:
        lines += ["    with:", *entries]
    outputs = [f"{name}: {{type: {type_}}}" for name, type_ in (known.outputs or {}).items()]
    if outputs:
        lines.append(f"    outputs: {{{', '.join(outputs)}}}")
    return "\n".join(lines) + "\n"
