"""Finds the files that code may load if it changes `sys.path`, or loads modules and files by name.

Which file it loads is not known without running it, so every file counts that its string constants may name.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator, Mapping

import msgspec

from whyrun.actions.code.editable import Editable, is_below
from whyrun.actions.code.import_facts import FileFacts, Import, main_module_of, parse_module_name
from whyrun.actions.code.module_files import ModuleIndex, files_below, files_of, read_module
from whyrun.actions.code.source import SourceError, read_source

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
