"""Finds the project files that an action's code consists of, without running it: the entry file and all its imports.

All import statements count, also those in functions or under conditions: running a step once too often costs time, but
skipping a step whose code changed is wrong. What a step loads in another way is observed while it runs.

A file counts by its canonical form. If any file of the code names docstrings, the docstrings of all its files count,
because a function can be passed to the reader. A file that a step opens as text counts by its bytes; that is observed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

import msgspec

from whyrun.actions.code.discovery import ACTIONS_FOLDER
from whyrun.actions.code.editable import Editable, editable_in
from whyrun.actions.code.import_facts import FileFacts, Import
from whyrun.actions.code.module_files import files_below, files_of, package_inits, read_module, shown_path
from whyrun.actions.code.source import SourceError, parse_source, source_sha256


class ProjectCode(msgspec.Struct, frozen=True):
    """The project files that code consists of, by path relative to the project, and the files that do not parse."""

    digests: tuple[tuple[str, str], ...]
    problems: tuple[str, ...]


def any_names_docstrings(project: Path, paths: Iterable[Path]) -> bool:
    """Whether one of the Python files that `code:` lists does: it may be handed a function of the action."""
    root = str(project).rstrip("/")
    for path in map(str, paths):
        try:
            if read_module(path, root).names_docstrings:
                return True
        except SourceError:
            continue  # `code:` may list files that are not Python
    return False


def project_code(project: Path, entry: Path, *, imported: bool, with_docstrings: bool = False) -> ProjectCode:
    """A file and, transitively, every project module that it imports.

    `imported`: the entry is imported by its module name, which also runs the `__init__.py` of its packages. Scripts and
    actions of the project are not. `with_docstrings`: docstrings count, whatever the code names.
    """
    root = str(project).rstrip("/")
    editable = editable_in(root)
    found: dict[str, FileFacts] = {}
    problems: list[str] = []
    queue = [str(entry)]
    queue.extend(_run_with_entry(root, queue[0], editable, imported))
    seen: set[str] = set()
    while queue:
        path = queue.pop()
        if path in seen:
            continue
        seen.add(path)
        try:
            facts = read_module(path, root)
        except SourceError as problem:
            problems.append(str(problem))
            continue
        found[path] = facts
        for each in facts.imports:
            queue.extend(files_of(each, root, os.path.dirname(path), editable))
    with_docstrings = with_docstrings or any(facts.names_docstrings for facts in found.values())
    shown = ((shown_path(path, root), facts) for path, facts in found.items())
    digests = ((name, _digest(facts, name, with_docstrings)) for name, facts in shown)
    return ProjectCode(tuple(sorted(digests)), tuple(sorted(problems)))


def _run_with_entry(root: str, entry: str, editable: Editable, imported: bool) -> Iterator[str]:
    """The files that run before the entry or instead of it: its packages, or a compiled module of the same name.

    A script runs alone; an action is a module of its own folder.
    """
    folder, name = os.path.split(entry)
    module = name.partition(".")[0]
    if imported:
        yield from package_inits(root, folder)
        parts = os.path.relpath(os.path.join(folder, module), root).split(os.sep)
        if parts[-1] == "__init__":
            parts.pop()
        yield from files_of(Import(0, tuple(parts)), root, root, editable)
    elif folder == os.path.join(root, ACTIONS_FOLDER):
        yield from files_below(folder, Import(0, (module,)), root)


def _digest(facts: FileFacts, shown: str, with_docstrings: bool) -> str:
    if facts.source is None or not with_docstrings:
        return facts.sha256
    return _sha256_with_docstrings(facts.source, shown)


@lru_cache(maxsize=4096)
def _sha256_with_docstrings(data: bytes, shown: str) -> str:
    return source_sha256(parse_source(data, shown), docstrings=True)
