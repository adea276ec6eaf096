"""Sends input files and folders of a workflow to Dask workers: each is read once and written once per worker.

A packed input is plain data: the files by their path within the input (a single file has the empty path), the folders,
and which files are executable, because that counts in the hash of a folder.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

from whyrun.execution.files.tree_removal import is_real_folder, remove


def version_of(source: Path, follow: bool = True) -> str:
    """A text that changes with every change of the input: names, sizes, times and modes."""
    rows = []
    for path, relative in _entries(source, follow):
        status = os.stat(path, follow_symlinks=follow)
        rows.append(f"{relative}\0{status.st_mode:o} {status.st_size} {status.st_mtime_ns}")
    return "\0".join(rows)


def size_of(source: Path) -> int:
    return sum(path.stat().st_size for path, _ in _entries(source) if path.is_file())


def pack(source: Path) -> dict[str, Any]:
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
    """The file or folder and everything in it, in a fixed order. Links of the project are followed, wherever they lead.
    Links that a step created among its inputs are not."""
    entries = [(source, "")]
    if source.is_dir():
        for parent, inner, names in os.walk(source, followlinks=follow):
            below = os.path.relpath(parent, source)
            entries += [(Path(parent, name), os.path.normpath(f"{below}/{name}")) for name in (*inner, *names)]
    return sorted(entries, key=lambda entry: entry[1])


class WorkerInputs:
    """The inputs on one Dask worker, shared by all its steps."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._versions: dict[str, tuple[str, str]] = {}  # path → version on the host, version of the copy

    def write(self, path: str, version: str, packed: dict[str, Any]) -> None:
        """Write an input, unless the same version is there: a step in another thread may be reading it."""
        target = self._folder / path
        with self._lock:
            if os.path.lexists(target) and self._versions.get(path) == (version, version_of(target, follow=False)):
                return
            _fill(target, packed)
            self._versions[path] = (version, version_of(target, follow=False))


def _fill(target: Path, packed: dict[str, Any]) -> None:
    if is_real_folder(target) != (packed["folders"] != []) and os.path.lexists(target):
        remove(str(target))
    target.parent.mkdir(parents=True, exist_ok=True)
    for path, relative in _entries(target, follow=False) if is_real_folder(target) else ():
        is_meant = relative in packed["files"] or relative in packed["folders"]
        if (path.is_symlink() or not is_meant) and os.path.lexists(path):
            remove(str(path))  # a step created it
    for relative in packed["folders"]:
        (target / relative).mkdir(exist_ok=True)
    for relative, data in packed["files"].items():
        _write(target / relative if relative else target, data, relative in packed["executable"])


def _write(target: Path, data: bytes, executable: bool) -> None:
    same = not target.is_symlink() and target.is_file() and target.read_bytes() == data
    if same and os.access(target, os.X_OK) == executable:
        return
    temp = target.with_name(f".{target.name}.{threading.get_ident()}")
    temp.write_bytes(data)
    if executable:
        temp.chmod(0o755)
    os.replace(temp, target)
