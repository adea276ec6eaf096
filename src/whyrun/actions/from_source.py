"""Project code is compiled from its source in every process of ours that runs it, never taken from `__pycache__`.

Python believes a `.pyc` whose source has the same size and was written in the same second. An edit from `+ 1` to `+ 2`
right after a run fits that: the action's fingerprint would be the new one, and the code that runs the old.
"""

from __future__ import annotations

import sys
from importlib import machinery
from types import CodeType


class _FromSource(machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
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
