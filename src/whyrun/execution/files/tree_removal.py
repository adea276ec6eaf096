"""Removes folders that a step filled, or cuts them to a depth that can be kept, however deep they are.

A step can nest folders without end: deeper than a path can name, a stack can hold or a process can open. So this module
works with descriptors, never deeper than `DEEPEST` at once, and follows no link.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Protocol

DEEPEST = 64  # levels of nested folders that are kept
LONGEST = 2048  # bytes of a path that is kept, so that every tool can name the file

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def is_real_folder(path: str | os.PathLike[str]) -> bool:
    """Whether it is a folder, and not a link to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def remove(path: str) -> None:
    """Remove a file, a link, or a folder with its content."""
    above, name = os.path.split(path)
    parent = os.open(above or ".", os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _Removal(parent).remove(name, is_real_folder(path))
    finally:
        os.close(parent)


def drop_too_deep(folder: Path) -> list[str]:
    """Remove everything that lies too deep to be kept. Returns the removed paths."""
    dropped: list[str] = []

    def visit(descriptor: int, relative: str, depth: int) -> None:
        for name, is_folder in _entries(descriptor):
            path = f"{relative}{name}"
            if (is_folder and depth == DEEPEST) or len(os.fsencode(path)) > LONGEST:
                _Removal(descriptor).remove(name, is_folder)
                dropped.append(path)
            elif is_folder:
                with _opened(name, descriptor) as inner:
                    visit(inner, f"{path}/", depth + 1)

    with _opened(str(folder)) as top:
        visit(top, "", 1)
    return dropped


class _Removal:
    """Moves folders that lie too deep up to the top, and removes them from there."""

    def __init__(self, parent: int) -> None:
        self._parent = parent
        self._token, self._numbers = os.urandom(8).hex(), count()
        self._moved: list[str] = []

    def remove(self, name: str, is_folder: bool) -> None:
        if not is_folder:
            _remove_entry(os.unlink, name, self._parent)
            return
        with _opened(name, self._parent) as top:
            self._clear(top, top, 1)
            while self._moved:
                deeper = self._moved.pop()
                with _opened(deeper, top) as inner:
                    self._clear(inner, top, 1)
                _remove_entry(os.rmdir, deeper, top)
        _remove_entry(os.rmdir, name, self._parent)

    def _clear(self, folder: int, top: int, depth: int) -> None:
        for name, is_folder in _entries(folder):
            if not is_folder:
                _remove_entry(os.unlink, name, folder)
                continue
            with _opened(name, folder) as inner:
                if depth < DEEPEST:
                    self._clear(inner, top, depth + 1)
                else:
                    _make_ours(inner)  # moving a folder changes its `..` entry
            if depth < DEEPEST:
                _remove_entry(os.rmdir, name, folder)
            else:
                _make_ours(folder)
                self._moved.append(f"{self._token}-{next(self._numbers)}")
                os.rename(name, self._moved[-1], src_dir_fd=folder, dst_dir_fd=top)


def make_readable(name: str, parent: int | None) -> None:
    """Make readable what a step made unreadable. By a descriptor, so that the target of a link is never changed."""
    descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        os.chmod(f"/proc/self/fd/{descriptor}", 0o700)
    finally:
        os.close(descriptor)


def _entries(folder: int) -> list[tuple[str, bool]]:
    """Name of each entry, and whether it is a folder."""
    with os.scandir(folder) as listing:
        return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in listing]


@contextmanager
def _opened(name: str, parent: int | None = None) -> Iterator[int]:
    try:
        folder = os.open(name, _FOLDER, dir_fd=parent)
    except PermissionError:
        make_readable(name, parent)
        folder = os.open(name, _FOLDER, dir_fd=parent)
    try:
        yield folder
    finally:
        os.close(folder)


class _Remove(Protocol):
    def __call__(self, path: str, /, *, dir_fd: int) -> None: ...


def _remove_entry(how: _Remove, name: str, folder: int) -> None:
    """Remove an entry, also from a folder that a step made read-only. It may be gone already."""
    with suppress(FileNotFoundError):
        try:
            how(name, dir_fd=folder)
        except PermissionError:
            _make_ours(folder)
            how(name, dir_fd=folder)


def _make_ours(folder: int) -> None:
    if os.fstat(folder).st_mode & 0o700 != 0o700:
        os.fchmod(folder, 0o700)
