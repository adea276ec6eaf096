"""The modules of a project by name, wherever they lie: for imports that may come from a folder which nobody can read.

A project may hold far more data than code, so it is looked through once for all jobs of a plan, and only if need be.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from whyrun.actions.module_files import COMPILED


class ModuleNames:
    """What was seen is remembered: have one for each plan, and another to look again."""

    def __init__(self, project: str | os.PathLike[str]) -> None:
        self._project = os.fspath(project).rstrip("/")
        self._walks: dict[str, _Walk] = {}

    def places(self, name: str, near: Iterable[str]) -> set[str]:
        """The folders where a module or package of that name lies: in the project, and in folders that its walk left
        out, such as one behind a link."""
        own = self._below(self._project)
        left_out = [self._below(folder) for folder in near if folder not in own.folders]
        return {place for walk in (own, *left_out) for place in walk.places.get(name, ())}

    def _below(self, folder: str) -> _Walk:
        if folder not in self._walks:
            self._walks[folder] = _walk_below(folder, self._project)
        return self._walks[folder]


@dataclass(frozen=True, slots=True)
class _Walk:
    folders: frozenset[str]
    places: Mapping[str, set[str]]  # by top-level name, the folders to look it up in


def _walk_below(top: str, project: str) -> _Walk:
    folders: set[str] = set()
    places: dict[str, set[str]] = {}
    packages: set[str] = set()
    for folder, modules in _modules_below(top, project):
        folders.add(folder)
        for module in modules:
            places.setdefault(module.partition(".")[0], set()).add(folder)
        package = folder
        while modules and package != top and package not in packages:  # else those above it are there already
            packages.add(package)
            above, _, name = package.rpartition("/")
            places.setdefault(name, set()).add(above)
            package = above
    return _Walk(frozenset(folders), places)


def _modules_below(top: str, project: str) -> Iterator[tuple[str, list[str]]]:
    """By folder. Without hidden folders, what is installed, and, as in `code: "**"`, what links lead to."""
    if "/." in top[len(project) :]:
        return
    for folder, folders, files in os.walk(top):
        if folder != top and "pyvenv.cfg" in files:  # a virtual environment
            folders.clear()
            continue
        folders[:] = [name for name in folders if _may_hold_modules(name)]
        yield folder, [name for name in files if name.endswith((".py", *COMPILED))]


def _may_hold_modules(name: str) -> bool:
    return not (name.startswith(".") or name.endswith("-packages") or name == "node_modules")
