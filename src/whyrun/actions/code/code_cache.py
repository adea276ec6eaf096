"""Caches a project's code for one plan: the files that `code:` lists, by pattern, with their hashes.

Thousands of jobs may share a pattern, and a pattern may match thousands of files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whyrun.actions.code.imports import any_names_docstrings
from whyrun.artifacts.hashing import file_sha256
from whyrun.errors import WhyrunError, error

if TYPE_CHECKING:
    from whyrun.environments.images import Image
    from whyrun.environments.locks import Lock

_TRIES = 20
_COMPILED = "__pycache__"


class CodeCache:
    """Reads each file of the project once. Create one cache for each plan."""

    def __init__(self, project: Path, state_dir: Path | None = None) -> None:
        """`state_dir`: where it is recorded what tags of container images stand for."""
        self.project = project
        self._state_dir = state_dir
        self.fingerprints: dict[tuple[Any, ...], tuple[str, dict[str, Any]]] = {}
        self._matches: dict[str, list[Path]] = {}  # by pattern
        self._sha256: dict[Path, str] = {}
        self._code: dict[tuple[str, ...], dict[str, str]] = {}  # by all patterns of a job
        self._locks: dict[str, Lock] = {}
        self._with_docstrings: dict[tuple[str, ...], bool] = {}

    def matches(self, pattern: str) -> list[Path]:
        """The files that match a pattern. They are hashed at once: a temporary file of an editor may vanish later."""
        if pattern not in self._matches:
            self._matches[pattern] = _retry_if_files_vanish(lambda: self._hash(_glob_once(self.project, pattern)))
        return self._matches[pattern]

    def code(self, globs: tuple[str, ...]) -> dict[str, str]:
        """The files that `code:` lists, by path relative to the project, with their hashes; sorted by path bytes."""
        if globs not in self._code:
            hashes = {path.relative_to(self.project).as_posix(): self._sha256[path] for path in _matches(globs, self)}
            self._code[globs] = dict(sorted(hashes.items(), key=lambda item: item[0].encode()))
        return self._code[globs]

    @cached_property
    def images(self) -> Mapping[str, Image]:
        """What tags of container images stand for."""
        from whyrun.environments.images import recorded_images  # imported late: few jobs have a container

        return {} if self._state_dir is None else recorded_images(self._state_dir)

    def lock(self, path: str) -> Lock:
        """What a file locks that `environment:` names."""
        if path not in self._locks:
            from whyrun.environments.locks import read_lock  # imported late: most jobs have no environment

            self._locks[path] = read_lock(self.project, path)
        return self._locks[path]

    def names_docstrings(self, globs: tuple[str, ...]) -> bool:
        """Whether a Python file among them does; it may read those of the action's own modules."""
        if globs not in self._with_docstrings:
            try:
                modules = [path for path in _matches(globs, self) if path.suffix == ".py"]
            except WhyrunError:
                return False  # `code` raises the same error, after the source itself is checked
            self._with_docstrings[globs] = any_names_docstrings(self.project, modules)
        return self._with_docstrings[globs]

    def _hash(self, paths: list[Path]) -> list[Path]:
        for path in paths:
            if path not in self._sha256:
                self._sha256[path] = file_sha256(path)
        return paths


def matching_code_files(project: Path, globs: Sequence[str]) -> frozenset[str]:
    """The files that `code:` matches now, by path relative to the project; possibly none."""
    return frozenset(path.relative_to(project).as_posix() for pattern in globs for path in _glob(project, pattern))


def _glob(project: Path, pattern: str) -> list[Path]:
    return _retry_if_files_vanish(lambda: _glob_once(project, pattern))


def _retry_if_files_vanish(list_files: Callable[[], list[Path]]) -> list[Path]:
    for _ in range(_TRIES):
        try:
            return list_files()
        except FileNotFoundError:
            continue  # a file or folder was removed during the listing
    return list_files()


def _glob_once(project: Path, pattern: str) -> list[Path]:
    """As in patterns of inputs, `*` and `**` match no name that starts with a dot, so not our own state folder either.

    `__pycache__` is left out: Python writes it, and the modules themselves count.
    """
    dotted = [part for part in pattern.split("/") if part.startswith(".")]

    def is_allowed(part: str) -> bool:
        return any(fnmatchcase(part, each) for each in dotted) if part.startswith(".") else part != _COMPILED

    if pattern.endswith("/"):
        return []  # such a pattern names folders
    paths = (path for path in project.glob(_portable_glob(pattern)) if path.is_file())
    return [path for path in paths if all(map(is_allowed, path.relative_to(project).parts))]


def _portable_glob(pattern: str) -> str:
    """The pattern with the meaning of the newest pathlib in all versions: a final `**` also matches files, and `**`
    within a name is `*`."""
    parts = [part if part == "**" else re.sub(r"\*+", "*", part) for part in pattern.split("/") if part]
    return "/".join([*parts, "*"] if parts[-1:] == ["**"] else parts)


def _matches(globs: Sequence[str], cache: CodeCache) -> Iterator[Path]:
    for pattern in globs:
        if os.path.isabs(pattern) or ".." in Path(pattern).parts:
            raise error("PATH_OUTSIDE", f"`code: {pattern}` leaves the project folder", hint="use a path inside it")
        matches = cache.matches(pattern)
        if not matches:
            raise error(
                "FILE_MISSING",
                f"`code: {pattern}` matches no file",
                hint="patterns are relative to the project folder; `**/*.py` also looks into subfolders",
            )
        yield from matches
