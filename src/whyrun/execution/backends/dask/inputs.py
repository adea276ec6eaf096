"""Files and folders that are inputs of a workflow, on their way to a Dask worker: read once, and placed once.

A parcel is plain data: the files by their path within the input (a file itself has the empty path), the folders, and
which files are executable, since that counts in the hash of a folder.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

from whyrun.execution.trees import is_real_folder, remove


def version_of(source: Path, follow: bool = True) -> str:
    """Another where anything in it has been written since: names, sizes, times, and who may execute it."""
    told = []
    for path, relative in _entries(source, follow):
        found = os.stat(path, follow_symlinks=follow)
        told.append(f"{relative}\0{found.st_mode:o} {found.st_size} {found.st_mtime_ns}")
    return "\0".join(told)


def size_of(source: Path) -> int:
    return sum(path.stat().st_size for path, _ in _entries(source) if path.is_file())


def packed(source: Path) -> dict[str, Any]:
    files: dict[str, bytes] = {}
    folders: list[str] = []
    executable: list[str] = []
    for path, relative in _entries(source):
        if path.is_dir():
            folders.append(relative)
            continue
        files[relative] = path.read_bytes()
        if relative and os.access(path, os.X_OK):
            executable.append(relative)
    return {"files": files, "folders": folders, "executable": executable}


def _entries(source: Path, follow: bool = True) -> list[tuple[Path, str]]:
    """The file or folder itself, and all that is in it, in a fixed order. Links of a project are followed, wherever
    they lead; those that a step made where its inputs lie are not."""
    found = [(source, "")]
    if source.is_dir():
        for parent, inner, names in os.walk(source, followlinks=follow):
            below = os.path.relpath(parent, source)
            found += [(Path(parent, name), os.path.normpath(f"{below}/{name}")) for name in (*inner, *names)]
    return sorted(found, key=lambda entry: entry[1])


class Placed:
    """The inputs that lie on a worker, for all steps there that read them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._versions: dict[str, tuple[str, str]] = {}  # that of the host, and that of what was placed

    def place(self, path: str, version: str, parcel: dict[str, Any]) -> None:
        """Nothing is written where the same lies there already: a step in another thread may read it."""
        target = self._folder / path
        with self._lock:
            if os.path.lexists(target) and self._versions.get(path) == (version, version_of(target, follow=False)):
                return
            _fill(target, parcel)
            self._versions[path] = (version, version_of(target, follow=False))


def _fill(target: Path, parcel: dict[str, Any]) -> None:
    if is_real_folder(target) != (parcel["folders"] != []) and os.path.lexists(target):
        remove(str(target))
    target.parent.mkdir(parents=True, exist_ok=True)
    for path, relative in _entries(target, follow=False) if is_real_folder(target) else ():
        is_meant = relative in parcel["files"] or relative in parcel["folders"]
        if (path.is_symlink() or not is_meant) and os.path.lexists(path):
            remove(str(path))  # a step put it there
    for relative in parcel["folders"]:
        (target / relative).mkdir(exist_ok=True)
    for relative, data in parcel["files"].items():
        _write(target / relative if relative else target, data, relative in parcel["executable"])


def _write(target: Path, data: bytes, executable: bool) -> None:
    same = not target.is_symlink() and target.is_file() and target.read_bytes() == data
    if same and os.access(target, os.X_OK) == executable:
        return
    temp = target.with_name(f".{target.name}.{threading.get_ident()}")
    temp.write_bytes(data)
    if executable:
        temp.chmod(0o755)
    os.replace(temp, target)
