"""What was seen of a project's code for one plan: the files that `code:` names, by pattern, with their hashes.

Thousands of jobs may share a pattern, and a pattern may find thousands of files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from whyrun.actions.imports import NOTHING_BESIDE, Beside, read_beside
from whyrun.actions.module_names import ModuleNames
from whyrun.artifacts.hashing import file_sha256
from whyrun.errors import WhyrunError, error

_TRIES = 20
_COMPILED = "__pycache__"


class SeenCode:
    """Of a project. What was seen is remembered: have one for each plan, and another to look again."""

    def __init__(self, project: Path) -> None:
        self.project = project
        self.modules = ModuleNames(project)
        self.fingerprints: dict[tuple[Any, ...], tuple[str, dict[str, Any]]] = {}
        self._found: dict[str, list[Path]] = {}  # by pattern
        self._sha256: dict[Path, str] = {}
        self._code: dict[tuple[str, ...], dict[str, str]] = {}  # by all patterns of a job
        self._beside: dict[tuple[str, ...], Beside] = {}

    def found(self, pattern: str) -> list[Path]:
        """With their hashes, taken at once: what an editor puts there for a moment is gone at the next look."""
        if pattern not in self._found:
            self._found[pattern] = _while_folders_change(lambda: self._read(_found_now(self.project, pattern)))
        return self._found[pattern]

    def code(self, globs: tuple[str, ...]) -> dict[str, str]:
        """The files that `code:` names, by path relative to the project, with their hashes; ordered by path bytes."""
        if globs not in self._code:
            found = {path.relative_to(self.project).as_posix(): self._sha256[path] for path in _matches(globs, self)}
            self._code[globs] = dict(sorted(found.items(), key=lambda item: item[0].encode()))
        return self._code[globs]

    def beside(self, globs: tuple[str, ...]) -> Beside:
        """Those of them that may read the docstrings or the source of the action's own modules."""
        if globs not in self._beside:
            try:
                modules = [path for path in _matches(globs, self) if path.suffix == ".py"]
            except WhyrunError:
                return NOTHING_BESIDE  # `code` tells, once the source itself is found to be in order
            self._beside[globs] = read_beside(self.project, modules)
        return self._beside[globs]

    def _read(self, paths: list[Path]) -> list[Path]:
        for path in paths:
            if path not in self._sha256:
                self._sha256[path] = file_sha256(path)
        return paths


def named_files(project: Path, globs: Sequence[str]) -> frozenset[str]:
    """What `code:` names now, by path relative to the project; it may be nothing."""
    return frozenset(path.relative_to(project).as_posix() for pattern in globs for path in _found(project, pattern))


def _found(project: Path, pattern: str) -> list[Path]:
    return _while_folders_change(lambda: _found_now(project, pattern))


def _while_folders_change(look: Callable[[], list[Path]]) -> list[Path]:
    for _ in range(_TRIES):
        try:
            return look()
        except FileNotFoundError:
            continue  # a file or folder was removed while it was looked at: what is there now?
    return look()


def _found_now(project: Path, pattern: str) -> list[Path]:
    """As patterns of inputs have it: `*` and `**` stand for no name that begins with a dot, among them that of our own
    state. And what Python keeps of a module that it has read is not written by anybody: the module is."""
    dotted = [part for part in pattern.split("/") if part.startswith(".")]

    def is_meant(part: str) -> bool:
        return any(fnmatchcase(part, each) for each in dotted) if part.startswith(".") else part != _COMPILED

    if pattern.endswith("/"):
        return []  # which names folders
    paths = (path for path in project.glob(_as_pathlib_has_it(pattern)) if path.is_file())
    return [path for path in paths if all(map(is_meant, path.relative_to(project).parts))]


def _as_pathlib_has_it(pattern: str) -> str:
    """Where its versions differ, as the newest does: `**` at the end also finds files, and in a name it is `*`."""
    parts = [part if part == "**" else re.sub(r"\*+", "*", part) for part in pattern.split("/") if part]
    return "/".join([*parts, "*"] if parts[-1:] == ["**"] else parts)


def _matches(globs: Sequence[str], seen: SeenCode) -> Iterator[Path]:
    for pattern in globs:
        if os.path.isabs(pattern) or ".." in Path(pattern).parts:
            raise error("PATH_OUTSIDE", f"`code: {pattern}` leaves the project folder", hint="use a path inside it")
        matches = seen.found(pattern)
        if not matches:
            raise error(
                "FILE_MISSING",
                f"`code: {pattern}` matches no file",
                hint="patterns are relative to the project folder; `**/*.py` also looks into subfolders",
            )
        yield from matches
