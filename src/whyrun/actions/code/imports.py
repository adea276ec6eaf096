"""Finds the project files that an action's code consists of, without running it: the entry file and all its imports.

All imports count, also those in functions or under conditions: running a step once too often costs time, but skipping a
step whose code changed is wrong. Computed module names are not found; the job's `code:` lists such files.

Code may change `sys.path` or load files by name (`spec_from_file_location`, …). Which file it loads is not known before
it runs, so every file counts that one of its string constants may name.

A file counts by its canonical form. If any file of the code reads docstrings, the docstrings of all its files count,
because a function can be passed to the reader. If any file reads source code, all files count by their bytes.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path

import msgspec

from whyrun.actions.code.discovery import ACTIONS_FOLDER
from whyrun.actions.code.dynamic_imports import possible_code
from whyrun.actions.code.editable import Editable, editable_in
from whyrun.actions.code.import_facts import FileFacts, Import
from whyrun.actions.code.module_files import ModuleIndex, files_below, files_of, package_inits, read_module, shown_path
from whyrun.actions.code.source import SourceError, TextRead, parse_source, source_sha256

# Libraries that turn the docstrings of functions and classes into prompts or tool descriptions. Code that imports one
# uses its docstrings as data without mentioning `__doc__`. Users of these libraries re-run steps after every edit of a
# docstring, so the list has only libraries made for this purpose. Libraries that turn docstrings into help texts
# (click, typer, fire, docopt) are not listed: no result depends on help texts.
DOCSTRING_READERS = frozenset(
    {
        "agents",  # openai-agents
        "crewai",
        "dspy",
        "fastmcp",
        "google.adk",
        "haystack",
        "instructor",
        "langchain",  # and its parts: langchain_core, langchain_openai, …
        "langgraph",
        "llama_index",
        "magentic",
        "marvin",
        "mcp",
        "ollama",
        "pydantic_ai",
        "semantic_kernel",
        "smolagents",
    }
)


class ProjectCode(msgspec.Struct, frozen=True):
    """The project files that code consists of, by path relative to the project, and the files that do not parse."""

    digests: tuple[tuple[str, str], ...]
    problems: tuple[str, ...]
    changes_sys_path: bool  # it may change where modules are found


class ExtraModules(msgspec.Struct, frozen=True):
    """The Python files that `code:` lists. They are hashed as data, but may read the text of the action's code."""

    files: Mapping[str, FileFacts]
    reads: TextRead


NO_EXTRA_MODULES = ExtraModules({}, TextRead.NOTHING)


def read_extra_modules(project: Path, paths: Iterable[Path]) -> ExtraModules:
    root = str(project).rstrip("/")
    editable = editable_in(root)
    files = _readable(paths, root)
    reads = max((_reads(path, facts, root, editable) for path, facts in files.items()), default=TextRead.NOTHING)
    return ExtraModules(files, reads)


def project_code(
    project: Path,
    entry: Path,
    *,
    imported: bool,
    extra: ExtraModules = NO_EXTRA_MODULES,
    modules: ModuleIndex | None = None,
) -> ProjectCode:
    """A file and, transitively, every project module it imports.

    `imported`: the entry is imported by its module name, which also runs the `__init__.py` of its packages. Scripts and
    actions of the project are not. `modules`: an index of the project's modules, if a recent one exists.
    """
    root = str(project).rstrip("/")
    editable = editable_in(root)
    found: dict[str, FileFacts] = {}
    problems: list[str] = []
    reads = extra.reads
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
        files, by_imports = _follow(facts, root, os.path.dirname(path), editable)
        queue.extend(files)
        reads = max(reads, facts.reads, by_imports)
    possible = possible_code(found, extra.files, root, modules or ModuleIndex(root), editable)
    reads = max((reads, *(_reads(path, facts, root, editable) for path, facts in possible.items())))
    shown = ((shown_path(path, root), facts) for path, facts in (found | possible).items())
    digests = ((name, _digest(facts, name, reads)) for name, facts in shown)
    changes_sys_path = any(facts.changes_sys_path for facts in (found | possible).values())
    return ProjectCode(tuple(sorted(digests)), tuple(sorted(problems)), changes_sys_path)


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


def _follow(facts: FileFacts, project: str, folder: str, editable: Editable) -> tuple[list[str], TextRead]:
    """The project files that a file imports, and what the libraries it imports read of its text."""
    files: list[str] = []
    reads = TextRead.NOTHING
    for found in facts.imports:
        own = list(files_of(found, project, folder, editable))
        files.extend(own)
        if not own:  # the project comes before installed packages: its `agents.py` is not the library `agents`
            reads = max(reads, _read_by_library(found))
    return files, reads


def _readable(paths: Iterable[Path], project: str) -> dict[str, FileFacts]:
    found: dict[str, FileFacts] = {}
    for path in map(str, paths):
        try:
            found[path] = read_module(path, project)
        except SourceError:
            continue  # `code:` may list files that are not Python
    return found


def _reads(path: str, facts: FileFacts, project: str, editable: Editable) -> TextRead:
    return max(facts.reads, _follow(facts, project, os.path.dirname(path), editable)[1])


def _read_by_library(found: Import) -> TextRead:
    """`import dspy`, `from langchain_core.tools import tool`, `from google import adk`; `import tokenize`."""
    if found.level or not found.module:
        return TextRead.NOTHING
    for parts in [(*found.module, name) for name in found.names] or [found.module]:
        top = "langchain" if parts[0].startswith("langchain_") else parts[0]
        if top == "tokenize":
            return TextRead.SOURCE
        if top == "doctest" or top in DOCSTRING_READERS or ".".join(parts[:2]) in DOCSTRING_READERS:
            return TextRead.DOCSTRINGS
    return TextRead.NOTHING


def _digest(facts: FileFacts, shown: str, reads: TextRead) -> str:
    if facts.source is None or reads is TextRead.NOTHING:
        return facts.sha256
    if reads is TextRead.SOURCE:
        return hashlib.sha256(facts.source).hexdigest()
    return _sha256_with_docstrings(facts.source, shown)


@lru_cache(maxsize=4096)
def _sha256_with_docstrings(data: bytes, shown: str) -> str:
    return source_sha256(parse_source(data, shown), docstrings=True)
