"""Project code is compiled from its source in every process of ours that runs it, never taken from `__pycache__`.

Python believes a `.pyc` whose source has the same size and was written in the same second. An edit from `+ 1` to `+ 2`
right after a run fits that: the action's fingerprint would be the new one, and the code that runs the old.

What was read is noted by file, so that whoever planned with this code can tell whether it was that.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import invalidate_caches, machinery
from types import CodeType, ModuleType
from typing import Any

from whyrun.actions.editable import is_below, is_editable_finder, is_own, place_in

Version = tuple[int, int, int]  # size and times of a file: no write leaves all of them as they were
Versions = tuple[Version | None, ...]

_read: dict[str, Version | None] = {}  # file → its version when it was read; None: it changed meanwhile
_is_project_file: Callable[[str], bool] = lambda path: False  # noqa: E731  # until it is known which project


def version_of(path: str) -> Version | None:
    """None: gone, or out of reach."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns


def note(path: str) -> None:
    """That a file is read now."""
    _read[path] = version_of(path)


def take_noted(project: str) -> dict[str, Version | None]:
    """What was read since the last call, by path in the project."""
    root = project.rstrip("/")
    found = {(place_in(path, root) or path).removeprefix(f"{root}/"): version for path, version in _read.items()}
    _read.clear()
    return found


def _code_from_source(loader: machinery.SourceFileLoader, fullname: str) -> CodeType:
    path = loader.get_filename(fullname)
    note(path)
    data = loader.get_data(path)
    if version_of(path) != _read[path]:
        _read[path] = None
    code: CodeType = loader.source_to_code(data, path)
    return code


class _FromSource(machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        return _code_from_source(self, fullname)


_get_code = machinery.SourceFileLoader.get_code


def _get_project_code(loader: machinery.SourceFileLoader, fullname: str) -> CodeType | None:
    """For who makes a loader for a file of the project by hand: `spec_from_file_location("k", "plugins/k.py")`."""
    if _is_project_file(loader.path):
        return _code_from_source(loader, fullname)
    return _get_code(loader, fullname)


class _Mapped:
    """A finder of an editable installation. It maps names to files by itself, past `sys.path_hooks`."""

    def __init__(self, finder: Any, is_inside: Callable[[str], bool]) -> None:
        self._finder = finder
        self._is_inside = is_inside

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> machinery.ModuleSpec | None:
        spec: machinery.ModuleSpec | None = self._finder.find_spec(fullname, path, target)
        loader = spec.loader if spec is not None else None
        if spec is not None and type(loader) is machinery.SourceFileLoader and self._is_inside(loader.path):
            spec.loader = _FromSource(loader.name, loader.path)
        return spec

    def __getattr__(self, name: str) -> Any:
        return getattr(self._finder, name)


def import_project_from_source(project: str) -> None:
    """For modules under this folder, also those that are found through an editable installation; a virtual environment
    inside it keeps its compiled files."""
    root = project.rstrip("/")
    roots = {root, os.path.realpath(root)}  # what is installed may know it by either
    entries = {(entry.rstrip("/"), each) for entry in sys.path for each in roots if is_below(entry, each)}
    elsewhere = tuple(entry for entry, each in entries if not is_own(entry, each))

    def is_inside(path: str) -> bool:
        inside = path in roots or any(is_below(path, each) for each in roots)
        return inside and not any(path == entry or is_below(path, entry) for entry in elsewhere)

    finder = machinery.FileFinder.path_hook(
        (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES),
        (_FromSource, machinery.SOURCE_SUFFIXES),
    )

    def hook(path: str) -> machinery.FileFinder:
        if not is_inside(path):
            raise ImportError(f"{path} is not the project's own", path=path)
        found = finder(path)
        assert isinstance(found, machinery.FileFinder)
        return found

    global _is_project_file
    _is_project_file = is_inside
    machinery.SourceFileLoader.get_code = _get_project_code  # type: ignore[method-assign, assignment]
    sys.path_hooks.insert(0, hook)
    for number, each_finder in enumerate(sys.meta_path):
        if is_editable_finder(each_finder):
            sys.meta_path[number] = _Mapped(each_finder, is_inside)
    sys.path_importer_cache.clear()


def take_project_modules() -> dict[str, ModuleType]:
    """As if nothing of the project had been imported in this process yet."""
    # All are looked at before any is taken: where a package without a file lies, its parent is asked.
    names = [
        name
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] not in ("__main__", "whyrun")  # a project may be the one of Whyrun itself
        and any(_is_project_file(place) for place in _places_of(module))
    ]
    taken = {name: sys.modules.pop(name) for name in names}
    invalidate_caches()
    return taken


def put_project_modules(modules: Mapping[str, ModuleType]) -> None:
    """Those that were taken out once."""
    sys.modules.update(modules)


def _places_of(module: Any) -> list[str]:
    """Its file; or the folders of a package that has none."""
    if not isinstance(module, ModuleType):
        return []
    facts = object.__getattribute__(module, "__dict__")  # a lazy one would be loaded by a plain look at it
    file = facts.get("__file__")
    places = [file] if file is not None else facts.get("__path__") or ()
    return [place for place in places if isinstance(place, str)]
