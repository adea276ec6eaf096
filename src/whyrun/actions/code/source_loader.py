"""Imports project code from its source, never from `__pycache__`, and records which version of each file it read.

Python trusts a `.pyc` file whose source has the same size and modification second. An edit from `+ 1` to `+ 2` right
after a run keeps both: the action would get the new fingerprint but run the old code.

The host compares the recorded versions with those that it planned with.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import machinery
from types import CodeType, ModuleType
from typing import Any

from whyrun.actions.code.editable import is_below, is_editable_finder, is_own, path_in_project

Version = tuple[int, int, int]  # size, mtime and ctime of a file: every write changes at least one of them
Versions = tuple[Version | None, ...]

_compiled: dict[str, tuple[bytes, CodeType]] = {}  # file → its source, and the code
_compiled_here: list[str] = []
_read: dict[str, Version | None] = {}  # file → its version when it was read; None: it changed during the read
_is_project_file: Callable[[str], bool] = lambda path: False  # noqa: E731  # until the project is known


def version_of(path: str) -> Version | None:
    """None: the file does not exist or cannot be reached."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def record_read(path: str) -> None:
    """Record that this process reads a file now."""
    _read[path] = version_of(path)


def take_recorded_reads(project: str) -> dict[str, Version | None]:
    """The files read since the last call, by path relative to the project."""
    root = project.rstrip("/")
    reads = {(path_in_project(path, root) or path).removeprefix(f"{root}/"): version for path, version in _read.items()}
    _read.clear()
    return reads


def _code_from_source(loader: machinery.SourceFileLoader, fullname: str) -> CodeType:
    path = loader.get_filename(fullname)
    record_read(path)
    data = loader.get_data(path)
    if version_of(path) != _read[path]:
        _read[path] = None
    kept = _compiled.get(path)
    if kept is not None and kept[0] == data:
        return kept[1]
    code: CodeType = loader.source_to_code(data, path)
    _compiled_here.append(path)
    return code


def take_compiled() -> list[str]:
    """The project files that this process has compiled since the last call."""
    paths = [*_compiled_here]
    _compiled_here.clear()
    return paths


def compile_ahead(paths: Sequence[str]) -> None:
    """Compile files for the processes that are forked from here on. They still read each file, and take the compiled
    code only for exactly these bytes. Code that the compiler warns about is left to each process, so that each step
    prints the warning."""
    for path in paths:
        try:
            with open(path, "rb") as file:
                data = file.read()
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                code = compile(data, path, "exec", dont_inherit=True)
        except (OSError, SyntaxError, ValueError):
            continue  # it has changed since, and a step that imports it will report that
        if not warned:
            _compiled[path] = data, code


class _SourceLoader(machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        return _code_from_source(self, fullname)


_get_code = machinery.SourceFileLoader.get_code


def _get_project_code(loader: machinery.SourceFileLoader, fullname: str) -> CodeType | None:
    """Replaces `SourceFileLoader.get_code`, for code that creates a loader itself: `spec_from_file_location(…)`."""
    if _is_project_file(loader.path):
        return _code_from_source(loader, fullname)
    return _get_code(loader, fullname)


class _EditableFinder:
    """Wraps the finder of an editable installation, which maps names to files without using `sys.path_hooks`."""

    def __init__(self, finder: Any, is_inside: Callable[[str], bool]) -> None:
        self._finder = finder
        self._is_inside = is_inside

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> machinery.ModuleSpec | None:
        spec: machinery.ModuleSpec | None = self._finder.find_spec(fullname, path, target)
        loader = spec.loader if spec is not None else None
        if spec is not None and type(loader) is machinery.SourceFileLoader and self._is_inside(loader.path):
            spec.loader = _SourceLoader(loader.name, loader.path)
        return spec

    def __getattr__(self, name: str) -> Any:
        return getattr(self._finder, name)


def import_project_from_source(project: str, apart: str = "") -> None:
    """Import modules below this folder from source, also those found through an editable installation.

    A virtual environment inside the project keeps its compiled files, and so do those in the folder `apart`.
    """
    root = project.rstrip("/")
    roots = {root, os.path.realpath(root)}  # an installation may know the project by either path
    entries = {(entry.rstrip("/"), each) for entry in sys.path for each in roots if is_below(entry, each)}
    elsewhere = (*(entry for entry, each in entries if not is_own(entry, each)), *filter(None, [apart]))

    def is_inside(path: str) -> bool:
        inside = path in roots or any(is_below(path, each) for each in roots)
        return inside and not any(path == entry or is_below(path, entry) for entry in elsewhere)

    finder = machinery.FileFinder.path_hook(
        (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES),
        (_SourceLoader, machinery.SOURCE_SUFFIXES),
    )

    def hook(path: str) -> machinery.FileFinder:
        if not is_inside(path):
            raise ImportError(f"{path} does not belong to the project", path=path)
        file_finder = finder(path)
        assert isinstance(file_finder, machinery.FileFinder)
        return file_finder

    global _is_project_file
    _is_project_file = is_inside
    machinery.SourceFileLoader.get_code = _get_project_code  # type: ignore[method-assign, assignment]
    sys.path_hooks.insert(0, hook)
    for number, each_finder in enumerate(sys.meta_path):
        if is_editable_finder(each_finder):
            sys.meta_path[number] = _EditableFinder(each_finder, is_inside)
    sys.path_importer_cache.clear()
