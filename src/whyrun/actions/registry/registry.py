"""Finds the action that a `uses:` names, and checks its `with:` block. Runs on the host.

The host imports no user code. It reads the source of functions; for a class with typed parameters, or an installed
plugin, it asks the inspector process (`inspection`).

Each name belongs to one action. The project may not redefine a built-in action. The project's action hides a plugin's
action of the same name, so that installing a package never changes a project. Two plugins may not share a name.

A plugin is an entry point of the group `whyrun.actions`, found without importing it:

[project.entry-points."whyrun.actions"]
"text/shout" = "my_package.actions:shout"
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from whyrun.actions.builtin import BUILTIN
from whyrun.actions.builtin.python import entry_file
from whyrun.actions.code.code_cache import CodeCache
from whyrun.actions.code.discovery import BrokenFile, ProjectActions, discover_project_actions
from whyrun.actions.code.imports import project_code
from whyrun.actions.description import ActionInfo, Description, describe
from whyrun.actions.problem import NOT_LITERAL, Bound, Problem, check_signature
from whyrun.artifacts.hashing import canonical_json, digest
from whyrun.errors import Diagnostic, InvalidError, WhyrunError, error, to_install

if TYPE_CHECKING:
    from whyrun.actions.inspection.inspector import Inspector

GROUP = "whyrun.actions"


class Plugin(msgspec.Struct, frozen=True):
    name: str
    target: str  # "package.module:attribute"
    distribution: str  # "package 1.2"


@lru_cache(maxsize=1)
def installed_plugins() -> tuple[Plugin, ...]:
    from importlib.metadata import entry_points

    plugins = {
        Plugin(point.name, point.value, f"{point.dist.name} {point.dist.version}" if point.dist else "")
        for point in entry_points(group=GROUP)
    }
    return tuple(sorted(plugins, key=lambda plugin: (plugin.name, plugin.distribution, plugin.target)))


def find_action(uses: str, project: Path) -> ActionInfo:
    """The action of this name, with what is known without running its code. Raises `INVALID_USES`."""
    discovered = discover_project_actions(project)
    if uses in BUILTIN:
        if uses in discovered.actions:
            path = discovered.actions[uses].path
            message = f"the action `{uses}` is built in, and `{path}` defines another one of this name"
            raise error("INVALID_USES", message, hint="give your action another name")
        builtin = BUILTIN[uses]
        return ActionInfo(name=uses, version=builtin.version, origin="builtin", needs_inspection=builtin.is_class)
    if uses in discovered.duplicates:
        paths = " and ".join(f"`{path}`" for path in discovered.duplicates[uses])
        raise error("INVALID_USES", f"the action `{uses}` is defined in {paths}", hint="give each its own name")
    if uses in discovered.actions:
        action = discovered.actions[uses]
        return ActionInfo(
            name=uses,
            version=action.version,
            origin="project",
            path=action.path,
            attribute=action.attribute,
            outputs=action.outputs,
            deterministic=action.deterministic,
            signature=action.signature,
            needs_inspection=bool(action.brings),
        )
    # Entry points take about 40 ms to discover, so they come last.
    plugins = installed_plugins()
    offered = [plugin for plugin in plugins if plugin.name == uses]
    if len(offered) > 1:
        sources = " and ".join(f"`{plugin.distribution}`" for plugin in offered)
        message = f"the action `{uses}` is offered by {sources}"
        raise error("INVALID_USES", message, hint="uninstall one of them, or define your own in `actions/`")
    if offered:
        (plugin,) = offered
        return ActionInfo(
            name=uses,
            version="",
            origin="plugin",
            path=plugin.target,
            distribution=plugin.distribution,
            needs_inspection=True,
        )
    raise _unknown(uses, discovered, available_actions(project))


def resolve_action(uses: str, project: Path, inspector: Inspector | None = None) -> ActionInfo:
    """The action of this name with everything known about it. Raises `INVALID_USES`, also if it cannot be imported."""
    info = find_action(uses, project)
    if not info.needs_inspection:
        return info
    return _with_description(info, _description(info, project, inspector))


def _description(info: ActionInfo, project: Path, inspector: Inspector | None) -> Description:
    if info.origin == "builtin":
        extra = BUILTIN[info.name].extra
        if extra is not None and (missing := extra.missing()):
            message = f"the action `{info.name}` needs {', '.join(f'`{package}`' for package in missing)}"
            raise error("INVALID_USES", message, hint=to_install(extra.name))
        return describe(BUILTIN[info.name].load())
    description = _inspector(project, inspector).describe(info)
    if isinstance(description, str):
        source = f"the plugin `{info.distribution}`" if info.origin == "plugin" else f"`{info.path}`"
        message = f"the action `{info.name}` cannot be used: {description}"
        raise error("INVALID_USES", message, hint=f"correct {source}")
    return description


def _with_description(info: ActionInfo, description: Description) -> ActionInfo:
    described = replace(
        info,
        deterministic=description.deterministic,
        typed=description.typed,
        uncounted=description.uncounted,
        hooks=frozenset(description.hooks),
        connections=description.connections,
    )
    if info.origin == "project":  # the plan uses the name, version and outputs that the source shows
        return replace(described, outputs=description.outputs if info.outputs is None else info.outputs)
    return replace(
        described,
        version=info.version or description.version,
        outputs=description.outputs,
        signature=description.signature,
    )


def _inspector(project: Path, inspector: Inspector | None) -> Inspector:
    if inspector is not None:
        return inspector
    from whyrun.actions.inspection.inspector import Inspector

    return Inspector(project)


def available_actions(project: Path) -> list[str]:
    plugins = [plugin.name for plugin in installed_plugins()]
    return sorted({*BUILTIN, *discover_project_actions(project).actions, *plugins})


def action_exists(uses: str, project: Path) -> bool:
    """Whether an action of this name exists, even if it cannot be used."""
    return uses in available_actions(project) or broken_file(uses, discover_project_actions(project)) is not None


def broken_file(uses: str, discovered: ProjectActions) -> BrokenFile | None:
    """The unreadable project file that seems to define this action."""
    return next((b for b in discovered.broken if f'"{uses}"' in b.text or f"'{uses}'" in b.text), None)


def nearest_first(uses: str, names: list[str]) -> list[str]:
    """All names, sorted by similarity and then by name. The list is complete: the right name may look different."""
    from difflib import SequenceMatcher  # imported late: only errors need it

    return sorted(names, key=lambda name: (-SequenceMatcher(None, uses, name).ratio(), name))


def _instead(uses: str) -> str | None:
    """What to write for a file, a function or a word of another tool where the name of an action is due."""
    from whyrun.workflow.foreign_words import foreign_words  # imported late: only errors need it

    module, colon, function = uses.partition(":")
    if uses.endswith(".py"):
        return f"write `uses: python`, and `script: {uses}` under `with:`"
    if colon and function.isidentifier() and module.replace(".", "_").isidentifier():
        return f'write `uses: python`, and `call: "{uses}"` under `with:`'
    word = foreign_words("uses").get(module.partition(" ")[0])
    return word.hint if word is not None else None


def _unknown(uses: str, discovered: ProjectActions, names: list[str]) -> WhyrunError:
    broken = broken_file(uses, discovered)
    if broken is not None:
        message = f"the action `{uses}` cannot be read: {broken.problem}"
        return error("INVALID_USES", message, hint=f"correct `{broken.path}`")
    hint = _instead(uses)
    if hint is not None:
        return error("INVALID_USES", f"there is no action `{uses}`", hint=hint)
    hint = "available, nearest first: " + ", ".join(f"`{name}`" for name in nearest_first(uses, names))
    if discovered.broken:
        hint += "; not readable: " + "; ".join(broken.problem for broken in discovered.broken)
    return error("INVALID_USES", f"there is no action `{uses}`", hint=hint)


# --- parameters --------------------------------------------------------------------------------------------------


def check_parameters(
    info: ActionInfo,
    with_: Mapping[str, Any],
    outputs: Mapping[str, str],
    project: Path,
    inspector: Inspector | None = None,
) -> tuple[Problem, ...]:
    """All problems of a `with:` block and of the declared outputs.

    `with_` holds literal values, and `NOT_LITERAL` for values that are computed or bound.
    """
    if info.origin == "builtin" and not info.needs_inspection:
        if info.name == "shell":
            from whyrun.actions.builtin.shell import check_with as check_shell

            return check_shell(with_, outputs)
        from whyrun.actions.builtin.python import check_with as check_python

        return check_python(with_, project)
    problems: list[Problem] = []
    if info.signature is not None:
        problems += check_signature(info.signature, with_, f"the action `{info.name}`")
    if info.typed:
        problems += check_typed(info, with_, project, inspector)
    if info.outputs is not None:
        for name in outputs:
            if name not in info.outputs:
                known = ", ".join(f"`{known}`" for known in info.outputs) or "none"
                message = f"the action `{info.name}` has no output `{name}`"
                problems.append(Problem(f"outputs.{name}", message, f"its outputs: {known}"))
    if info.origin == "builtin" and info.name == "http/json":
        from whyrun.actions.http.params import check_outputs

        problems += check_outputs(with_, outputs)
    return tuple(problems)


def check_typed(
    info: ActionInfo, with_: Mapping[str, Any], project: Path, inspector: Inspector | None = None
) -> list[Problem]:
    """Check the entries against `Params`. A `Bound` entry is checked by its type; `NOT_LITERAL` is only present."""
    from whyrun.actions.parameters import check_beside_files, check_values

    given = {name: Bound() if value is NOT_LITERAL else value for name, value in with_.items()}
    if info.origin == "builtin":
        params = BUILTIN[info.name].load().Params
        return check_values(params, given, f"the action `{info.name}`") or check_beside_files(params, given)
    return _inspector(project, inspector).check(info, given)


# The fingerprint of an action: name, version, distribution and, for project code, the canonical form of its source.
#
# Called once per job definition. It reads the project's files and imports no user code. Thousands of jobs may share an
# action or a pattern, so the `CodeCache` reads each file only once.


def action_fingerprint(
    uses: str,
    with_literals: Mapping[str, Any],
    project: Path,
    code_globs: Sequence[str] = (),
    info: ActionInfo | None = None,
    cache: CodeCache | None = None,
) -> tuple[str, dict[str, Any]]:
    """`(sha256, facts)`. Of `with_literals`, only `call` and `script` of `python` are used.

    `info`: the action, if it is resolved already. `cache`: shared by the jobs of one plan. The facts are the hashed
    content; `show` prints them, and they tell which file of an action changed.
    """
    info = info or resolve_action(uses, project)
    cache = cache or CodeCache(project)
    entry = _entry(info, with_literals, project)
    imported = info.name == "python" and "call" in with_literals
    key = (info.name, info.version, info.distribution, entry, imported, *code_globs)
    if key not in cache.fingerprints:
        facts = _facts(uses, info, entry, imported, tuple(code_globs), cache)
        cache.fingerprints[key] = digest("action/v1", canonical_json(facts)), facts
    return cache.fingerprints[key]


def _facts(
    uses: str, info: ActionInfo, entry: Path | None, imported: bool, code_globs: tuple[str, ...], cache: CodeCache
) -> dict[str, Any]:
    facts: dict[str, Any] = {"name": info.name, "version": info.version, "distribution": info.distribution}
    if entry is not None:
        with_docstrings = cache.names_docstrings(code_globs)
        code = project_code(cache.project, entry, imported=imported, with_docstrings=with_docstrings)
        if code.problems:
            raise InvalidError(
                Diagnostic("INVALID_USES", f"the action `{uses}` cannot be read: {p}", hint="correct that file")
                for p in code.problems
            )
        facts["source"] = dict(code.digests)
    if code_globs:
        facts["code"] = cache.code(code_globs)
    return facts


def _entry(info: ActionInfo, with_literals: Mapping[str, Any], project: Path) -> Path | None:
    if info.origin == "project":
        assert info.path is not None
        return project / info.path
    if info.name == "python" and info.origin == "builtin":
        return entry_file(with_literals, project)
    return None
