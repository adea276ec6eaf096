"""Which files of the project a piece of code consists of: itself and whatever it imports, found by reading.

Imports count wherever they stand, also in a function or under a condition that may never hold: to run a step once too
often costs time, to skip one whose code has changed is wrong. What only running the code would tell, such as a module
name that is computed, is not found; `code:` of the job names such files.

Code may change where imports are looked for, or load files by name (`sys.path`, `spec_from_file_location`, …). Then
every file counts that its texts can mean, since which one it will be only running it would tell.

A file counts by its canonical form. Where any file of the code reads docstrings, those of all its files count, since
the reader may be handed any function; where one reads source, all count by their bytes.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from whyrun.actions.discovery import ACTIONS_FOLDER
from whyrun.actions.editable import Editable, editable_in
from whyrun.actions.facts import FileFacts, Import
from whyrun.actions.module_files import files_below, files_of, package_inits, read_module, shown_path
from whyrun.actions.module_names import ModuleNames
from whyrun.actions.moved_imports import possible_code
from whyrun.actions.source import SourceError, TextRead, parse_source, source_sha256

# Libraries that make prompts, or descriptions of tools, of the docstrings of functions and classes given to them. Code
# that imports one uses its docstrings as data without a word of `__doc__`. Each name costs its users an execution after
# every edit of a docstring, so only those are here that are made for it. What makes help texts of docstrings (click,
# typer, fire, docopt) is not: no result depends on them.
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


@dataclass(frozen=True, slots=True)
class ProjectCode:
    """Files of the project that code consists of, by path relative to the project; and those that do not parse."""

    digests: tuple[tuple[str, str], ...]
    problems: tuple[str, ...]
    moves_imports: bool  # it may change where modules are looked for


@dataclass(frozen=True, slots=True)
class Beside:
    """Files that count in another way, but may read the text of the code that they go with."""

    files: Mapping[str, FileFacts]
    reads: TextRead


NOTHING_BESIDE = Beside({}, TextRead.NOTHING)


def read_beside(project: Path, paths: Iterable[Path]) -> Beside:
    root = str(project).rstrip("/")
    editable = editable_in(root)
    files = _readable(paths, root)
    reads = max((_reads(path, facts, root, editable) for path, facts in files.items()), default=TextRead.NOTHING)
    return Beside(files, reads)


def project_code(
    project: Path, entry: Path, *, imported: bool, beside: Beside = NOTHING_BESIDE, modules: ModuleNames | None = None
) -> ProjectCode:
    """A file and, transitively, every project module it imports.

    `imported`: the entry is itself imported by its name, which runs the `__init__.py` of each package it lies in;
    a script or an action of the project is not. `modules`: what was seen of the project already, where that is recent
    enough.
    """
    root = str(project).rstrip("/")
    editable = editable_in(root)
    found: dict[str, FileFacts] = {}
    problems: list[str] = []
    reads = beside.reads
    queue = [str(entry)]
    queue.extend(_beside_entry(root, queue[0], editable, imported))
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
    possible = possible_code(found, beside.files, root, modules or ModuleNames(root), editable)
    reads = max((reads, *(_reads(path, facts, root, editable) for path, facts in possible.items())))
    shown = ((shown_path(path, root), facts) for path, facts in (found | possible).items())
    digests = ((name, _digest(facts, name, reads)) for name, facts in shown)
    moves = any(facts.moves_path for facts in (found | possible).values())
    return ProjectCode(tuple(sorted(digests)), tuple(sorted(problems)), moves)


def _beside_entry(root: str, entry: str, editable: Editable, imported: bool) -> Iterator[str]:
    """What an import of the entry by its name runs before it, or in its place: a package or a compiled module of the
    same name. A script is run as it is; an action is a module of the folder that it lies in."""
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
    """The files of the project that a file imports; and what the libraries among its imports read of its text."""
    files: list[str] = []
    reads = TextRead.NOTHING
    for found in facts.imports:
        own = list(files_of(found, project, folder, editable))
        files.extend(own)
        if not own:  # the project goes before what is installed: its own `agents.py` is not the library of that name
            reads = max(reads, _read_by_library(found))
    return files, reads


def _readable(paths: Iterable[Path], project: str) -> dict[str, FileFacts]:
    found: dict[str, FileFacts] = {}
    for path in map(str, paths):
        try:
            found[path] = read_module(path, project)
        except SourceError:
            continue  # it need not be Python
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
