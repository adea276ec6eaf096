"""Which files of the project a piece of code consists of: itself and whatever it imports, found by reading.

Imports count wherever they stand, also in a function or under a condition that may never hold: to run a step once too
often costs time, to skip one whose code has changed is wrong. What only running the code would tell, such as a module
name that is computed, is not found; `code:` of the job names such files.
"""

from __future__ import annotations

import ast
import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from whyrun.actions.source import SourceError, parse_source, read_source, source_sha256

# Functions that import what their first argument names: of `importlib`, of Python itself and of `runpy`.
_IMPORTERS = frozenset({"import_module", "__import__", "run_module"})
_COMPILED = tuple(EXTENSION_SUFFIXES)


@dataclass(frozen=True, slots=True)
class ProjectCode:
    """Files of the project that code consists of, by path relative to the project; and those that do not parse."""

    digests: tuple[tuple[str, str], ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Import:
    """`import a.b` has no names; `from ..a import b, c` has level 2."""

    level: int
    module: tuple[str, ...]
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileFacts:
    sha256: str
    imports: tuple[Import, ...] = ()
    exports: tuple[str, ...] | None = ()  # what `__all__` lists; None where the source does not show it


def project_code(project: Path, entry: Path, *, imported: bool) -> ProjectCode:
    """A file and, transitively, every project module it imports.

    `imported`: the entry is itself imported by its name, which runs the `__init__.py` of each package it lies in;
    a script or an action of the project is not.
    """
    root = str(project).rstrip("/")
    digests: dict[str, str] = {}
    problems: list[str] = []
    queue = [str(entry)]
    if imported:
        queue.extend(_package_inits(root, os.path.dirname(queue[0])))
    seen: set[str] = set()
    while queue:
        path = queue.pop()
        if path in seen:
            continue
        seen.add(path)
        shown = _shown(path, root)
        try:
            facts = _read(path, shown)
        except SourceError as problem:
            problems.append(str(problem))
            continue
        digests[shown] = facts.sha256
        for found in facts.imports:
            queue.extend(_files_of(found, root, os.path.dirname(path)))
    return ProjectCode(tuple(sorted(digests.items())), tuple(sorted(problems)))


# --- what one file says ------------------------------------------------------------------------------------------


def _read(path: str, shown: str) -> FileFacts:
    data = read_source(path, shown)
    if path.endswith(_COMPILED):  # what it imports cannot be read
        return FileFacts(hashlib.sha256(data).hexdigest())
    return facts_of(data, shown)


@lru_cache(maxsize=4096)
def facts_of(data: bytes, shown: str) -> FileFacts:
    """Many jobs share one module: it is looked through once."""
    tree = parse_source(data, shown)
    return FileFacts(source_sha256(tree), tuple(dict.fromkeys(imports_in(tree))), _exports(tree))


def imports_in(tree: ast.Module) -> Iterator[Import]:
    nodes = list(ast.walk(tree))
    importers = _IMPORTERS | {
        alias.asname
        for node in nodes
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname and alias.name in _IMPORTERS
    }
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(0, tuple(alias.name.split(".")))
        elif isinstance(node, ast.ImportFrom):
            module = tuple(node.module.split(".")) if node.module else ()
            yield Import(node.level, module, tuple(alias.name for alias in node.names))
        elif isinstance(node, ast.Call) and _last_name(node.func) in importers:
            found = _called_import(node)
            if found is not None:
                yield found


def _last_name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _called_import(call: ast.Call) -> Import | None:
    """`import_module("a.b")`, `import_module(".b", "a")`, `import_module(".b", __package__)`."""
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    name = _text(call.args[0] if call.args else keywords.get("name", keywords.get("mod_name")))
    if name is None:
        return None
    parts = name.lstrip(".")
    level = len(name) - len(parts)
    module = tuple(parts.split(".")) if parts else ()
    package = _text(call.args[1] if len(call.args) > 1 else keywords.get("package"))
    if level and package:
        above = package.split(".")
        level, module = 0, (*above[: len(above) - level + 1], *module)
    # A file's name may be any, such as `my-model.py`, but nothing that leads elsewhere.
    return Import(level, module) if all(part and not {"/", "\0"} & set(part) for part in module) else None


def _text(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _exports(tree: ast.Module) -> tuple[str, ...] | None:
    """The names that `import *` takes by `__all__`; None where it is not a plain list."""
    names: list[str] = []
    plain, mentioned = 0, 0
    for node in ast.walk(tree):
        mentioned += isinstance(node, ast.Name) and node.id == "__all__"
        mentioned += isinstance(node, ast.alias) and "__all__" in (node.name, node.asname)
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            listed = _listed(node.value)
            if listed is not None and [t.id for t in targets if isinstance(t, ast.Name)] == ["__all__"]:
                plain += 1
                names.extend(listed)
    return tuple(names) if plain == mentioned else None


def _listed(node: ast.expr | None) -> list[str] | None:
    if not isinstance(node, ast.List | ast.Tuple):
        return None
    texts = [_text(member) for member in node.elts]
    return [text for text in texts if text is not None] if None not in texts else None


# --- where modules are -------------------------------------------------------------------------------------------


def _files_of(found: Import, project: str, folder: str) -> Iterator[str]:
    root = project
    if found.level:
        root = folder
        for _ in range(found.level - 1):
            root = os.path.dirname(root)
        if root != project and not _is_below(root, project):
            return
        yield from _package_inits(project, root)
    yield from module_files(root, found.module)
    for name in found.names:
        if name == "*":
            yield from _star_files(project, root, found.module)
        else:
            yield from module_files(root, (*found.module, name))


def _star_files(project: str, root: str, module: tuple[str, ...]) -> Iterator[str]:
    """`from package import *` imports the modules that the package lists in `__all__`."""
    package = os.path.join(root, *module)
    init = f"{package}/__init__.py"
    if not os.path.isfile(init):
        return
    try:
        exports = _read(init, _shown(init, project)).exports
    except SourceError:
        return  # it is one of the files of this import, and told as such
    if exports is None:
        exports = tuple(sorted({name.partition(".")[0] for name in os.listdir(package)}))
    for name in exports:
        yield from module_files(package, (name,))


def _package_inits(project: str, folder: str) -> Iterator[str]:
    while _is_below(folder, project):
        if os.path.isfile(init := f"{folder}/__init__.py"):
            yield init
        folder = os.path.dirname(folder)


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/")


def _shown(path: str, project: str) -> str:
    return path[len(project) + 1 :] if _is_below(path, project) else os.path.basename(path)


def module_files(root: str, parts: Iterable[str]) -> Iterator[str]:
    """The file of `a.b.c` below a folder, and the `__init__.py` of each package on the way."""
    folder = root
    for part in parts:
        package = f"{folder}/{part}"
        if os.path.isfile(init := f"{package}/__init__.py"):
            yield init
        else:
            modules = [f for suffix in (*_COMPILED, ".py") if os.path.isfile(f := package + suffix)]
            if modules:
                yield from modules  # a compiled one goes before a source; that it may be removed is no concern here
                return  # a module has no modules below it; the next part is one of its names
            if not os.path.isdir(package):
                return
        folder = package
