"""Real paths, and the paths that no output may be published to, as found on disk; `graph.publishing.conflicts` compares
them.

These are the files that a workflow is read from, the patterns of inputs and of `code:`, and the reserved folders.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from whyrun.artifacts.hashing import iter_parents
from whyrun.errors import Diagnostic
from whyrun.graph.paths import Pattern, fixed_parts, is_pattern
from whyrun.graph.publishing.conflicts import (
    LinksOnDisk,
    PublishedOutputs,
    RealFolder,
    ReservedFolder,
    input_paths,
    own_file_problems,
    path_problems,
    pattern_problems,
    reserved_folder_problems,
    reserved_folders_in_patterns,
)
from whyrun.graph.tables import Graph
from whyrun.ids import split_site
from whyrun.project_config import CONFIG_FILE
from whyrun.snapshot.actions.lookup import LookedUp
from whyrun.workflow.inputs import InputValue
from whyrun.workflow.model import Workflow

# --- Real paths, through links ---------------------------------------------------------------------------------------

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


# --- What no output may be published to ------------------------------------------------------------------------------


def path_conflicts(
    graph: Graph,
    own: Mapping[str, str],
    patterns: Sequence[Pattern],
    reserved: Sequence[ReservedFolder],
    paths: RealPaths,
) -> list[Diagnostic]:
    """Conflicts with own files, patterns and reserved folders; where there are links, also with inputs and each other.

    Patterns are compared only if all else is fine: an output on top of an own file would be reported twice.
    """
    links = links_of(graph, paths)
    outputs = PublishedOutputs(graph, links)
    problems = [*reserved_folders_in_inputs(graph, reserved, paths), *own_file_problems(outputs, own)]
    if links:  # without links, `expand` has compared all paths already
        problems.extend(path_problems(graph, links))
    return problems or [
        *reserved_folder_problems(outputs, reserved),
        *reserved_folders_in_patterns(patterns, reserved),
        *pattern_problems(outputs, patterns),
    ]


# --- files that the workflow is read from ------------------------------------------------------------------------


def own_files(
    file: Path,
    workflow: Workflow,
    others: Sequence[Path],
    looked_up: Mapping[str, LookedUp],
    project: Path,
    paths: RealPaths,
) -> dict[str, str]:
    """Path in the project → what it is, for messages. `others`: files that were given with the workflow.

    Absolute paths outside of the project may be among them. No output is published there, so they do no harm.
    """
    named = _named_files(file, workflow, others, looked_up, project)
    own = {os.path.normpath(path): what for path, what in named.items()}
    for path, what in named.items():  # writing to the target of a link changes the file, too
        for other_path, way in paths.other_paths(path, followed=True):
            own.setdefault(other_path, f"{what}, {way}")
    return own


def _named_files(
    file: Path, workflow: Workflow, others: Sequence[Path], looked_up: Mapping[str, LookedUp], project: Path
) -> dict[str, str]:
    """Every such file, by its path from the project folder or an absolute one."""
    folder = Path(os.path.abspath(file)).parent
    named: dict[str, str] = {"connections.yaml": "the connections file of the project"}
    for job, action in looked_up.items():
        for path in action.facts.files if action.facts is not None else ():
            named.setdefault(path, f"code that `{job}` uses")
    # Also where there is none yet: a new one would make another folder the project.
    settings = [level / CONFIG_FILE for level in (folder, *folder.parents)]
    sources = [file.parent / key for key in workflow.sources]
    for files, what in (
        (settings, "the settings file of the project"),
        (others, "a file that is given with this workflow"),
        (sources, "a file that this workflow imports"),
        ([file], "the file of this workflow"),
    ):
        named |= dict.fromkeys((_from_project(project, one) for one in files), what)
    return named


def _from_project(project: Path, file: Path) -> str:
    """Keeps each `..` as it is written: after a link, `..` does not lead back."""
    absolute = Path(os.getcwd(), file)
    return (absolute.relative_to(project) if absolute.is_relative_to(project) else absolute).as_posix()


# --- patterns ----------------------------------------------------------------------------------------------------


def patterns_of(graph: Graph, of_inputs: Mapping[str, str], paths: RealPaths) -> list[Pattern]:
    """`of_inputs`: by the ID of the input. If several owners have the same pattern, the first stands for all."""
    owners: dict[tuple[str, bool], str] = {}
    for id_, text in of_inputs.items():
        owners.setdefault((text, False), f"`{id_}`")
    for table in graph.tables:
        for text in table.decl.code:
            if is_pattern(text):  # a single file is one of `own_files`
                owners.setdefault((text, True), f"`code:` of `{table.name}`")
    return [Pattern(text, owner, is_code, _forms(text, paths)) for (text, is_code), owner in sorted(owners.items())]


def _forms(text: str, paths: RealPaths) -> tuple[tuple[str, ...], ...]:
    parts = os.path.relpath(os.path.join(paths.root, text), paths.root).split(os.sep)
    fixed = fixed_parts(parts)
    real = paths.look("/".join(fixed)).path if fixed else ""
    if real == "/".join(fixed) or real.startswith("/"):
        return (tuple(parts),)
    return tuple(parts), (*filter(None, real.split("/")), *parts[len(fixed) :])


# --- reserved folders --------------------------------------------------------------------------------------------


def reserved_folder(path: Path, what: str, elsewhere: str, files: Collection[str], paths: RealPaths) -> ReservedFolder:
    return ReservedFolder(path.name, os.path.realpath(path), paths.inside(path), what, elsewhere, files)


def reserved_folders_in_inputs(
    graph: Graph, folders: Sequence[ReservedFolder], paths: RealPaths
) -> Iterator[Diagnostic]:
    """Input folders that contain a reserved folder: every run would change them, even while a step reads them."""
    for folder in folders:
        for name, value in graph.inputs.items():
            for path in single_paths([value]):
                if paths.contains(path, folder.real_path):
                    holds = f"holds `{folder.name}`, {folder.what}, which every run changes"
                    hint = f"name a folder in it, or {folder.elsewhere}"
                    yield Diagnostic("INPUT_TYPE", f"`{name}`: the folder `{path}` {holds}", hint=hint)
