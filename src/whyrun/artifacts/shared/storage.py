"""Where a shared store keeps its things: keys with bytes, in a folder or behind any URL that fsspec can open.

A shelf knows nothing of what stands on it. Readers never see half of a thing: a folder gets files by rename or link,
and object stores show an object when all of it is there. What a shelf gives out is checked by whoever asked for it.
"""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from whyrun.artifacts.durable import temp_name, write_all
from whyrun.artifacts.shelf_address import folder_of

PIECE = 4 << 20  # bytes that are asked for, or sent, at a time
# What file systems say that have no hard links (FAT, many of FUSE and SMB), or none between two folders (AFS).
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV}

Link = Callable[[Path, Path], None]


class ShelfError(Exception):
    """The shelf cannot be used: not reachable, not allowed, not installed."""


class ReadOnlyShelf(ShelfError):
    """Things can be taken from the shelf, but not put on it."""


class Shelf(Protocol):
    """Raises ShelfError where it cannot do what it is asked. Used by several threads at once."""

    @property
    def beginning(self) -> str | None:
        """What there was before the first thing was put: `made` or `empty`. None: more, or nobody has looked."""

    def read(self, key: str, start: int, end: int) -> bytes | None:
        """These bytes of a thing, fewer where it ends before; None where there is no such thing."""

    def size(self, key: str) -> int | None:
        """How many bytes it has; None where there is no such thing."""

    def put_file(self, key: str, path: str) -> None:
        """The content of a local file, under this key: whole, or not at all."""

    def put_bytes(self, key: str, data: bytes, *, replace: bool) -> bool:
        """The same for a few bytes. False: something stands there already, and is not to be replaced."""


def open_shelf(address: str, project: Path) -> Shelf:
    """The shelf at a URL or in a folder (relative to the project). Nothing is asked of it yet."""
    try:
        folder = folder_of(address, project)
    except RuntimeError as problem:
        raise ShelfError(str(problem)) from None
    if folder is not None:
        return FolderShelf(folder)
    from whyrun.artifacts.shelf_url import UrlShelf

    return UrlShelf(address)


class FolderShelf:
    """A folder that several machines see, or several clones on one."""

    def __init__(self, root: Path, link: Link = os.link) -> None:
        """`link`: how a file gets a second name."""
        self.root = root
        self._link = link
        self._beginning: str | None = None
        self._begun, self._lock = False, threading.Lock()

    @property
    def beginning(self) -> str | None:
        return self._beginning

    def read(self, key: str, start: int, end: int) -> bytes | None:
        try:
            with open(self.root / key, "rb") as file:
                file.seek(start)
                return file.read(end - start)
        except (FileNotFoundError, NotADirectoryError):
            self._check_there()
            return None
        except OSError as problem:
            raise ShelfError(_told(problem)) from problem

    def size(self, key: str) -> int | None:
        try:
            return os.stat(self.root / key).st_size
        except (FileNotFoundError, NotADirectoryError):
            self._check_there()
            return None
        except OSError as problem:
            raise ShelfError(_told(problem)) from problem

    def put_file(self, key: str, path: str) -> None:
        def copy(descriptor: int) -> None:
            with open(path, "rb") as source, open(descriptor, "wb", closefd=False) as target:
                shutil.copyfileobj(source, target, PIECE)

        self._put(key, copy, replace=True)

    def put_bytes(self, key: str, data: bytes, *, replace: bool) -> bool:
        return self._put(key, lambda descriptor: write_all(descriptor, data), replace=replace)

    def _put(self, key: str, write: Any, *, replace: bool) -> bool:
        target = self.root / key
        temp = self.root / "tmp" / temp_name()
        written = False
        try:
            self._begin()
            temp.parent.mkdir(exist_ok=True)
            target.parent.mkdir(parents=True, exist_ok=True)
            # Readable by whoever shares the folder, as far as the umask lets them.
            descriptor = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            written = True
            try:
                write(descriptor)
                os.fsync(descriptor)  # another machine, or this one after a power cut, finds all of it or nothing
            finally:
                os.close(descriptor)
            return self._into_place(temp, target, replace=replace)
        except PermissionError as problem:
            raise ReadOnlyShelf(_told(problem)) from problem
        except OSError as problem:
            raise ShelfError(_told(problem)) from problem
        finally:
            if written:
                temp.unlink(missing_ok=True)

    def _begin(self) -> None:
        """A disk that is not mounted looks like a store in which there is nothing: so whoever begins one is told."""
        with self._lock:
            if self._begun:
                return
            self._check_there()
            try:
                self.root.mkdir()
                self._beginning = "made"
            except FileExistsError:
                with suppress(PermissionError):  # one may write into a folder, and yet not see what is in it
                    self._beginning = None if os.listdir(self.root) else "empty"
            self._begun = True

    def _into_place(self, temp: Path, target: Path, *, replace: bool) -> bool:
        if replace:
            os.replace(temp, target)
            return True
        try:
            self._link(temp, target)  # unlike a rename, it refuses where another writer was quicker
        except FileExistsError:
            return False
        except OSError as refused:
            if refused.errno not in _NO_LINKS:
                raise
            return _renamed_if_free(temp, target)
        return True

    def _check_there(self) -> None:
        """A store that is empty and one that is not there (a disk that is not mounted) are two things."""
        if not self.root.parent.is_dir():
            raise ShelfError(f"there is no folder {self.root.parent}")
        if self.root.exists() and not self.root.is_dir():
            raise ShelfError(f"{self.root} is no folder")


def _renamed_if_free(temp: Path, target: Path) -> bool:
    """Whole or not at all, as with a link. Of two writers at the very same moment the last one stays, not the first:
    no lock holds on all the machines that see such a folder, and a mark that a killed writer left would stop everybody.
    """
    if os.path.lexists(target):
        return False
    os.rename(temp, target)
    return True


def _told(problem: OSError) -> str:
    return f"{type(problem).__name__}: {problem.strerror or problem}"
