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
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path

import msgspec

from whyrun.actions.code.discovery import ACTIONS_FOLDER
from whyrun.actions.code.editable import Editable, editable_in, is_below
from whyrun.actions.code.import_facts import FileFacts, Import, main_module_of, parse_module_name
from whyrun.actions.code.module_files import ModuleIndex, files_below, files_of, package_inits, read_module, shown_path
from whyrun.actions.code.source import SourceError, TextRead, parse_source, read_source, source_sha256

# --- files that code loads by name -------------------------------------------------------------------------------
#
# Finds the files that code may load if it changes `sys.path`, or loads modules and files by name.
#
# Which file it loads is not known without running it, so every file counts that its string constants may name.


_JOINS = 4  # the largest number of string constants in one path: `ROOT / "a" / "b" / "c" / "d"`


def possible_code(
    code: Mapping[str, FileFacts],
    extra: Mapping[str, FileFacts],
    project: str,
    modules: ModuleIndex,
    editable: Editable,
) -> dict[str, FileFacts]:
    """The files that may also run with code that changes `sys.path` or loads files by name.

    A change of `sys.path` affects all modules of a process. Each file found may add folders in which the imports of all
    other files may be found, so the search repeats until it finds no new file. `extra`: files that `code:` lists.
    """
    possible: dict[str, FileFacts] = {}
    if not any(facts.changes_sys_path or facts.loads_by_name for facts in [*code.values(), *extra.values()]):
        return possible
    fresh: Mapping[str, FileFacts] = code
    search_path: _SearchPath | None = None
    while fresh:
        now = _SearchPath.of({**extra, **code, **possible}, project, editable)
        if now != search_path:
            search_path, fresh = now, {**code, **possible}
        files = search_path.files(fresh) - code.keys() - possible.keys()
        if not files:  # search by name last: a folder found in the last round may hold what seemed to be missing
            files = search_path.files_by_name({**code, **possible}, modules) - code.keys() - possible.keys()
        fresh = {path: _read_possible(path, project) for path in sorted(files)}
        possible |= fresh
    return possible


def _read_possible(path: str, project: str) -> FileFacts:
    """A file that may never run, so a syntax error in it is not reported."""
    try:
        return read_module(path, project)
    except SourceError:
        pass
    try:
        return FileFacts(hashlib.sha256(read_source(path, path)).hexdigest())
    except SourceError:
        return FileFacts(hashlib.sha256().hexdigest())


class _SearchPath(msgspec.Struct, frozen=True):
    """The folders in which absolute imports may be found, in addition to the project folder."""

    project: str
    changed: bool  # some file may change `sys.path`
    folders: tuple[str, ...]
    named: tuple[str, ...]  # those of them that a string constant names
    editable: Editable

    @staticmethod
    def of(code: Mapping[str, FileFacts], project: str, editable: Editable) -> _SearchPath:
        changers = [(os.path.dirname(path), facts) for path, facts in code.items() if facts.changes_sys_path]
        near = {above for folder, _ in changers for above in _up(folder, project)}
        named = {path for folder, facts in changers for path in _named_folders(facts, folder, project)}
        installed = {f"{project}/{folder}" for folder in editable.import_folders(project)}
        folders = (near | named | installed) - {project}  # the project itself is always searched
        return _SearchPath(project, bool(changers), tuple(sorted(folders)), tuple(sorted(named - near)), editable)

    def files(self, code: Mapping[str, FileFacts]) -> set[str]:
        """The files that this code may import or load. A module found in several folders counts in each."""
        files: set[str] = set()
        for path, facts in code.items():
            folder = os.path.dirname(path)
            for one in facts.imports:
                files.update(self._files_of(one, folder))
            if facts.loads_by_name:
                files.update(self._modules_in_texts(facts, folder))
            files.update(_files_in_texts(facts, folder, self.project))
        return files

    def files_by_name(self, code: Mapping[str, FileFacts], modules: ModuleIndex) -> set[str]:
        """For imports found in no folder: every module of that name anywhere in the project.

        Installed packages are not considered, since they differ between machines.
        """
        if not self.changed:
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
        files: set[str] = set()
        for name, imports in wanted.items():
            for root in modules.folders_with(name, near):
                for one in imports:
                    files.update(files_below(root, one, self.project))
        return files

    def _files_of(self, import_: Import, folder: str) -> Iterator[str]:
        yield from files_of(import_, self.project, folder, self.editable)
        if not import_.level:
            for root in self.folders:
                yield from files_below(root, import_, self.project)

    def _modules_in_texts(self, facts: FileFacts, folder: str) -> Iterator[str]:
        """A constant may be a whole name (`a.b`, `..b`) or a part of one: `"." + name`, `f"{__package__}.{name}"`,
        `"plugins." + name`.
        """
        named = [name for text in facts.texts if (name := parse_module_name(text.rstrip("."))) and name.module]
        for one in named:
            yield from self._files_of(main_module_of(one), folder)
        inner = {one.module for one in named if all(map(str.isidentifier, one.module))}
        searched = {self.project, *self.folders}
        starts = {folder, *searched}
        packages = {"/".join((start, *parts)) for start in starts for parts in inner}
        for root in {folder, *(path for path in packages if _is_own_folder(path, self.project))} - searched:
            for parts in inner:
                yield from files_below(root, main_module_of(Import(0, parts)), self.project)


def _up(folder: str, project: str) -> Iterator[str]:
    """The folder and its parents, up to the project."""
    while is_below(folder, project):
        yield folder
        folder = os.path.dirname(folder)
    yield project


def _named_folders(facts: FileFacts, folder: str, project: str) -> set[str]:
    """Folders of the project that the string constants may name, alone or joined, from the project or near the file.

    All orders of joining count: `LIB = HERE / "lib"` may be far from `LIB / "more"`.
    """
    near = set(_up(folder, project))
    folders: set[str] = set()
    starts = near
    for _ in range(_JOINS):
        joined = {_joined(start, text, project) for start in starts for text in facts.texts}
        starts = {path for path in joined - folders - near if _is_own_folder(path, project)}
        folders |= starts
    return folders


def _joined(start: str, text: str, project: str) -> str:
    return os.path.normpath(f"{start}/{text.removeprefix(project)}")  # a constant may also be the whole path


def _is_own_folder(path: str, project: str) -> bool:
    """Packages in `site-packages` are installed, even if that folder lies in the project."""
    return is_below(path, project) and "-packages/" not in f"{path[len(project) :]}/" and os.path.isdir(path)


def _files_in_texts(facts: FileFacts, folder: str, project: str) -> Iterator[str]:
    """`run_path("tools/x.py")`, `spec_from_file_location("x", HERE / "x.py")`; `run_path("tools")`."""
    if not facts.texts:
        return
    named = _named_folders(facts, folder, project)
    scripts = [text for text in facts.texts if text.endswith(".py")]
    candidates = {_joined(start, text, project) for start in {*named, *_up(folder, project)} for text in scripts}
    if facts.loads_by_name:
        candidates |= {f"{start}/__main__.py" for start in named}
    yield from (path for path in candidates if is_below(path, project) and os.path.isfile(path))


# --- imports -----------------------------------------------------------------------------------------------------


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
