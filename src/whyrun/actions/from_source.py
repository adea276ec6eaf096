"""Project code is compiled from its source in every process of ours that runs it, never taken from `__pycache__`.

Python believes a `.pyc` whose source has the same size and was written in the same second. An edit from `+ 1` to `+ 2`
right after a run fits that: the action's fingerprint would be the new one, and the code that runs the old.

What was read is noted by file, so that whoever planned with this code can tell whether it was that.
"""

from __future__ import annotations

import os
import sys
from importlib import machinery
from types import CodeType

Version = tuple[int, int, int]  # size and times of a file: no write leaves all of them as they were
Versions = tuple[Version | None, ...]

_read: dict[str, Version | None] = {}  # file → its version when it was read; None: it changed meanwhile


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
    root = f"{project.rstrip('/')}/"
    found = {path.removeprefix(root): version for path, version in _read.items()}
    _read.clear()
    return found


class _FromSource(machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        note(path)
        data = self.get_data(path)
        if version_of(path) != _read[path]:
            _read[path] = None
        code: CodeType = self.source_to_code(data, path)
        return code


def import_project_from_source(project: str) -> None:
    """For modules under this folder; a virtual environment inside it keeps its compiled files."""
    root = project.rstrip("/")
    elsewhere = tuple(entry.rstrip("/") for entry in sys.path if entry.startswith(f"{root}/"))
    finder = machinery.FileFinder.path_hook(
        (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES),
        (_FromSource, machinery.SOURCE_SUFFIXES),
    )

    def hook(path: str) -> machinery.FileFinder:
        inside = path == root or path.startswith(f"{root}/")
        if not inside or any(path == entry or path.startswith(f"{entry}/") for entry in elsewhere):
            raise ImportError(f"{path} is not the project's own", path=path)
        found = finder(path)
        assert isinstance(found, machinery.FileFinder)
        return found

    sys.path_hooks.insert(0, hook)
    sys.path_importer_cache.clear()
