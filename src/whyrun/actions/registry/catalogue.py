"""The list of all actions for `whyrun actions`: built-in, of the project and of plugins, usable or broken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whyrun.actions.builtin import BUILTIN, Builtin
from whyrun.actions.code.discovery import FoundAction, ProjectActions, discover_project_actions
from whyrun.actions.description import ActionInfo, Description, ParameterInfo, describe
from whyrun.actions.inspection.inspector import Inspector
from whyrun.actions.registry.registry import Plugin, broken_file, installed_plugins
from whyrun.errors import did_you_mean, error, to_install


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    name: str
    version: str
    origin: str  # "builtin", "project" or "plugin"
    source: str  # the file of the project, or the distribution; "" for built-in ones
    summary: str = ""
    error: str | None = None  # why it cannot be used
    description: Description | None = None

    def to_json(self, *, details: bool) -> dict[str, Any]:
        entry: dict[str, Any] = {
            "name": self.name,
            "version": self.version,
            "origin": self.origin,
            "place": self.source,
            "summary": self.summary,
            "error": self.error,
        }
        if details and self.description is not None:
            known = self.description
            entry |= {
                "parameters": None if known.parameters is None else [_plain(p) for p in known.parameters],
                "open_ended": known.open_ended,
                "outputs": known.outputs,
                "deterministic": known.deterministic,
                "example": known.example,
            }
        return entry


def _plain(parameter: ParameterInfo) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "type": parameter.type,
        "required": parameter.required,
        "default": None if parameter.required else parameter.default,
        "description": parameter.description,
        **({"fields": [_plain(inner) for inner in parameter.fields]} if parameter.fields else {}),
    }


def catalogue(project: Path, wanted: str | None = None) -> list[CatalogueEntry]:
    """All actions, sorted by name. The inspector imports those of the project and of plugins, without its cache.

    A built-in action is described only if it is `wanted`. The table has its summary, so listing it imports nothing.
    """
    inspector = Inspector(project)
    try:
        entries = [*_builtins(wanted), *_of_project(project, inspector, wanted), *_of_plugins(project, inspector)]
    finally:
        inspector.close()
    order = ("builtin", "project", "plugin")
    return sorted(entries, key=lambda action: (action.name, order.index(action.origin), action.source))


def catalogue_entry(name: str, actions: list[CatalogueEntry]) -> CatalogueEntry:
    """The action that a workflow would get under this name; else an error that suggests the nearest name."""
    candidates = [action for action in actions if action.name == name]
    if not candidates:
        hint = did_you_mean(name, sorted({action.name for action in actions})) or "`whyrun actions` lists them"
        raise error("INVALID_USES", f"there is no action `{name}`", hint=hint)
    return next((action for action in candidates if action.error is None), candidates[0])


def _builtins(wanted: str | None) -> Iterator[CatalogueEntry]:
    for name, builtin in BUILTIN.items():
        missing = builtin.extra.missing() if builtin.extra is not None else []
        if builtin.extra is not None and missing:
            problem = f"it needs {', '.join(missing)}: {to_install(builtin.extra.name)}"
            yield CatalogueEntry(name, builtin.version, "builtin", "", builtin.summary, problem)
            continue
        known = None
        if name == wanted:
            known = describe(builtin.load()) if builtin.is_class else _of_module(builtin)
        yield CatalogueEntry(name, builtin.version, "builtin", "", builtin.summary, None, known)


def _of_module(builtin: Builtin) -> Description:
    parameters = [ParameterInfo(name, type_, description=text) for name, type_, text in builtin.parameters]
    return Description(builtin.version, summary=builtin.summary, parameters=parameters, example=builtin.example)


# --- the project -------------------------------------------------------------------------------------------------


def _of_project(project: Path, inspector: Inspector, wanted: str | None) -> Iterator[CatalogueEntry]:
    discovered = discover_project_actions(project)
    for action in discovered.actions.values():
        yield _project_entry(action, discovered, inspector)
    meant = broken_file(wanted, discovered) if wanted is not None and wanted not in discovered.actions else None
    for broken in discovered.broken:
        # The actions in a broken file are not known. If it mentions the wanted name, list it under that name.
        name = wanted if broken is meant and wanted is not None else "?"
        yield CatalogueEntry(name, "", "project", broken.path, error=broken.problem)


def _project_entry(action: FoundAction, discovered: ProjectActions, inspector: Inspector) -> CatalogueEntry:
    problem: str | None = None
    known: Description | None = None
    if action.name in BUILTIN:
        problem = "a built-in action has this name; give yours another"
    elif action.name in discovered.duplicates:
        problem = "defined more than once: " + ", ".join(discovered.duplicates[action.name])
    else:
        info = ActionInfo(action.name, action.version, "project", action.path, action.attribute)
        described = inspector.describe(info)
        if isinstance(described, str):
            problem = described
        else:
            known = _of_function(action) if action.signature is not None else described
    return CatalogueEntry(action.name, action.version, "project", action.path, action.summary, problem, known)


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


def _of_plugins(project: Path, inspector: Inspector) -> Iterator[CatalogueEntry]:
    plugins = installed_plugins()
    names = [plugin.name for plugin in plugins]
    of_project = discover_project_actions(project).actions
    for plugin in plugins:
        hidden = _hidden(plugin, names.count(plugin.name), of_project)
        if hidden is not None:
            yield CatalogueEntry(plugin.name, "", "plugin", plugin.distribution, error=hidden)
            continue
        info = ActionInfo(plugin.name, "", "plugin", plugin.target, distribution=plugin.distribution)
        described = inspector.describe(info)
        source = plugin.distribution
        if isinstance(described, str):
            yield CatalogueEntry(plugin.name, "", "plugin", source, error=described)
        else:
            yield CatalogueEntry(plugin.name, described.version, "plugin", source, described.summary, None, described)


def _hidden(plugin: Plugin, offers: int, of_project: Any) -> str | None:
    if plugin.name in BUILTIN:
        return "a built-in action has this name, so the plugin cannot be used"
    if plugin.name in of_project:
        return f"hidden by the project's action in {of_project[plugin.name].path}"
    return "more than one installed package offers this name" if offers > 1 else None


def example_of(action: CatalogueEntry) -> str:
    """The action's own example, or one generated from its parameters and outputs."""
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
