"""Finds the actions in a project's `actions/` folder by reading the files, without importing them.

It finds functions with `@action("name", …)` and subclasses of `Action` with `name = "…"`, where the name is a literal.
So planning runs no user code, and a broken file affects only workflows that use it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from whyrun.actions.base import HOOKS, Signature
from whyrun.actions.code.source import SourceError, parse_source, read_source, signature_of

ACTIONS_FOLDER = "actions"
_BRINGS = frozenset({"Params", *HOOKS})


class FoundAction(msgspec.Struct, frozen=True):
    name: str
    attribute: str  # the function or class in the file
    path: str  # relative to the project
    version: str
    outputs: Mapping[str, str] | None  # None where the source does not show them as a literal
    deterministic: bool
    signature: Signature | None  # functions only
    # The class defines `Params` or these optional methods, so the inspector must import it.
    brings: frozenset[str] = frozenset()
    summary: str = ""
    example: str = ""


class BrokenFile(msgspec.Struct, frozen=True):
    path: str
    problem: str
    text: str  # to see whether it mentions an action by name


class ProjectActions(msgspec.Struct, frozen=True):
    actions: Mapping[str, FoundAction]
    duplicates: Mapping[str, tuple[str, ...]]  # a name that is defined more than once → its files
    broken: tuple[BrokenFile, ...]


def discover_project_actions(project: Path) -> ProjectActions:
    actions: dict[str, FoundAction] = {}
    places: dict[str, list[str]] = {}
    broken: list[BrokenFile] = []
    for file in action_files(project):
        shown = f"{ACTIONS_FOLDER}/{file.name}"
        try:
            file_actions = _actions_in_source(read_source(file, shown), shown)
        except SourceError as problem:
            broken.append(BrokenFile(shown, str(problem), _text(file)))
            continue
        for action in file_actions:
            places.setdefault(action.name, []).append(shown)
            actions.setdefault(action.name, action)
    duplicates = {name: tuple(where) for name, where in places.items() if len(where) > 1}
    return ProjectActions(actions, duplicates, tuple(broken))


def action_files(project: Path) -> list[Path]:
    folder = project / ACTIONS_FOLDER
    return sorted(folder.glob("*.py"), key=lambda path: path.name.encode()) if folder.is_dir() else []


@lru_cache(maxsize=256)
def _actions_in_source(data: bytes, shown: str) -> tuple[FoundAction, ...]:
    """Cached by content, because every job looks up its action."""
    return tuple(actions_in(parse_source(data, shown), shown))


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:  # already reported as broken
        return ""


def actions_in(tree: ast.Module, shown: str) -> Iterator[FoundAction]:
    decorators, actions = _local_names(tree)
    bases = dict.fromkeys(actions, frozenset[str]())  # a base class → what it brings
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef):
            for decorator in statement.decorator_list:
                if isinstance(decorator, ast.Call) and _dotted(decorator.func) in decorators:
                    action = _function_action(statement, decorator, shown)
                    if action is not None:
                        yield action
        elif isinstance(statement, ast.ClassDef) and any(_dotted(base) in bases for base in statement.bases):
            brings = _brought_by(statement, bases)
            bases[statement.name] = brings  # its subclasses are actions, too
            action = _class_action(statement, shown, brings)
            if action is not None:
                yield action


def _local_names(tree: ast.Module) -> tuple[set[str], set[str]]:
    """The names that this file uses for `whyrun.action` and `whyrun.Action`."""
    decorators, bases = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in ("whyrun", "whyrun.actions.base"):
            for alias in node.names:
                local = alias.asname or alias.name
                if alias.name == "action":
                    decorators.add(local)
                elif alias.name == "Action":
                    bases.add(local)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == "whyrun":
                    local = alias.asname or alias.name
                    decorators.add(f"{local}.action")
                    bases.add(f"{local}.Action")
    return decorators, bases


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _literal(node: ast.expr | None, kind: type) -> Any:
    try:
        value = ast.literal_eval(node) if node is not None else None
    except (ValueError, TypeError):  # not a literal: the source does not show it
        return None
    return value if isinstance(value, kind) else None


def _function_action(function: ast.FunctionDef, call: ast.Call, shown: str) -> FoundAction | None:
    keywords = {k.arg: k.value for k in call.keywords if k.arg}
    name = _literal(call.args[0] if call.args else keywords.get("name"), str)
    if name is None:
        return None
    return FoundAction(
        name=name,
        attribute=function.name,
        path=shown,
        version=_literal(keywords.get("version"), str) or "",
        outputs=_literal(keywords["outputs"], dict) if "outputs" in keywords else {},
        deterministic=_literal(keywords.get("deterministic"), bool) or False,
        signature=signature_of(function),
        summary=_summary(function),
    )


def _brought_by(declaration: ast.ClassDef, bases: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """`Params` and optional methods of the class and its bases; all of them if a base is not in this file."""
    own = {s.name for s in declaration.body if isinstance(s, ast.FunctionDef | ast.ClassDef)}
    own |= {name for name, _ in _class_assignments(declaration)}
    brings = own & _BRINGS
    for base in declaration.bases:
        brings |= bases.get(_dotted(base), _BRINGS)
    return frozenset(_BRINGS if declaration.decorator_list or declaration.keywords else brings)


def _summary(declaration: ast.FunctionDef | ast.ClassDef) -> str:
    return (ast.get_docstring(declaration) or "").partition("\n")[0].strip()


def _class_action(declaration: ast.ClassDef, shown: str, brings: frozenset[str]) -> FoundAction | None:
    values = dict(_class_assignments(declaration))
    name = _literal(values.get("name"), str)
    if name is None:
        return None
    return FoundAction(
        name=name,
        attribute=declaration.name,
        path=shown,
        version=_literal(values.get("version"), str) or "",
        outputs=_literal(values.get("outputs"), dict),
        deterministic=_literal(values.get("deterministic"), bool) or False,
        signature=None,
        brings=brings,
        summary=_summary(declaration),
        example=_literal(values.get("example"), str) or "",
    )


def _class_assignments(declaration: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    """`name = "x"`, `name: str = "x"` and `name, version = "x", "1.2"`."""
    for statement in declaration.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value:
            yield statement.target.id, statement.value
        elif isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Name):
                    yield target.id, statement.value
                elif isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
                    for part, value in zip(target.elts, statement.value.elts, strict=False):
                        if isinstance(part, ast.Name):
                            yield part.id, value
