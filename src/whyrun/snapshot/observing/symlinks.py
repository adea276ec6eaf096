"""Links on the way to outputs and inputs: a file in a linked folder has more than one path."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from msgspec.structs import replace

from whyrun.artifacts.hashing import iter_parents
from whyrun.graph.publishing.conflicts import LinksOnDisk, RealFolder, input_paths
from whyrun.graph.tables import Graph
from whyrun.ids import split_site
from whyrun.workflow.inputs import InputValue

_MANY = 16  # with this many subfolders, reading the parent is faster than a stat of each


class _Resolved(msgspec.Struct, frozen=True):
    path: str  # without links: from the project folder (itself: empty) where it lies inside, else absolute
    link: str | None = None  # the first link on the way
    exists: bool = True


class RealPaths:
    """Resolves paths. Each folder is looked at once, however many of its files are asked for."""

    def __init__(self, project: Path) -> None:
        self.root = os.path.realpath(project)
        self._resolved: dict[str, _Resolved] = {}

    def look(self, path: str) -> _Resolved:
        """Resolve a path from the project folder, or an absolute one. If the path itself is a link, follow it, too."""
        resolved = _Resolved("/" if path.startswith("/") else "")
        for part in (*iter_parents(path), path):
            if part:
                above = resolved
                known = self._resolved.get(part)
                resolved = self._resolved[part] = self._step(above, part) if known is None else known
        return resolved

    def location(self, path: str) -> _Resolved:
        """Resolve only the folder of a file: publishing replaces a link at the path itself and does not follow it."""
        folder, slash, name = path.rpartition("/")
        resolved = self.look(folder or slash)
        return replace(resolved, path=self._from_project(os.path.join(resolved.path, name)))

    def other_paths(self, path: str, *, followed: bool) -> Iterator[tuple[str, str]]:
        """Other paths of a file in the project, and of its target (`followed`), each with the way, for messages."""
        for resolved in (self.location(path), *([self.look(path)] if followed else ())):
            if resolved.path != path and not resolved.path.startswith("/"):
                way = f"given as `{path}`" if resolved.link is None else f"through the link `{resolved.link}`"
                yield resolved.path or ".", way

    def holds_link(self, folder: str) -> bool:
        resolved = self.look(folder)
        if not resolved.exists:
            return False
        try:
            with os.scandir(os.path.join(self.root, resolved.path)) as entries:
                return any(entry.is_symlink() for entry in entries)
        except OSError:
            return True  # no permission, or not a folder: the caller has to look at each path

    def inside(self, path: Path) -> str | None:
        """The path in the project; None for the project folder itself and for paths outside."""
        real = self._from_project(os.path.realpath(path))
        return real if real and not real.startswith("/") else None

    def contains(self, path: str, inner: str) -> bool:
        """`inner`: absolute and without links."""
        outer = os.path.normpath(os.path.join(self.root, self.look(path).path))
        return f"{inner}/".startswith(f"{outer.rstrip('/')}/")

    def _step(self, above: _Resolved, path: str) -> _Resolved:
        """One level deeper: `path` is as the caller wrote it, `above` is its resolved parent."""
        name = path.rpartition("/")[2]
        resolved = os.path.join(above.path, name)
        if not above.exists:
            return replace(above, path=resolved)  # there can be no link
        full = os.path.join(self.root, resolved)
        try:
            mode = os.lstat(full).st_mode
        except OSError:
            return replace(above, path=resolved, exists=False)
        if stat.S_ISLNK(mode):
            return _Resolved(self._from_project(os.path.realpath(full)), above.link or path)
        if name == os.pardir:
            resolved = os.path.realpath(full)
        return replace(above, path=self._from_project(resolved))

    def _from_project(self, path: str) -> str:
        if not path.startswith("/"):
            return path
        inside = f"{path}/".removeprefix(f"{self.root.rstrip('/')}/")
        return inside.rstrip("/") if not inside.startswith("/") else path


def links_of(graph: Graph, paths: RealPaths) -> LinksOnDisk:
    """The links on the paths of a graph. Outputs that would leave the project are left out: `run` refuses them."""
    folders: dict[str, RealFolder] = {}
    for folder in _maybe_linked(_output_folders(graph), paths):
        resolved = paths.look(folder)
        if resolved.link is not None and not resolved.path.startswith("/"):
            folders[folder] = RealFolder(resolved.path, resolved.link)
    return LinksOnDisk(folders, dict(_other_paths_of_inputs(graph, paths)))


def _maybe_linked(folders: set[str], paths: RealPaths) -> Iterator[str]:
    """Leaves out subfolders of a folder without links: very many may lie in one (`out/0`, `out/1`, …)."""
    by_parent: dict[str, list[str]] = {}
    for folder in folders:
        by_parent.setdefault(folder.rpartition("/")[0], []).append(folder)
    for parent, members in by_parent.items():
        if len(members) < _MANY or paths.look(parent).path != parent or paths.holds_link(parent):
            yield from members


def _output_folders(graph: Graph) -> set[str]:
    """The folders of published outputs. A column with a head has one folder, however many paths."""
    folders: set[str] = set()
    for output in (output for table in graph.tables for output in table.outputs):
        if output.append:
            folders |= {split_site(site)[0].rpartition("/")[0] for site in output.paths or ()}
        elif output.head is not None:
            folders.add(output.head.rpartition("/")[0])
        else:
            folders |= {path.rpartition("/")[0] for path in output.paths or ()}
    return folders


def _other_paths_of_inputs(graph: Graph, paths: RealPaths) -> Iterator[tuple[str, str]]:
    named = input_paths(graph)
    folders = {path.rpartition("/")[0] for path in named}
    linked = {folder for folder in _maybe_linked(folders, paths) if paths.look(folder).path != folder}
    for path in sorted(named) if linked else ():
        if path.rpartition("/")[0] in linked:
            yield from paths.other_paths(path, followed=False)
    for path in single_paths(graph.inputs.values()):
        if paths.contains(path, paths.root):
            yield ".", f"as a part of `{path}`"
        yield from paths.other_paths(path, followed=True)


def single_paths(values: Iterable[InputValue]) -> Iterator[str]:
    """The paths of inputs for which a link at the path itself matters: not of files in arrays, which may be many."""
    for value in values:
        if value.path is not None:
            yield value.path
        elif value.type.base == "directory":
            yield from single_paths(value.elements or ())
