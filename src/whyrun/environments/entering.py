"""Lets the process of a step enter an environment: from here on it imports the environment's packages.

The process is a fork of a worker, which has imported Whyrun, and an environment has the same interpreter. So nothing
is started anew: the path of Python changes, and what Whyrun imported is forgotten where the environment has its own.
Child processes find the environment by `PATH`, as after `source bin/activate`.
"""

from __future__ import annotations

import importlib
import os
import site
import sys
from pathlib import Path

from whyrun.environments.locks import read_lock
from whyrun.environments.making import environment_folder, is_made, make_environment, site_packages
from whyrun.errors import error

_OWN = "whyrun"


def enter_locked(environments: Path, project: Path, path: str, sha256: str) -> None:
    """Enter the environment of this file, which is made first where it is missing: on another machine than the host.
    Raises an error if it is not the file of the plan any more, or with uv's own words."""
    folder = environment_folder(environments, sha256)
    if not is_made(folder):
        lock = read_lock(project, path)
        if lock.sha256 != sha256:
            hint = "run again when nobody writes to it"
            raise error("PLAN_STALE", f"`{path}` is not the file of the plan any more", hint=hint)
        make_environment(environments, project, lock)
    enter(folder, project)


def enter(folder: Path, project: Path) -> None:
    packages = str(site_packages(folder))
    if packages in sys.path:
        return
    os.environ["VIRTUAL_ENV"] = str(folder)
    os.environ["PATH"] = os.pathsep.join((str(folder / "bin"), os.environ.get("PATH", os.defpath)))
    of_project = [entry for entry in sys.path if _is_of_project(entry, str(project))]
    sys.path[:] = [*of_project, *_standard_library()]
    sys.prefix = sys.exec_prefix = str(folder)
    sys.executable = str(folder / "bin" / "python")
    # Finders of packages that are installed editable beside Whyrun.
    sys.meta_path[:] = [finder for finder in sys.meta_path if _is_standard(finder)]
    site.addsitedir(packages)
    sys.path_importer_cache.clear()
    importlib.invalidate_caches()
    _forget_packages(packages)
    if (spawn := sys.modules.get("multiprocessing.spawn")) is not None:
        spawn.set_executable(sys.executable)


def _is_of_project(entry: str, project: str) -> bool:
    """The project folder, or one of its own folders that an editable installation names, such as `src`."""
    return entry == project or (entry.startswith(f"{project.rstrip('/')}/") and not _is_installed(f"{entry}/"))


def _standard_library() -> list[str]:
    prefixes = tuple({f"{os.path.realpath(prefix)}/" for prefix in (sys.base_prefix, sys.base_exec_prefix)})
    return [
        entry
        for entry in sys.path
        if os.path.realpath(entry).startswith(prefixes) and not entry.rstrip("/").endswith(("-packages",))
    ]


def _is_standard(finder: object) -> bool:
    module = finder.__module__ if isinstance(finder, type) else type(finder).__module__
    return module.startswith(("_frozen_importlib", "importlib", "zipimport", f"{_OWN}."))


def _forget_packages(packages: str) -> None:
    """Forget the modules of other packages than Whyrun, whose own modules keep those that they have imported. Where
    the environment lacks a package that Whyrun needs, it stays: Whyrun may import it again."""
    for name, module in list(sys.modules.items()):
        top = name.partition(".")[0]
        file = getattr(module, "__file__", None)
        if top == _OWN or file is None or not _is_installed(file):
            continue
        if os.path.exists(f"{packages}/{top}") or os.path.exists(f"{packages}/{top}.py"):
            del sys.modules[name]


def _is_installed(file: str) -> bool:
    return "/site-packages/" in file or "/dist-packages/" in file
