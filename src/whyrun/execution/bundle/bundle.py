"""Builds the bundle: one hashed archive with the project's code and Whyrun itself, for workers without the host's
files.

It contains the whole project folder, because a step may read any file beside its code. Left out are:

- inputs and published files of the workflow: they are sent by their hash to the steps that need them. An input that a
  step was seen to read without declaring it is bundled all the same;
- everything hidden (`.whyrun`, `.env`, `.git`, `.venv`, `.ssh`, …), `*.env`, `connections.yaml`;
- files that contain the value of a secret;
- caches, virtual environments, compiled Python, links out of the project, special files.

A package that is installed editable from the project (`src` on the path by a `.pth` file) is not installed on other
machines. So the bundle contains a list of such folders, which workers put on their path.

The same files give the same bytes, whenever and wherever the bundle is built.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import stat
import tarfile
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import metadata
from pathlib import Path

import whyrun
from whyrun.actions.builtin import BUILTIN
from whyrun.actions.code.editable import BUNDLED, folders_to_bundle
from whyrun.actions.code.source_loader import version_of
from whyrun.errors import error
from whyrun.execution.bundle.unpack import BundleRefused, unpack
from whyrun.ids import split_site
from whyrun.project import Project
from whyrun.snapshot.observations import Observations
from whyrun.snapshot.snapshot import leaf_inputs

__all__ = ["PACKAGE", "PROJECT", "Bundle", "BundleRefused", "LeftOut", "bundle_project", "unpack"]

PROJECT = "project"  # path of the project folder in the archive
PACKAGE = "package"  # path of Whyrun in the archive, for `sys.path`

SIZE_LIMIT = 256 << 20
LARGEST_READ = 32 << 20  # of a file that is bundled only because a step was seen to read it
_CONNECTIONS = frozenset({"connections.yaml", "connections.yml"})
_CACHES = frozenset({"__pycache__", "node_modules"})
_COMPILED = (".pyc", ".pyo")
_CACHE_MARKS = ("pyvenv.cfg", "CACHEDIR.TAG")


def may_hold_secrets(name: str) -> bool:
    """Whether a file or folder of this name leaves the machine in no bundle, and is visible in no sandbox."""
    return name.startswith(".") or name in _CONNECTIONS or name.endswith(".env")


@dataclass(frozen=True, slots=True)
class LeftOut:
    path: str  # relative to the project
    why: str


@dataclass(frozen=True, slots=True)
class Bundle:
    data: bytes
    sha256: str
    left_out: tuple[LeftOut, ...]  # project files; a folder that is left out as a whole counts once
    code: frozenset[str] = frozenset()  # project files that jobs name as code, import, or are known to read
    needs: tuple[str, ...] = ()  # requirements of the actions that the workflow uses


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str  # in the archive
    location: str
    link: str | None = None  # target of a symlink, relative to its own folder


def bundle_project(
    project: Path,
    *,
    apart: Collection[str] = (),
    code: Collection[str] = (),
    read: Collection[str] = (),
    secrets: Collection[bytes] = (),
    limit: int = SIZE_LIMIT,
) -> Bundle:
    """Paths are relative to the project. `apart`: files and folders to leave out. `code`: files that jobs name as code,
    `read`: files that steps are known to read undeclared; both are bundled even if they are `apart`. `secrets`: values
    that no bundled file may contain."""
    selection = _Selection(project, frozenset(apart), frozenset((*code, *read)))
    entries = list(selection.entries())
    archive = _Archive(limit)
    for entry in (*_package(), *entries):
        if entry.link is not None:
            continue
        content = _read(entry.location)
        if content is None:
            selection.leave_out(entry.name, "it cannot be read")
        elif any(value in content for value in secrets):
            path = entry.name.removeprefix(f"{PROJECT}/")
            if path.endswith(".py") or path in code:
                raise error(
                    "SECRET_IN_BUNDLE",
                    "the file contains the value of a secret, so it is not sent to other machines",
                    hint="take the value out of the code; a job gets it through `secrets:` or a connection",
                    file=path,
                )
            selection.leave_out(entry.name, "it contains a secret")
        else:
            archive.add(entry, content)
    if folders := folders_to_bundle(str(project)):
        archive.put(f"{PROJECT}/{BUNDLED}", folders)
    present = archive.folders_and_files()
    for entry in entries:
        if entry.link is not None:
            target = os.path.normpath(f"{os.path.dirname(entry.name)}/{entry.link}")
            if target in present:
                archive.add(entry, b"")
            else:
                selection.leave_out(entry.name, "it leads to what is left out")
    data = archive.bytes()
    left_out = tuple(sorted(selection.left_out, key=lambda left: left.path))
    return Bundle(data, hashlib.sha256(data).hexdigest(), left_out, frozenset((*code, *read)))


# --- selection ------------------------------------------------------------------------------------------------


class _Selection:
    def __init__(self, project: Path, apart: frozenset[str], code: frozenset[str]) -> None:
        self._root = os.path.realpath(project)
        self._apart = apart
        self._code = code
        self.left_out: list[LeftOut] = []

    def leave_out(self, name: str, why: str) -> None:
        self.left_out.append(LeftOut(name.removeprefix(f"{PROJECT}/"), why))

    def entries(self) -> Iterator[_Entry]:
        for path, location, status in _walk(self._root, self._enter):
            name = f"{PROJECT}/{path}"
            if stat.S_ISLNK(status.st_mode):
                yield from self._link(name, location)
            elif not stat.S_ISREG(status.st_mode):
                self.leave_out(name, "it is neither a file nor a link")
            else:
                yield _Entry(name, location)

    def _enter(self, path: str, location: str, is_folder: bool) -> bool:
        why = self._why_not(path, location, is_folder)
        if why is not None:
            self.leave_out(path, why)
        return why is None

    def _why_not(self, path: str, location: str, is_folder: bool) -> str | None:
        name = os.path.basename(path)
        if may_hold_secrets(name):
            return "it may hold secrets or state"
        if name in _CACHES or name.endswith(_COMPILED):
            return "it can be made again"
        if is_folder and any(os.path.exists(f"{location}/{mark}") for mark in _CACHE_MARKS):
            return "it can be made again"
        if self._is_apart(path) and not self._is_code(path, is_folder):
            return "it is sent by its hash"
        return None

    def _is_apart(self, path: str) -> bool:
        while path and path not in self._apart:
            path = os.path.dirname(path)
        return bool(path)

    def _is_code(self, path: str, is_folder: bool) -> bool:
        if is_folder:
            return any(file.startswith(f"{path}/") for file in self._code)
        return path.endswith(".py") or path in self._code

    def _link(self, name: str, location: str) -> Iterator[_Entry]:
        target = os.path.realpath(location)
        if not target.startswith(f"{self._root}/"):
            self.leave_out(name, "it leads out of the project")
            return
        yield _Entry(name, location, os.path.relpath(target, os.path.dirname(location)))


def _package() -> Iterator[_Entry]:
    root = os.path.dirname(os.path.abspath(whyrun.__file__))

    def enter(path: str, location: str, is_folder: bool) -> bool:
        name = os.path.basename(path)
        return not (name.startswith(".") or name in _CACHES or name.endswith(_COMPILED))

    for path, location, status in _walk(root, enter):
        if stat.S_ISREG(status.st_mode):
            yield _Entry(f"{PACKAGE}/whyrun/{path}", location)


def _walk(root: str, enter: Callable[[str, str, bool], bool]) -> Iterator[tuple[str, str, os.stat_result]]:
    """Yields `(path, location, status)` of everything but folders that `enter` allows. Does not follow links."""
    folders = [""]
    while folders:
        folder = folders.pop()
        with os.scandir(f"{root}/{folder}") as listing:
            for item in listing:
                path = f"{folder}/{item.name}" if folder else item.name
                is_folder = item.is_dir(follow_symlinks=False)
                if not enter(path, item.path, is_folder):
                    continue
                if is_folder:
                    folders.append(path)
                else:
                    yield path, f"{root}/{path}", item.stat(follow_symlinks=False)


def _read(location: str) -> bytes | None:
    try:
        descriptor = os.open(location, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


# --- the archive -------------------------------------------------------------------------------------------------


class _Archive:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._members: dict[str, tuple[tarfile.TarInfo, bytes]] = {}
        self._size = 0

    def add(self, entry: _Entry, content: bytes) -> None:
        """Add a file without owner and time, and with only the executable bit of its mode, so that bytes are the same
        for everyone."""
        member = self.put(entry.name, content)
        member.mode = 0o755 if os.lstat(entry.location).st_mode & stat.S_IXUSR else 0o644
        if entry.link is not None:
            member.type, member.linkname, member.mode = tarfile.SYMTYPE, entry.link, 0o777

    def put(self, name: str, content: bytes) -> tarfile.TarInfo:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        self._members[name] = (member, content)
        self._size += len(content)
        if self._size > self._limit:
            raise self._too_large()
        return member

    def _too_large(self) -> Exception:
        largest = sorted(self._members.values(), key=lambda item: -item[0].size)[:3]
        shown = ", ".join(
            f"`{member.name.partition('/')[2]}` ({member.size / 1e6:.1f} MB)" for member, _ in largest if member.size
        )
        return error(
            "BUNDLE_TOO_LARGE",
            f"the project's own files are more than {self._limit / 1e6:.0f} MB; the largest: {shown}",
            hint="declare data as inputs of the workflow, which are sent by their hash, or keep it outside the project",
        )

    def folders_and_files(self) -> set[str]:
        present = set(self._members)
        for name in self._members:
            while name := os.path.dirname(name):
                present.add(name)
        return present

    def bytes(self) -> bytes:
        buffer = io.BytesIO()
        with tarfile.open(
            fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT, encoding="utf-8", errors="surrogateescape"
        ) as archive:
            for name in sorted(self._members, key=os.fsencode):
                member, content = self._members[name]
                archive.addfile(member, io.BytesIO(content))
        return buffer.getvalue()


# --- the bundle of a run: packed as it was planned ---------------------------------------------------------------


_TRIES = 5


def bundle_for(
    project: Project, observations: Observations, secrets: Iterable[str], *, at_once: bool
) -> Callable[[], Bundle]:
    """A function that returns the bundle. `at_once`: build it now, so that a problem is reported before the run writes
    anything. `observations`: what steps were seen to read. `secrets`: values that no bundled file may contain."""
    build = partial(_build, project, observations, list(secrets))
    if not at_once:
        return build
    bundle = build()
    return lambda: bundle


def _build(project: Project, observations: Observations, secrets: list[str]) -> Bundle:
    pack = partial(
        bundle_project,
        project.folder,
        apart=frozenset(_apart(project)),
        code=frozenset(_code(project)),
        read=frozenset(_known_reads(project, observations)),
        secrets=[value.encode("utf-8", "surrogateescape") for value in secrets if value],
    )
    return replace(packed_as_planned(project, pack), needs=tuple(sorted(set(_needs(project)))))


def packed_as_planned(project: Project, pack: Callable[[], Bundle]) -> Bundle:
    """Pack the project so that the bundle has exactly the code of the plan. Repeats if a code file is written to
    between the start of packing and the check against the plan."""
    files = [f"{project.folder}/{file}" for file in sorted(_code(project))]
    for _ in range(_TRIES):
        before = [version_of(file) for file in files]
        bundle = pack()
        edited = [job for job, action in project.actions.items() if action.files and not project.is_current(job)]
        if [version_of(file) for file in files] == before:
            if not edited:
                return bundle
            break
    what = f"the code of `{edited[0]}` was edited" if edited else "code of the project was written to again and again"
    raise error("PLAN_STALE", f"{what} while the run was prepared", hint="run again when nobody writes to it")


def _needs(project: Project) -> Iterator[str]:
    """What a bare machine must install for the actions: the packages of Whyrun's extras, and plugins; and uv, which
    makes environments."""
    if any(action.environment is not None for action in project.actions.values()):
        yield _declared().get("uv", "uv")
    for info in project.infos.values():
        if info.origin == "plugin":
            package, _, version = info.distribution.rpartition(" ")
            yield f"{package}=={version}"
        elif info.origin == "builtin" and (extra := BUILTIN[info.name].extra) is not None:
            declared = _declared()
            yield from (declared.get(package, package) for package in extra.packages)


@cache
def _declared() -> dict[str, str]:
    """By package: its requirement as the distribution of Whyrun declares it; empty without a distribution."""
    try:
        lines = metadata.requires("whyrun") or ()
    except metadata.PackageNotFoundError:
        return {}
    requirements = (line.partition(";")[0].strip() for line in lines)
    return {re.split(r"[^\w-]", each, maxsplit=1)[0].replace("-", "_").lower(): each for each in requirements}


def _code(project: Project) -> set[str]:
    return {file for action in project.actions.values() for file in action.files}


def _known_reads(project: Project, observations: Observations) -> Iterator[str]:
    """Files that steps were seen to read, and those in folders that they listed. What a job publishes is left out: this
    run may make it anew."""
    outputs = (output for table in project.graph.tables for output in table.outputs)
    published = {split_site(site)[0] for output in outputs for site in output.paths or ()}
    for path, kind in {(read.path, read.kind) for read in observations.reads}:
        names = _names_in(project.folder / path) if kind == "folder" else None
        for file in [path] if names is None else [os.path.normpath(f"{path}/{name}") for name in names]:
            if file not in published and _is_carried(project.folder / file):
                yield file


def _names_in(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _is_carried(file: Path) -> bool:
    try:
        status = file.stat()
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size <= LARGEST_READ


def _apart(project: Project) -> Iterator[str]:
    """Paths that are not bundled: inputs go to the steps that read them, outputs come from the store, and Whyrun's own
    state stays on the host."""
    paths: Iterable[str] = (
        *(value.path for _, value in leaf_inputs(project.graph.inputs) if value.path is not None),
        *(
            split_site(site)[0]
            for table in project.graph.tables
            for output in table.outputs
            for site in output.paths or ()
        ),
        os.path.relpath(project.state_dir, project.folder),
    )
    for path in paths:
        normal = os.path.normpath(path)
        if not os.path.isabs(normal) and normal.partition("/")[0] not in (".", ".."):
            yield normal
