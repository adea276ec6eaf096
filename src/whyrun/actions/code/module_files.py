"""Finds the project files that an import runs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from importlib.machinery import EXTENSION_SUFFIXES

from whyrun.actions.code.editable import Editable, is_below
from whyrun.actions.code.import_facts import FileFacts, Import, read_facts
from whyrun.actions.code.source import SourceError, read_source

COMPILED = tuple(EXTENSION_SUFFIXES)


def read_module(path: str, project: str) -> FileFacts:
    shown = shown_path(path, project)
    data = read_source(path, shown)
    if path.endswith(COMPILED):  # the imports of a compiled module cannot be read
        return FileFacts(hashlib.sha256(data).hexdigest())
    return read_facts(data, shown)


def shown_path(path: str, project: str) -> str:
    return path[len(project) + 1 :] if is_below(path, project) else os.path.basename(path)


def files_of(import_: Import, project: str, folder: str, editable: Editable) -> Iterator[str]:
    """The files that an import in a file of `folder` runs."""
    root = project
    if import_.level:
        root = folder
        for _ in range(import_.level - 1):
            root = os.path.dirname(root)
        if root != project and not is_below(root, project):
            return
        yield from package_inits(project, root)
    yield from files_below(root, import_, project)
    if editable and not import_.level and import_.module and not _is_module(f"{project}/{import_.module[0]}"):
        files = _installed_files(import_, project, editable)
        yield from (path for path in files if is_below(path, project))


def _installed_files(import_: Import, project: str, editable: Editable) -> Iterator[str]:
    """In import order. A folder without `__init__.py` does not end the search; a module or package does."""
    for root in editable.folders:
        top = f"{root}/{import_.module[0]}"
        if is_below(root, project) or is_below(f"{project}/", top):  # otherwise it is outside the project
            yield from files_below(root, import_, project)
            if _is_module(top):
                return
    for one in (import_, *(Import(0, (*import_.module, name)) for name in import_.names)):
        for parts in range(len(one.module), 0, -1):
            for path in editable.mapped.get(one.module[:parts], ()):
                root, name = os.path.split(path)
                yield from files_below(root, Import(0, (name, *one.module[parts:]), one.names), project)


def _is_module(path: str) -> bool:
    return bool(_variants(f"{path}/__init__") or _variants(path))


def files_below(root: str, import_: Import, project: str) -> Iterator[str]:
    yield from _module_files(root, import_.module)
    for name in import_.names:
        if name == "*":
            yield from _star_files(project, root, import_.module)
        else:
            yield from _module_files(root, (*import_.module, name))


def package_inits(project: str, folder: str) -> Iterator[str]:
    while is_below(folder, project):
        yield from _variants(f"{folder}/__init__")
        folder = os.path.dirname(folder)


def _module_files(root: str, parts: Iterable[str]) -> Iterator[str]:
    """The file of `a.b.c` below a folder, and the `__init__.py` of each package above it."""
    folder = root
    for part in parts:
        package = f"{folder}/{part}"
        is_folder = os.path.isdir(package)
        if is_folder and (inits := _variants(f"{package}/__init__")):
            yield from inits
        elif modules := _variants(package):
            yield from modules
            return  # a module contains no modules: the next part is one of its names
        elif not is_folder:
            return
        folder = package


def _variants(module: str) -> list[str]:
    """The compiled and source files of a module. Python prefers the compiled one, but both count: it may be removed."""
    return [file for suffix in (*COMPILED, ".py") if os.path.isfile(file := module + suffix)]


def _star_files(project: str, root: str, module: tuple[str, ...]) -> Iterator[str]:
    """`from package import *` imports the modules that the package lists in `__all__`."""
    package = os.path.join(root, *module)
    init = f"{package}/__init__.py"
    if not os.path.isfile(init):
        return
    try:
        exports = read_module(init, project).exports
    except SourceError:
        return  # the import itself reports this file
    if exports is None:
        exports = tuple(sorted({name.partition(".")[0] for name in os.listdir(package)}))
    for name in exports:
        yield from _module_files(package, (name,))
