"""Files at a site, read by the host: no link is followed on the way, nothing special is opened, nothing without bound.

What a step left is not to be trusted, and some of its processes may still be there to change it.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from whyrun.execution.backends.copying import copy_content
from whyrun.execution.backends.transport import PlaceLost
from whyrun.execution.trees import DEEPEST, LONGEST, make_readable

# Not there, or not what it should be (a link, a socket, a device): all mean that there is nothing to bring.
_NOTHING = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.ENODEV)

# Beyond what is kept anyway (see `trees`): there it is told what was left out, so something of it has to come.
_DEEPEST, _LONGEST = DEEPEST + 4, LONGEST + 320
_CHUNK = 1 << 20


def open_below(root: Path, path: str, flags: int = 0) -> int | None:
    """Part by part, so that no link on the way leads out of `root`; only regular files and folders."""
    parts = path.split("/")
    if not {"", ".", ".."}.isdisjoint(parts):
        return None
    folder = os.open(root, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    for number, part in enumerate(parts, 1):
        try:
            inner = _open_at(folder, part, flags if number == len(parts) else os.O_DIRECTORY)
        finally:
            os.close(folder)
        if inner is None:
            return None
        folder = inner
    return folder


def _open_at(folder: int, name: str, flags: int) -> int | None:
    # Not blocking: a pipe in its place would be waited for.
    flags |= os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        try:
            found = os.open(name, flags, dir_fd=folder)
        except PermissionError:
            make_readable(name, folder)
            found = os.open(name, flags, dir_fd=folder)
    except OSError as problem:
        if problem.errno in _NOTHING:
            return None
        raise
    mode = os.fstat(found).st_mode
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return found
    os.close(found)
    return None


def read_below(root: Path, path: str, limit: int) -> bytes:
    """The content of a file; empty if there is none. It may say that it is larger than any memory."""
    descriptor = open_below(root, path)
    if descriptor is None:
        return b""
    try:
        found = os.fstat(descriptor)
        data = b"" if found.st_size > limit else _read(descriptor, limit + 1)  # it may have grown meanwhile
    finally:
        os.close(descriptor)
    if max(found.st_size, len(data)) > limit:
        raise too_much(path, limit)
    return data


def head_below(root: Path, path: str, size: int) -> bytes:
    """The first bytes of a file; empty if there is none."""
    descriptor = open_below(root, path)
    if descriptor is None:
        return b""
    try:
        return _read(descriptor, size)
    finally:
        os.close(descriptor)


def _read(descriptor: int, size: int) -> bytes:
    pieces = []
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        while size and (piece := os.read(descriptor, min(_CHUNK, size))):
            pieces.append(piece)
            size -= len(piece)
    return b"".join(pieces)


def too_much(path: str, limit: int) -> PlaceLost:
    return PlaceLost(f"the worker left too much in `{path}`: more than {limit} bytes")


def tail_below(root: Path, path: str, size: int) -> bytes:
    """The last bytes of a file; empty if there is none."""
    descriptor = open_below(root, path)
    if descriptor is None:
        return b""
    try:
        found = os.fstat(descriptor)
        return b"" if stat.S_ISDIR(found.st_mode) else os.pread(descriptor, size, max(0, found.st_size - size))
    finally:
        os.close(descriptor)


def fetch_below(root: Path, path: str, target: Path) -> bool:
    """Bring a file; False if there is none."""
    descriptor = open_below(root, path)
    if descriptor is None:
        return False
    try:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            return False
        with open(target, "wb") as copy:
            copy_content(descriptor, copy.fileno())
    finally:
        os.close(descriptor)
    return True


def fetch_tree_below(root: Path, path: str, target: Path) -> bool:
    """Bring a folder with all that is in it, links as links; False if there is none."""
    folder = open_below(root, path, os.O_DIRECTORY)
    if folder is None:
        return False
    try:
        _copy_from(folder, target, 1, 0)
    finally:
        os.close(folder)
    return True


def comes_back(depth: int, length: int) -> bool:
    """Whether something so deep in a folder, with so long a path, is brought."""
    return depth <= _DEEPEST and length <= _LONGEST


def _copy_from(folder: int, target: Path, depth: int, length: int) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for name in os.listdir(folder):
        reached = length + len(os.fsencode(name)) + 1
        if not comes_back(depth, reached):
            continue
        try:
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        except FileNotFoundError:
            continue  # somebody there took it away meanwhile
        if stat.S_ISLNK(mode):
            os.symlink(os.readlink(name, dir_fd=folder), target / name)
            continue
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            continue
        inner = _open_at(folder, name, 0)
        if inner is None:
            continue
        try:
            if stat.S_ISDIR(os.fstat(inner).st_mode):
                _copy_from(inner, target / name, depth + 1, reached)
            else:
                with open(target / name, "wb") as copy:
                    copy_content(inner, copy.fileno())
        finally:
            os.close(inner)
