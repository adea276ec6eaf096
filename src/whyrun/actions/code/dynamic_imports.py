"""Code that changes where imports are looked for, or loads modules and files by name: every file that it may mean.

Which one it will be only running it would tell, so whatever its texts can mean counts.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from whyrun.actions.editable import Editable, is_below
from whyrun.actions.facts import FileFacts, Import, named_import, run_of
from whyrun.actions.module_files import files_below, files_of, read_module
from whyrun.actions.module_names import ModuleNames
from whyrun.actions.source import SourceError, read_source

_JOINS = 4  # so many texts may stand in one path: `ROOT / "a" / "b" / "c" / "d"`


def possible_code(
    code: Mapping[str, FileFacts],
    beside: Mapping[str, FileFacts],
    project: str,
    modules: ModuleNames,
    editable: Editable,
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
        now = _Places.of({**beside, **code, **found}, project, editable)
        if now != places:
            places, fresh = now, {**code, **found}
        files = places.files(fresh) - code.keys() - found.keys()
        if not files:  # and only then: a folder that was found last may have had what seemed to be missing
            files = places.files_by_name({**code, **found}, modules) - code.keys() - found.keys()
        fresh = {path: _read_possible(path, project) for path in sorted(files)}
        found |= fresh
    return found


def _read_possible(path: str, project: str) -> FileFacts:
    """It may never run, so it is no error that it could not."""
    try:
        return read_module(path, project)
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
    editable: Editable

    @staticmethod
    def of(code: Mapping[str, FileFacts], project: str, editable: Editable) -> _Places:
        movers = [(os.path.dirname(path), facts) for path, facts in code.items() if facts.moves_path]
        near = {above for folder, _ in movers for above in _up(folder, project)}
        named = {path for folder, facts in movers for path in _named_folders(facts, folder, project)}
        installed = {f"{project}/{folder}" for folder in editable.import_folders(project)}
        folders = (near | named | installed) - {project}  # that one is always looked in
        return _Places(project, bool(movers), tuple(sorted(folders)), tuple(sorted(named - near)), editable)

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

    def files_by_name(self, code: Mapping[str, FileFacts], modules: ModuleNames) -> set[str]:
        """Imports that no folder answers may come from one that could not be read: whatever has their name, anywhere in
        the project. Whether it is installed is not asked: each machine would answer otherwise.
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
        for name, imports in wanted.items():
            for root in modules.places(name, near):
                for one in imports:
                    found.update(files_below(root, one, self.project))
        return found

    def _files_of(self, found: Import, folder: str) -> Iterator[str]:
        yield from files_of(found, self.project, folder, self.editable)
        if not found.level:
            for root in self.folders:
                yield from files_below(root, found, self.project)

    def _modules_in_texts(self, facts: FileFacts, folder: str) -> Iterator[str]:
        """A name may be whole (`a.b`, `..b`), or one of several parts: `"." + name`, `f"{__package__}.{name}"`,
        `"plugins." + name`.
        """
        named = [found for text in facts.texts if (found := named_import(text.rstrip("."))) and found.module]
        for one in named:
            yield from self._files_of(run_of(one), folder)
        inner = {one.module for one in named if all(map(str.isidentifier, one.module))}
        looked_in = {self.project, *self.folders}
        starts = {folder, *looked_in}
        packages = {"/".join((start, *parts)) for start in starts for parts in inner}
        for root in {folder, *(path for path in packages if _is_own_folder(path, self.project))} - looked_in:
            for parts in inner:
                yield from files_below(root, run_of(Import(0, parts)), self.project)


def _up(folder: str, project: str) -> Iterator[str]:
    """The folder and those above it, up to the project."""
    while is_below(folder, project):
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
    return is_below(path, project) and "-packages/" not in f"{path[len(project) :]}/" and os.path.isdir(path)


def _files_in_texts(facts: FileFacts, folder: str, project: str) -> Iterator[str]:
    """`run_path("tools/x.py")`, `spec_from_file_location("x", HERE / "x.py")`; `run_path("tools")`."""
    if not facts.texts:
        return
    named = _named_folders(facts, folder, project)
    scripts = [text for text in facts.texts if text.endswith(".py")]
    candidates = {_joined(start, text, project) for start in {*named, *_up(folder, project)} for text in scripts}
    if facts.loads:
        candidates |= {f"{start}/__main__.py" for start in named}
    yield from (path for path in candidates if is_below(path, project) and os.path.isfile(path))
