"""Where Python finds the project's modules after `pip install -e .`, and where a child process finds whyrun.

An editable installation is either a line in a `.pth` file, which puts a folder such as `src` on `sys.path`, or a finder
on `sys.meta_path` that maps names to paths. Workers have both, since they use the same Python. They do not have other
entries of this process's path (PYTHONPATH, the current folder, entries that a program added). Those are ignored here,
or the plan would depend on how whyrun was started.

This module imports nothing and calls no finder: some finders rebuild a package when they are called.
"""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec

Name = tuple[str, ...]  # the parts of a module name
BUNDLED = ".import-folders"  # the file in a bundled copy of the project that lists the import folders


class Editable(msgspec.Struct, frozen=True):
    folders: tuple[str, ...] = ()  # entries of the workers' path, in order, that are inside or above the project
    mapped: Mapping[Name, tuple[str, ...]] = msgspec.field(default_factory=dict)  # module → its paths without suffix

    def __bool__(self) -> bool:
        return bool(self.folders or self.mapped)

    def import_folders(self, project: str) -> tuple[str, ...]:
        """The folders, relative to the project, that make it importable where nothing is installed.

        A mapped package is left out if its folder has another name than the package.
        """
        ends = [(path, f"/{'/'.join(name)}") for name, paths in self.mapped.items() for path in paths]
        holders = [path.removesuffix(end) for path, end in ends if path.endswith(end)]
        inside = (folder for folder in (*self.folders, *holders) if is_below(folder, project))
        return tuple(dict.fromkeys(folder[len(project) + 1 :] for folder in inside))


def editable_in(project: str) -> Editable:
    """The editable installation of a project. `project` has no trailing slash."""
    return Editable(_folders(project, tuple(sys.path)), dict(_mapped(project)))


# Cached by `sys.path`: this process does not see packages that are installed after it started.
@lru_cache(maxsize=64)
def _folders(project: str, path: tuple[str, ...]) -> tuple[str, ...]:
    candidates = [(entry, folder) for entry in path if os.path.isabs(entry) and (folder := _related(entry, project))]
    if not candidates:  # the usual case
        return ()
    lines = list(_pth_lines())
    return tuple(dict.fromkeys(folder for entry, folder in candidates if any(_adds(line, entry) for line in lines)))


def _related(entry: str, project: str) -> str | None:
    """The folder of a `sys.path` entry that lies inside or above the project."""
    inside = path_in_project(entry, project)
    if inside is not None:
        return inside if inside != project and is_own(inside, project) else None
    return entry if is_below(project, entry.rstrip("/")) else None


def _pth_lines() -> Iterator[str]:
    """The lines of all `.pth` files: paths as they appear on `sys.path`, and import statements."""
    for folder in site.getsitepackages():
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            if not name.endswith(".pth") or name.startswith("."):
                continue
            try:
                with open(f"{folder}/{name}", encoding="utf-8-sig", errors="surrogateescape") as file:
                    lines = file.read().splitlines()
            except OSError:
                continue  # Python skips unreadable files, too
            for line in lines:
                is_statement = line.startswith(("#", "import ", "import\t"))
                yield line if is_statement else os.path.abspath(os.path.join(folder, line.rstrip()))


def _adds(line: str, entry: str) -> bool:
    return line == entry or (line.startswith("import") and entry in line)


# --- whyrun itself -----------------------------------------------------------------------------------------------


def whyrun_home() -> str | None:
    """The folder to put on PYTHONPATH of a child process, if its interpreter would not find whyrun without it.

    It finds whyrun in site-packages or through a `.pth` file. It does not if whyrun was imported from PYTHONPATH, the
    current folder or the user's own site-packages (below HOME).
    """
    import whyrun

    home = os.path.dirname(os.path.dirname(os.path.abspath(whyrun.__file__)))
    python_path = [os.path.abspath(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    needed = home in python_path or home == os.getcwd() or home == os.path.abspath(site.getusersitepackages())
    return home if needed else None


# --- bundled copies ----------------------------------------------------------------------------------------------


def folders_to_bundle(project: str) -> bytes:
    """The content of `BUNDLED` in a copy of the project; empty if the project is not installed."""
    folders = editable_in(project.rstrip("/")).import_folders(project.rstrip("/"))
    return b"\0".join(map(os.fsencode, folders))


def bundled_folders(project: str) -> list[str]:
    """The folders of a bundled copy that go on `sys.path` after the project itself."""
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
    paths_by_name: dict[Name, list[str]] = {}
    for finder in sys.meta_path:
        for name, path in _mappings(finder) if is_editable_finder(finder) else ():
            inside = path_in_project(path.removesuffix(".py").removesuffix("/__init__"), project)
            if inside is not None and inside != project and is_own(inside, project):
                paths_by_name.setdefault(tuple(name.split(".")), []).append(inside)
    return ((name, tuple(dict.fromkeys(paths))) for name, paths in paths_by_name.items())


def _mappings(finder: Any) -> Iterator[tuple[str, str]]:
    """setuptools keeps `MAPPING` and `NAMESPACES` in a module; the library `editables` keeps `_redirections`."""
    module = sys.modules.get(finder.__module__) if _of_setuptools(finder) else None
    for name, path in getattr(module, "MAPPING", getattr(finder, "_redirections", {})).items():
        yield name, str(path)
    for name, paths in getattr(module, "NAMESPACES", {}).items():
        yield from ((name, str(path)) for path in paths)


# --- paths of the project ----------------------------------------------------------------------------------------


def is_below(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/")


def path_in_project(path: str, project: str) -> str | None:
    """The path as one that starts with the project's path, or None if it is outside. Resolves symlinks of both."""
    for by_link in (False, True):
        plain = os.path.realpath(path) if by_link else path.rstrip("/")
        root = os.path.realpath(project) if by_link else project
        if plain == root or is_below(plain, root):
            return project + plain[len(root) :]
    return None


def is_own(path: str, project: str) -> bool:
    """Whether a path belongs to the project: not hidden, not in a virtual environment or interpreter inside it."""
    inner = path[len(project) + 1 :]
    if any(part.startswith(".") or part.endswith("-packages") for part in inner.split("/")):
        return False
    folder = path
    while is_below(folder, project):
        if folder in (sys.prefix, sys.base_prefix) or os.path.exists(f"{folder}/pyvenv.cfg"):
            return False
        folder = os.path.dirname(folder)
    return True
