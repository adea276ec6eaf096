"""Links on the way to outputs and inputs: what lies in a linked folder has more names than one."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from whyrun.artifacts.hashing import iter_parents
from whyrun.errors import Diagnostic
from whyrun.graph.graph import Graph
from whyrun.graph.links import Links, RealFolder
from whyrun.graph.published import input_paths
from whyrun.ids import split_site
from whyrun.workflow.inputs import InputValue

_MANY = 16  # from so many folders in one on, it is faster to read that one than to look at each


class _Found(NamedTuple):
    path: str  # without links: from the project folder (itself: empty) where it lies inside, else absolute
    link: str | None = None  # the first on the way
    is_there: bool = True


class RealPaths:
    """Finds out where paths lead. Each folder is looked at once, however many files of it are asked for."""

    def __init__(self, project: Path) -> None:
        self.root = os.path.realpath(project)
        self._seen: dict[str, _Found] = {}

    def look(self, path: str) -> _Found:
        """Of a path from the project folder, or an absolute one: with the link that it may be itself followed, too."""
        found = _Found("/" if path.startswith("/") else "")
        for part in (*iter_parents(path), path):
            if part:
                above = found
                seen = self._seen.get(part)
                found = self._seen[part] = self._step(above, part) if seen is None else seen
        return found

    def place(self, path: str) -> _Found:
        """Where a file stands, whatever it is: publishing replaces links, it does not follow them."""
        folder, slash, name = path.rpartition("/")
        found = self.look(folder or slash)
        return found._replace(path=self._from_project(os.path.join(found.path, name)))

    def other_places(self, path: str, *, followed: bool) -> Iterator[tuple[str, str]]:
        """Where in the project a file stands, and where it leads (`followed`): place and way, as a message has it."""
        for found in (self.place(path), *([self.look(path)] if followed else ())):
            if found.path != path and not found.path.startswith("/"):
                way = f"given as `{path}`" if found.link is None else f"through the link `{found.link}`"
                yield found.path or ".", way

    def holds_link(self, folder: str) -> bool:
        found = self.look(folder)
        if not found.is_there:
            return False
        try:
            with os.scandir(os.path.join(self.root, found.path)) as entries:
                return any(entry.is_symlink() for entry in entries)
        except OSError:
            return True  # closed to us, or no folder: whoever asks has to look at each

    def inside(self, path: Path) -> Iterator[str]:
        """Where in the project this is, if it is; nothing for the project itself."""
        place = self._from_project(os.path.realpath(path))
        if place and not place.startswith("/"):
            yield place

    def contains(self, path: str, inner: str) -> bool:
        """`inner`: absolute and without links."""
        outer = os.path.normpath(os.path.join(self.root, self.look(path).path))
        return f"{inner}/".startswith(f"{outer.rstrip('/')}/")

    def _step(self, above: _Found, path: str) -> _Found:
        """One folder further: `path` is that as it was asked for, `above` is what is known of the one it is in."""
        name = path.rpartition("/")[2]
        place = os.path.join(above.path, name)
        if not above.is_there:
            return above._replace(path=place)  # nothing can be a link there
        location = os.path.join(self.root, place)
        try:
            mode = os.lstat(location).st_mode
        except OSError:
            return above._replace(path=place, is_there=False)
        if stat.S_ISLNK(mode):
            return _Found(self._from_project(os.path.realpath(location)), above.link or path)
        if name == os.pardir:
            place = os.path.realpath(location)
        return above._replace(path=self._from_project(place))

    def _from_project(self, path: str) -> str:
        if not path.startswith("/"):
            return path
        inside = f"{path}/".removeprefix(f"{self.root.rstrip('/')}/")
        return inside.rstrip("/") if not inside.startswith("/") else path


def links_of(graph: Graph, paths: RealPaths) -> Links:
    """What of the paths of a graph goes through links. Where an output would leave the project, `run` refuses it."""
    folders: dict[str, RealFolder] = {}
    for folder in _maybe_linked(_output_folders(graph), paths):
        found = paths.look(folder)
        if found.link is not None and not found.path.startswith("/"):
            folders[folder] = RealFolder(found.path, found.link)
    return Links(folders, dict(_other_places_of_inputs(graph, paths)))


class Kept(NamedTuple):
    """A folder that runs write to beside what they publish."""

    path: Path
    what: str  # as a message has it
    elsewhere: str  # how to have it in another place
    files: Collection[str]  # names of those that lie in it itself


def kept_in_input(graph: Graph, paths: RealPaths, folders: Sequence[Kept]) -> Iterator[Diagnostic]:
    """What holds one of these is another after every run, and while one goes on: no step could ever read it."""
    for kept in folders:
        inner = os.path.realpath(kept.path)
        for name, value in graph.inputs.items():
            for path in _followed([value]):
                if paths.contains(path, inner):
                    holds = f"holds `{kept.path.name}`, {kept.what}, which every run changes"
                    hint = f"name a folder in it, or {kept.elsewhere}"
                    yield Diagnostic("INPUT_TYPE", f"`{name}`: the folder `{path}` {holds}", hint=hint)


def _maybe_linked(folders: set[str], paths: RealPaths) -> Iterator[str]:
    """Without those that surely are not: very many may lie in one folder (`out/0`, `out/1`, …) that holds no link."""
    by_parent: dict[str, list[str]] = {}
    for folder in folders:
        by_parent.setdefault(folder.rpartition("/")[0], []).append(folder)
    for parent, members in by_parent.items():
        if len(members) < _MANY or paths.look(parent).path != parent or paths.holds_link(parent):
            yield from members


def _output_folders(graph: Graph) -> set[str]:
    """In which outputs are published. A column with a head has one folder, however many paths."""
    found: set[str] = set()
    for output in (output for table in graph.tables for output in table.outputs):
        if output.append:
            found |= {split_site(site)[0].rpartition("/")[0] for site in output.paths or ()}
        elif output.head is not None:
            found.add(output.head.rpartition("/")[0])
        else:
            found |= {path.rpartition("/")[0] for path in output.paths or ()}
    return found


def _other_places_of_inputs(graph: Graph, paths: RealPaths) -> Iterator[tuple[str, str]]:
    named = input_paths(graph)
    folders = {path.rpartition("/")[0] for path in named}
    linked = {folder for folder in _maybe_linked(folders, paths) if paths.look(folder).path != folder}
    for path in sorted(named) if linked else ():
        if path.rpartition("/")[0] in linked:
            yield from paths.other_places(path, followed=False)
    for path in _followed(graph.inputs.values()):
        if paths.contains(path, paths.root):
            yield ".", f"as a part of `{path}`"
        yield from paths.other_places(path, followed=True)


def _followed(values: Iterable[InputValue]) -> Iterator[str]:
    """Of which inputs it counts whether they are links themselves: not of files in arrays, there may be very many."""
    for value in values:
        if value.path is not None:
            yield value.path
        elif value.type.base == "directory":
            yield from _followed(value.elements or ())
