"""Folders that a step filled: taken away, and cut to what can be kept, however deep they are.

A step can make folders within folders without end: more than a path can name, a stack can hold or a process can have
open. So everything here goes by descriptors, never deeper than `DEEPEST` at once, and follows no link.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

DEEPEST = 64  # folders within folders that are kept
LONGEST = 2048  # bytes of a path in what is kept: all who look at the evidence can name it

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def is_real_folder(path: str | os.PathLike[str]) -> bool:
    """Not a link to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def remove(path: str) -> None:
    """A file, a link, or a folder with all that is in it."""
    above, name = os.path.split(path)
    parent = os.open(above or ".", os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _remove_at(parent, name, is_real_folder(path))
    finally:
        os.close(parent)


def drop_too_deep(folder: Path) -> list[str]:
    """Remove what lies too deep below it to be kept; their paths."""
    dropped: list[str] = []

    def visit(descriptor: int, relative: str, depth: int) -> None:
        for name, is_folder in _entries(descriptor):
            path = f"{relative}{name}"
            if depth == DEEPEST and is_folder or len(os.fsencode(path)) > LONGEST:
                _remove_at(descriptor, name, is_folder)
                dropped.append(path)
            elif is_folder:
                _inside(descriptor, name, lambda inner, path=path: visit(inner, f"{path}/", depth + 1))  # type: ignore[misc]

    _inside(None, str(folder), lambda top: visit(top, "", 1))
    return dropped


def _remove_at(parent: int, name: str, is_folder: bool) -> None:
    if not is_folder:
        _with_rights(parent, lambda: os.unlink(name, dir_fd=parent))
        return
    spilled: list[str] = []  # what lay too deep, moved to the top to be removed from there
    token, numbers = os.urandom(8).hex(), count()

    def clear(top: int, folder: int, depth: int) -> None:
        for inner_name, inner_is_folder in _entries(folder):
            if not inner_is_folder:
                _with_rights(folder, lambda name=inner_name: os.unlink(name, dir_fd=folder))  # type: ignore[misc]
            elif depth < DEEPEST:
                _inside(folder, inner_name, lambda inner: clear(top, inner, depth + 1))
                _with_rights(folder, lambda name=inner_name: os.rmdir(name, dir_fd=folder))  # type: ignore[misc]
            else:
                spilled.append(f"{token}-{next(numbers)}")
                _inside(folder, inner_name, _make_ours)  # else its new place could not be noted in it
                _make_ours(folder)
                os.rename(inner_name, spilled[-1], src_dir_fd=folder, dst_dir_fd=top)

    def clear_all(top: int) -> None:
        clear(top, top, 1)
        while spilled:
            deeper = spilled.pop()
            _inside(top, deeper, lambda inner: clear(top, inner, 1))
            os.rmdir(deeper, dir_fd=top)

    _inside(parent, name, clear_all)
    _with_rights(parent, lambda: os.rmdir(name, dir_fd=parent))


def _entries(folder: int) -> list[tuple[str, bool]]:
    """Names, and which of them are folders."""
    with os.scandir(folder) as listing:
        return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in listing]


def _inside(parent: int | None, name: str, do: Callable[[int], None]) -> None:
    try:
        folder = os.open(name, _FOLDER, dir_fd=parent)
    except PermissionError:
        make_readable(name, parent)
        folder = os.open(name, _FOLDER, dir_fd=parent)
    try:
        do(folder)
    finally:
        os.close(folder)


def make_readable(name: str, parent: int | None) -> None:
    """What a step made unreadable, also for us. By a descriptor: where a link leads is not ours to change."""
    found = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        os.chmod(f"/proc/self/fd/{found}", 0o700)
    finally:
        os.close(found)


def _make_ours(folder: int) -> None:
    if os.fstat(folder).st_mode & 0o700 != 0o700:
        os.fchmod(folder, 0o700)


def _with_rights(folder: int, do: Callable[[], None]) -> None:
    """A step may leave folders that nobody may write to. What is gone meanwhile is gone."""
    with suppress(FileNotFoundError):
        try:
            do()
        except PermissionError:
            _make_ours(folder)
            do()
