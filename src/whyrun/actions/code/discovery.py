"""The actions of a project's `actions/` folder, found by reading the files, never by importing them.

Found are functions with `@action("name", …)` and subclasses of `Action` with `name = "…"`, where the name is a literal.
Planning therefore runs no user code, and a file that is broken harms only workflows that use it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from whyrun.actions.base import HOOKS
from whyrun.actions.source import Signature, SourceError, parse_source, read_source, signature_of

ACTIONS_FOLDER = "actions"
_BRINGS = frozenset({"Params", *HOOKS})


@dataclass(frozen=True, slots=True)
class FoundAction:
    name: str
    attribute: str  # the function or class in the file
    path: str  # relative to the project
    version: str
    outputs: Mapping[str, str] | None  # None where the source does not show them as a literal
    deterministic: bool
    signature: Signature | None  # functions only
    # A class may bring `Params` and methods of its own: these names, which only running code can say more about.
    brings: frozenset[str] = frozenset()
    summary: str = ""
    example: str = ""


@dataclass(frozen=True, slots=True)
class BrokenFile:
    path: str
    problem: str
    text: str  # to see whether it speaks of an action by name


@dataclass(frozen=True, slots=True)
class ProjectActions:
    actions: Mapping[str, FoundAction]
    duplicates: Mapping[str, tuple[str, ...]]  # a name that is defined more than once: where
    broken: tuple[BrokenFile, ...]


def discover_project_actions(project: Path) -> ProjectActions:
    actions: dict[str, FoundAction] = {}
    places: dict[str, list[str]] = {}
    broken: list[BrokenFile] = []
    for file in action_files(project):
        shown = f"{ACTIONS_FOLDER}/{file.name}"
        try:
            found_here = _actions_in_source(read_source(file, shown), shown)
        except SourceError as problem:
            broken.append(BrokenFile(shown, str(problem), _text(file)))
            continue
        for found in found_here:
            places.setdefault(found.name, []).append(shown)
            actions.setdefault(found.name, found)
    duplicates = {name: tuple(where) for name, where in places.items() if len(where) > 1}
    return ProjectActions(actions, duplicates, tuple(broken))


def action_files(project: Path) -> list[Path]:
    folder = project / ACTIONS_FOLDER
    return sorted(folder.glob("*.py"), key=lambda path: path.name.encode()) if folder.is_dir() else []


@lru_cache(maxsize=256)
def _actions_in_source(data: bytes, shown: str) -> tuple[FoundAction, ...]:
    """Every job asks for its action; a file is looked through once, as long as its content is the same."""
    return tuple(actions_in(parse_source(data, shown), shown))


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:  # it is reported as broken already; here only its words are wanted
        return ""


def actions_in(tree: ast.Module, shown: str) -> Iterator[FoundAction]:
    decorators, actions = _local_names(tree)
    bases = dict.fromkeys(actions, frozenset[str]())  # a class that others may derive from → what it brings
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef):
            for decorator in statement.decorator_list:
                if isinstance(decorator, ast.Call) and _dotted(decorator.func) in decorators:
                    found = _function_action(statement, decorator, shown)
                    if found is not None:
                        yield found
        elif isinstance(statement, ast.ClassDef) and any(_dotted(base) in bases for base in statement.bases):
            brings = _brought_by(statement, bases)
            bases[statement.name] = brings  # a subclass of it is an action too
            found = _class_action(statement, shown, brings)
            if found is not None:
                yield found


def _local_names(tree: ast.Module) -> tuple[set[str], set[str]]:
    """How this file calls `whyrun.action` and `whyrun.Action`."""
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
    """`Params` and optional methods, the class's own and those of its bases; all where a base is not in this file."""
    own = {s.name for s in declaration.body if isinstance(s, ast.FunctionDef | ast.ClassDef)}
    own |= {name for name, _ in _class_assignments(declaration)}
    found = own & _BRINGS
    for base in declaration.bases:
        found |= bases.get(_dotted(base), _BRINGS)
    return frozenset(_BRINGS if declaration.decorator_list or declaration.keywords else found)


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
