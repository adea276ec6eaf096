"""Where the interpreter itself looks for modules of the project: what `pip install -e .` leaves.

An editable installation is a line in a `.pth` file, which puts a folder such as `src` on `sys.path`, or a finder on
`sys.meta_path` that maps names to paths. Workers have both, since they run with the Python that runs whyrun. What else
is on the path of this process alone (PYTHONPATH, the current folder, what a program has put there) they do not have: it
plays no part, or the plan would depend on how whyrun was started.

Nothing is imported or asked for here: some finders build a package anew when they are asked for it.
"""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

Name = tuple[str, ...]  # of a module: its parts
BUNDLED = ".import-folders"  # in a copy of the project, which is elsewhere: the folders that were on the path here


@dataclass(frozen=True, slots=True)
class Editable:
    folders: tuple[str, ...] = ()  # on the path of workers, in its order: in the project, or those that it lies in
    mapped: Mapping[Name, tuple[str, ...]] = field(default_factory=dict)  # module → its paths, without a suffix

    def __bool__(self) -> bool:
        return bool(self.folders or self.mapped)

    def import_folders(self, project: str) -> tuple[str, ...]:
        """Of the project, relative to it: the folders that make it importable where nothing is installed. Of what is
        mapped that is so unless a folder has another name than its package."""
        ends = [(path, f"/{'/'.join(name)}") for name, paths in self.mapped.items() for path in paths]
        holders = [path.removesuffix(end) for path, end in ends if path.endswith(end)]
        inside = (folder for folder in (*self.folders, *holders) if is_below(folder, project))
        return tuple(dict.fromkeys(folder[len(project) + 1 :] for folder in inside))


def editable_in(project: str) -> Editable:
    """`project` without a slash at its end."""
    return Editable(_folders(project, tuple(sys.path)), dict(_mapped(project)))


# Remembered for a path as it is: this process has what was installed when it began.
@lru_cache(maxsize=64)
def _folders(project: str, path: tuple[str, ...]) -> tuple[str, ...]:
    near = [(entry, place) for entry in path if os.path.isabs(entry) and (place := _near(entry, project))]
    if not near:  # nearly always
        return ()
    lines = list(_pth_lines())
    return tuple(dict.fromkeys(place for entry, place in near if any(_adds(line, entry) for line in lines)))


def _near(entry: str, project: str) -> str | None:
    inside = place_in(entry, project)
    if inside is not None:
        return inside if inside != project and is_own(inside, project) else None
    return entry if is_below(project, entry.rstrip("/")) else None


def _pth_lines() -> Iterator[str]:
    """Paths as they come to stand on `sys.path`, and statements."""
    for folder in site.getsitepackages():
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            if not name.endswith(".pth") or name.startswith("."):
                continue
            try:
                with open(f"{folder}/{name}", encoding="utf-8-sig", errors="surrogateescape") as file:
                    lines = file.read().splitlines()
            except OSError:
                continue  # as Python does
            for line in lines:
                is_statement = line.startswith(("#", "import ", "import\t"))
                yield line if is_statement else os.path.abspath(os.path.join(folder, line.rstrip()))


def _adds(line: str, entry: str) -> bool:
    return line == entry or (line.startswith("import") and entry in line)


# --- elsewhere ---------------------------------------------------------------------------------------------------


def folders_to_bundle(project: str) -> bytes:
    """What a copy of the project has in `BUNDLED`; nothing where nothing of it is installed."""
    folders = editable_in(project.rstrip("/")).import_folders(project.rstrip("/"))
    return b"\0".join(map(os.fsencode, folders))


def bundled_folders(project: str) -> list[str]:
    """In a copy of the project: what is to be on the path there, after the project itself."""
    try:
        with open(f"{project}/{BUNDLED}", "rb") as file:
            return [f"{project}/{os.fsdecode(folder)}" for folder in file.read().split(b"\0")]
    except OSError:
        return []


# --- finders -----------------------------------------------------------------------------------------------------


def is_editable_finder(finder: Any) -> bool:
    return _of_setuptools(finder) or isinstance(getattr(finder, "_redirections", None), dict)


def _of_setuptools(finder: Any) -> bool:
    return str(getattr(finder, "__module__", "")).startswith("__editable__")


def _mapped(project: str) -> Iterator[tuple[Name, tuple[str, ...]]]:
    found: dict[Name, list[str]] = {}
    for finder in sys.meta_path:
        for name, path in _mappings(finder) if is_editable_finder(finder) else ():
            place = place_in(path.removesuffix(".py").removesuffix("/__init__"), project)
            if place is not None and place != project and is_own(place, project):
                found.setdefault(tuple(name.split(".")), []).append(place)
    return ((name, tuple(dict.fromkeys(places))) for name, places in found.items())


def _mappings(finder: Any) -> Iterator[tuple[str, str]]:
    """Of setuptools: `MAPPING` and `NAMESPACES` of its module. Of the library `editables`: what its class was told."""
    module = sys.modules.get(finder.__module__) if _of_setuptools(finder) else None
    for name, path in getattr(module, "MAPPING", getattr(finder, "_redirections", {})).items():
        yield name, str(path)
    for name, paths in getattr(module, "NAMESPACES", {}).items():
        yield from ((name, str(path)) for path in paths)


# --- what is the project's own -----------------------------------------------------------------------------------


def is_below(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/")


def place_in(path: str, project: str) -> str | None:
    """A path in the project, as one that begins with the project's. Either may have come by a link to its place."""
    for by_link in (False, True):
        plain = os.path.realpath(path) if by_link else path.rstrip("/")
        root = os.path.realpath(project) if by_link else project
        if plain == root or is_below(plain, root):
            return project + plain[len(root) :]
    return None


def is_own(path: str, project: str) -> bool:
    """Not hidden, and not of a virtual environment or an interpreter that lies in the project."""
    inner = path[len(project) + 1 :]
    if any(part.startswith(".") or part.endswith("-packages") for part in inner.split("/")):
        return False
    folder = path
    while is_below(folder, project):
        if folder in (sys.prefix, sys.base_prefix) or os.path.exists(f"{folder}/pyvenv.cfg"):
            return False
        folder = os.path.dirname(folder)
    return True
