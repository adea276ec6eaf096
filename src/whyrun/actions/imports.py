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
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from whyrun.actions.source import (
    FileFacts,
    Import,
    SourceError,
    TextRead,
    facts_of,
    named_import,
    parse_source,
    read_source,
    source_sha256,
)

_COMPILED = tuple(EXTENSION_SUFFIXES)
_JOINS = 4  # so many texts may stand in one path: `ROOT / "a" / "b" / "c" / "d"`
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


def project_code(project: Path, entry: Path, *, imported: bool, beside: Iterable[Path] = ()) -> ProjectCode:
    """A file and, transitively, every project module it imports.

    `imported`: the entry is itself imported by its name, which runs the `__init__.py` of each package it lies in;
    a script or an action of the project is not. `beside`: files that count in another way, but may read the text of
    these.
    """
    root = str(project).rstrip("/")
    found: dict[str, FileFacts] = {}
    problems: list[str] = []
    others = _readable(beside, root)
    reads = max((_reads(path, facts, root) for path, facts in others.items()), default=TextRead.NOTHING)
    queue = [str(entry)]
    if imported:
        queue.extend(_package_inits(root, os.path.dirname(queue[0])))
    seen: set[str] = set()
    while queue:
        path = queue.pop()
        if path in seen:
            continue
        seen.add(path)
        try:
            facts = _read(path, _shown(path, root))
        except SourceError as problem:
            problems.append(str(problem))
            continue
        found[path] = facts
        files, by_imports = _follow(facts, root, os.path.dirname(path))
        queue.extend(files)
        reads = max(reads, facts.reads, by_imports)
    possible = _possible_code(found, others, root)
    reads = max((reads, *(_reads(path, facts, root) for path, facts in possible.items())))
    shown = ((_shown(path, root), facts) for path, facts in (found | possible).items())
    digests = ((name, _digest(facts, name, reads)) for name, facts in shown)
    return ProjectCode(tuple(sorted(digests)), tuple(sorted(problems)))


def _follow(facts: FileFacts, project: str, folder: str) -> tuple[list[str], TextRead]:
    """The files of the project that a file imports; and what the libraries among its imports read of its text."""
    files: list[str] = []
    reads = TextRead.NOTHING
    for found in facts.imports:
        own = list(_files_of(found, project, folder))
        files.extend(own)
        if not own:  # the project goes before what is installed: its own `agents.py` is not the library of that name
            reads = max(reads, _read_by_library(found))
    return files, reads


def _readable(paths: Iterable[Path], project: str) -> dict[str, FileFacts]:
    found: dict[str, FileFacts] = {}
    for path in map(str, paths):
        try:
            found[path] = _read(path, _shown(path, project))
        except SourceError:
            continue  # it need not be Python
    return found


def _reads(path: str, facts: FileFacts, project: str) -> TextRead:
    return max(facts.reads, _follow(facts, project, os.path.dirname(path))[1])


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


# --- reading one ------------------------------------------------------------------------------------------------


def _read(path: str, shown: str) -> FileFacts:
    data = read_source(path, shown)
    if path.endswith(_COMPILED):  # what it imports cannot be read
        return FileFacts(hashlib.sha256(data).hexdigest())
    return facts_of(data, shown)


@lru_cache(maxsize=4096)
def _sha256_with_docstrings(data: bytes, shown: str) -> str:
    return source_sha256(parse_source(data, shown), docstrings=True)


# --- where modules are -------------------------------------------------------------------------------------------


def _files_of(found: Import, project: str, folder: str) -> Iterator[str]:
    root = project
    if found.level:
        root = folder
        for _ in range(found.level - 1):
            root = os.path.dirname(root)
        if root != project and not _is_below(root, project):
            return
        yield from _package_inits(project, root)
    yield from _files_below(root, found, project)


def _files_below(root: str, found: Import, project: str) -> Iterator[str]:
    yield from module_files(root, found.module)
    for name in found.names:
        if name == "*":
            yield from _star_files(project, root, found.module)
        else:
            yield from module_files(root, (*found.module, name))


def _star_files(project: str, root: str, module: tuple[str, ...]) -> Iterator[str]:
    """`from package import *` imports the modules that the package lists in `__all__`."""
    package = os.path.join(root, *module)
    init = f"{package}/__init__.py"
    if not os.path.isfile(init):
        return
    try:
        exports = _read(init, _shown(init, project)).exports
    except SourceError:
        return  # it is one of the files of this import, and told as such
    if exports is None:
        exports = tuple(sorted({name.partition(".")[0] for name in os.listdir(package)}))
    for name in exports:
        yield from module_files(package, (name,))


def _package_inits(project: str, folder: str) -> Iterator[str]:
    while _is_below(folder, project):
        if os.path.isfile(init := f"{folder}/__init__.py"):
            yield init
        folder = os.path.dirname(folder)


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/")


def _shown(path: str, project: str) -> str:
    return path[len(project) + 1 :] if _is_below(path, project) else os.path.basename(path)


def module_files(root: str, parts: Iterable[str]) -> Iterator[str]:
    """The file of `a.b.c` below a folder, and the `__init__.py` of each package on the way."""
    folder = root
    for part in parts:
        package = f"{folder}/{part}"
        if os.path.isfile(init := f"{package}/__init__.py"):
            yield init
        else:
            modules = [f for suffix in (*_COMPILED, ".py") if os.path.isfile(f := package + suffix)]
            if modules:
                yield from modules  # a compiled one goes before a source; that it may be removed is no concern here
                return  # a module has no modules below it; the next part is one of its names
            if not os.path.isdir(package):
                return
        folder = package


# --- where code says that they are -------------------------------------------------------------------------------


def _possible_code(
    code: Mapping[str, FileFacts], beside: Mapping[str, FileFacts], project: str
) -> dict[str, FileFacts]:
    """What else may run with code that changes where imports are looked for, or that loads files by name.

    A change of `sys.path` holds for all modules of a process: with each one found there may be more folders to look in
    for the imports of all the others.
    """
    found: dict[str, FileFacts] = {}
    if not any(facts.moves_path or facts.loads for facts in [*code.values(), *beside.values()]):
        return found
    fresh: Mapping[str, FileFacts] = code
    places: _Places | None = None
    while fresh:
        now = _Places.of({**beside, **code, **found}, project)
        if now != places:
            places, fresh = now, {**code, **found}
        files = places.files(fresh) - code.keys() - found.keys()
        if not files:  # and only then: a folder that was found last may have had what seemed to be missing
            files = places.files_by_name({**code, **found}) - code.keys() - found.keys()
        fresh = {path: _read_possible(path, project) for path in sorted(files)}
        found |= fresh
    return found


def _read_possible(path: str, project: str) -> FileFacts:
    """It may never run, so it is no error that it could not."""
    try:
        return _read(path, _shown(path, project))
    except SourceError:
        pass
    try:
        return FileFacts(hashlib.sha256(read_source(path, path)).hexdigest())
    except SourceError:
        return FileFacts(hashlib.sha256().hexdigest())


@dataclass(frozen=True, slots=True)
class _Places:
    """Where absolute imports may be looked for, beside the project folder."""

    project: str
    moved: bool
    folders: tuple[str, ...]
    named: tuple[str, ...]  # those of them that a text names

    @staticmethod
    def of(code: Mapping[str, FileFacts], project: str) -> _Places:
        movers = [(os.path.dirname(path), facts) for path, facts in code.items() if facts.moves_path]
        near = {above for folder, _ in movers for above in _up(folder, project)}
        named = {path for folder, facts in movers for path in _named_folders(facts, folder, project)}
        folders = (near | named) - {project}  # that one is always looked in
        return _Places(project, bool(movers), tuple(sorted(folders)), tuple(sorted(named - near)))

    def files(self, code: Mapping[str, FileFacts]) -> set[str]:
        """What these files may import or load. A name that is in several folders may mean each."""
        found: set[str] = set()
        for path, facts in code.items():
            folder = os.path.dirname(path)
            for one in facts.imports:
                found.update(self._files_of(one, folder))
            if facts.loads:
                found.update(self._modules_in_texts(facts, folder))
            found.update(_files_in_texts(facts, folder, self.project))
        return found

    def files_by_name(self, code: Mapping[str, FileFacts]) -> set[str]:
        """Imports that no folder answers may come from one that could not be read: whatever has their name, near the
        importing file or in a named folder. Whether it is installed is not asked: each machine would answer otherwise.
        """
        if not self.moved:
            return set()
        wanted: dict[str, list[Import]] = {}  # by top-level name
        near = set(self.named)
        for path, facts in code.items():
            folder = os.path.dirname(path)
            for one in facts.imports:
                if one.level or not one.module or one.module[0] in sys.stdlib_module_names:
                    continue
                if not any(self._files_of(one, folder)):
                    wanted.setdefault(one.module[0], []).append(one)
                    near.add(folder)
        found: set[str] = set()
        for name, root in {place for folder in near if wanted for place in _names_below(folder, self.project)}:
            for one in wanted.get(name, ()):
                found.update(_files_below(root, one, self.project))
        return found

    def _files_of(self, found: Import, folder: str) -> Iterator[str]:
        yield from _files_of(found, self.project, folder)
        if not found.level:
            for root in self.folders:
                yield from _files_below(root, found, self.project)

    def _modules_in_texts(self, facts: FileFacts, folder: str) -> Iterator[str]:
        for text in facts.texts:
            named = named_import(text)
            if named is not None and named.module:
                yield from self._files_of(named, folder)


def _up(folder: str, project: str) -> Iterator[str]:
    """The folder and those above it, up to the project."""
    while _is_below(folder, project):
        yield folder
        folder = os.path.dirname(folder)
    yield project


def _named_folders(facts: FileFacts, folder: str, project: str) -> set[str]:
    """Folders of the project that the texts can mean: from the project or from near the file, alone or joined.

    Which are joined in which order is not looked at: `LIB = HERE / "lib"` may be far from `LIB / "more"`.
    """
    near = set(_up(folder, project))
    found: set[str] = set()
    starts = near
    for _ in range(_JOINS):
        joined = {_joined(start, text, project) for start in starts for text in facts.texts}
        starts = {path for path in joined - found - near if _is_own_folder(path, project)}
        found |= starts
    return found


def _joined(start: str, text: str, project: str) -> str:
    return os.path.normpath(f"{start}/{text.removeprefix(project)}")  # a text may also be the whole path


def _is_own_folder(path: str, project: str) -> bool:
    """What is in `site-packages` is installed, also where that lies in the project."""
    return _is_below(path, project) and "-packages/" not in f"{path[len(project) :]}/" and os.path.isdir(path)


def _files_in_texts(facts: FileFacts, folder: str, project: str) -> Iterator[str]:
    """`run_path("tools/x.py")`, `spec_from_file_location("x", HERE / "x.py")`; `run_path("tools")`."""
    if not facts.texts:
        return
    named = _named_folders(facts, folder, project)
    scripts = [text for text in facts.texts if text.endswith(".py")]
    candidates = {_joined(start, text, project) for start in {*named, *_up(folder, project)} for text in scripts}
    if facts.loads:
        candidates |= {f"{start}/__main__.py" for start in named}
    yield from (path for path in candidates if _is_below(path, project) and os.path.isfile(path))


def _names_below(folder: str, project: str) -> Iterator[tuple[str, str]]:
    """Top-level names that modules there could be imported by, each with the folder to look it up in."""
    for file in _modules_below(folder, project):
        inner = os.path.relpath(file, folder).split("/")
        for depth, part in enumerate(inner):
            yield part.partition(".")[0], os.path.normpath("/".join((folder, *inner[:depth])))


def _modules_below(folder: str, project: str) -> Iterator[str]:
    """Without hidden folders, what is installed, and, as in `code: "**"`, what links lead to."""
    if "/." in folder[len(project) :]:
        return
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if _may_hold_modules(f"{parent}/{name}")]
        modules = (f"{parent}/{name}" for name in files if name.endswith((".py", *_COMPILED)))
        yield from filter(os.path.isfile, modules)  # a link may lead nowhere


def _may_hold_modules(folder: str) -> bool:
    name = os.path.basename(folder)
    if name.startswith(".") or name.endswith("-packages") or name == "node_modules":
        return False
    return not os.path.exists(f"{folder}/pyvenv.cfg")  # of a virtual environment
