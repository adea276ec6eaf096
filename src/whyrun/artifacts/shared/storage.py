"""Storage of a shared store: bytes by key, in a folder or behind any URL that fsspec can open.

Readers never see half an object: files are renamed or linked into the folder, and object stores show only complete
objects. The caller checks the bytes.
"""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

from whyrun.artifacts.durable import temp_name, write_all
from whyrun.errors import to_install

PIECE = 4 << 20  # bytes per read or write
# Errors of file systems without hard links (FAT, many FUSE and SMB mounts), or without them between folders (AFS).
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV}

Link = Callable[[Path, Path], None]


def scheme_of(address: str) -> str:
    """`s3` of `s3://bucket/prefix`; empty for a folder."""
    scheme, mark, _ = address.partition("://")
    return scheme.lower() if mark and scheme.lower() != "file" else ""


def folder_of(address: str, project: Path) -> Path | None:
    """The folder of an address, relative to the project; None for a URL. RuntimeError: `~user` names no user."""
    return None if scheme_of(address) else project / Path(address.removeprefix("file://")).expanduser()


class StorageError(Exception):
    """The storage cannot be used: unreachable, forbidden or not installed."""


class ReadOnlyStorage(StorageError):
    """The storage can be read, but not written."""


class Storage(Protocol):
    """Raises StorageError if an operation fails. Used by several threads at once."""

    @property
    def beginning(self) -> str | None:
        """How the folder was before the first write: `made` (created) or `empty`. None: not empty, or not known."""

    def read(self, key: str, start: int, end: int) -> bytes | None:
        """The bytes from `start` to `end`, fewer if the object is shorter; None if there is no such object."""

    def size(self, key: str) -> int | None:
        """The size of an object; None if there is no such object."""

    def put_file(self, key: str, path: str) -> None:
        """Write the content of a local file: completely, or not at all."""

    def put_bytes(self, key: str, data: bytes, *, replace: bool) -> bool:
        """The same for a few bytes. False: the object exists, and `replace` is false."""


def open_storage(address: str, project: Path) -> Storage:
    """The storage at a URL or in a folder (relative to the project). It is not accessed yet."""
    try:
        folder = folder_of(address, project)
    except RuntimeError as problem:
        raise StorageError(str(problem)) from None
    if folder is not None:
        return FolderStorage(folder)

    return UrlStorage(address)


class FolderStorage:
    """A folder that several machines, or several clones on one machine, share."""

    def __init__(self, root: Path, link: Link = os.link) -> None:
        """`link`: makes a hard link; tests replace it."""
        self.root = root
        self._link = link
        self._beginning: str | None = None
        self._created, self._lock = False, threading.Lock()

    @property
    def beginning(self) -> str | None:
        return self._beginning

    def read(self, key: str, start: int, end: int) -> bytes | None:
        try:
            with open(self.root / key, "rb") as file:
                file.seek(start)
                return file.read(end - start)
        except (FileNotFoundError, NotADirectoryError):
            self._check_mounted()
            return None
        except OSError as problem:
            raise StorageError(_message(problem)) from problem

    def size(self, key: str) -> int | None:
        try:
            return os.stat(self.root / key).st_size
        except (FileNotFoundError, NotADirectoryError):
            self._check_mounted()
            return None
        except OSError as problem:
            raise StorageError(_message(problem)) from problem

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
            self._create()
            temp.parent.mkdir(exist_ok=True)
            target.parent.mkdir(parents=True, exist_ok=True)
            # Readable for everybody who shares the folder, as far as the umask allows.
            descriptor = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            written = True
            try:
                write(descriptor)
                os.fsync(descriptor)  # after a power cut, readers find all of it or nothing
            finally:
                os.close(descriptor)
            return self._move_into_place(temp, target, replace=replace)
        except PermissionError as problem:
            raise ReadOnlyStorage(_message(problem)) from problem
        except OSError as problem:
            raise StorageError(_message(problem)) from problem
        finally:
            if written:
                temp.unlink(missing_ok=True)

    def _create(self) -> None:
        """Create the folder, and note if it was new or empty: a note tells the user, because a disk that is not mounted
        looks like an empty store."""
        with self._lock:
            if self._created:
                return
            self._check_mounted()
            try:
                self.root.mkdir()
                self._beginning = "made"
            except FileExistsError:
                with suppress(PermissionError):  # a folder may be writable but not readable
                    self._beginning = None if os.listdir(self.root) else "empty"
            self._created = True

    def _move_into_place(self, temp: Path, target: Path, *, replace: bool) -> bool:
        if replace:
            os.replace(temp, target)
            return True
        try:
            self._link(temp, target)  # unlike a rename, it fails if another writer was faster
        except FileExistsError:
            return False
        except OSError as refused:
            if refused.errno not in _NO_LINKS:
                raise
            return _rename_if_new(temp, target)
        return True

    def _check_mounted(self) -> None:
        """StorageError if the parent folder is missing: a disk that is not mounted is not an empty store."""
        if not self.root.parent.is_dir():
            raise StorageError(f"there is no folder {self.root.parent}")
        if self.root.exists() and not self.root.is_dir():
            raise StorageError(f"{self.root} is not a folder")


def _rename_if_new(temp: Path, target: Path) -> bool:
    """Rename unless the target exists. Of two writers at the same moment, the last one wins, not the first: no lock
    works on all machines that share such a folder, and a lock file that a killed writer left would stop everybody."""
    if os.path.lexists(target):
        return False
    os.rename(temp, target)
    return True


def _message(problem: OSError) -> str:
    return f"{type(problem).__name__}: {problem.strerror or problem}"


# Storage behind a URL: `s3://bucket/prefix`, or any other that fsspec can open. fsspec is imported only when one is
# opened.
#
# Credentials come from the environment or the configuration of the cloud's own tools, as usual for fsspec. Whyrun keeps
# none, and refuses a URL with credentials when it reads the settings.


CONNECT_SECONDS = 5
READ_SECONDS = 20  # without receiving a byte
Answer = TypeVar("Answer")


class UrlStorage:
    beginning = None  # writing does not create a bucket

    def __init__(self, url: str) -> None:
        self.scheme = scheme_of(url)
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise StorageError(f"fsspec is not installed: {to_install('shared')}") from None
        try:
            # No shared instance: it may have other credentials.
            self.fs, root = url_to_fs(url, skip_instance_cache=True, **_settings(self.scheme))
        except ImportError as problem:
            hint = to_install("shared") if self.scheme == "s3" else "install its package for fsspec"
            raise StorageError(f"{problem}: {hint}") from None
        except Exception as problem:  # many packages, each with its own exceptions
            raise StorageError(_storage_message(problem)) from problem
        self.root = root.rstrip("/")
        if self.scheme in _S3:
            self.fs.retries = 2  # do not wait long for a missing object

    def read(self, key: str, start: int, end: int) -> bytes | None:
        try:
            return self._call(lambda: bytes(self.fs.cat_file(self._path(key), start=start, end=end)))
        except FileNotFoundError:
            return None
        except StorageError as problem:
            if _code_of(problem) == "InvalidRange":  # the object ends before `start`
                return b""
            raise

    def size(self, key: str) -> int | None:
        try:
            # A cached listing may be outdated.
            size = self._call(lambda: self.fs.info(self._path(key), **_uncached(self.scheme))["size"])
        except FileNotFoundError:
            return None
        return int(size) if size is not None else None

    def put_file(self, key: str, path: str) -> None:
        self._write(key, lambda: self.fs.put_file(path, self._path(key), **_pieces(self.scheme)))

    def put_bytes(self, key: str, data: bytes, *, replace: bool) -> bool:
        if self.scheme in _S3 and not replace:
            try:
                self._write(key, lambda: self.fs.pipe_file(self._path(key), data, mode="create"))
                return True
            except FileExistsError:
                return False
            except StorageError as problem:
                if _code_of(problem) != "NotImplemented":  # servers without conditional writes
                    raise
        # Other storages have no conditional writes: of two writers at the same moment, the last one wins.
        if not replace and self.size(key) is not None:
            return False
        self._write(key, lambda: self.fs.pipe_file(self._path(key), data))
        return True

    def _path(self, key: str) -> str:
        return f"{self.root}/{key}"

    def _write(self, key: str, write: Callable[[], object]) -> None:
        try:
            if self.scheme not in _WITHOUT_FOLDERS:
                folder = os.path.dirname(self._path(key))
                self._call(lambda: self.fs.makedirs(folder, exist_ok=True), writing=True)
            self._call(write, writing=True)
        except FileNotFoundError as problem:  # the bucket does not exist
            raise StorageError(_storage_message(problem)) from problem

    def _call(self, operation: Callable[[], Answer], *, writing: bool = False) -> Answer:
        try:
            return operation()
        except (FileNotFoundError, FileExistsError):
            raise
        except PermissionError as problem:
            raise (ReadOnlyStorage if writing else StorageError)(_storage_message(problem)) from problem
        except Exception as problem:  # of botocore, aiohttp or another package
            if _code_of(problem) in _EXISTS_CODES:
                raise FileExistsError(str(problem)) from problem
            raise StorageError(_storage_message(problem)) from problem


# Object stores have no folders; other storages need them to be created first.
_WITHOUT_FOLDERS = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "adl", "oci", "memory"})


_S3 = ("s3", "s3a")
_EXISTS_CODES = ("PreconditionFailed", "ConditionalRequestConflict")  # the second: another writer at the same moment


def _settings(scheme: str) -> dict[str, Any]:
    if scheme not in _S3:
        return {}
    config = {"connect_timeout": CONNECT_SECONDS, "read_timeout": READ_SECONDS, "retries": {"max_attempts": 1}}
    return {"config_kwargs": config, "use_listings_cache": False}


def _uncached(scheme: str) -> dict[str, Any]:
    return {"refresh": True} if scheme in _S3 else {}


def _pieces(scheme: str) -> dict[str, Any]:
    """Upload large files in pieces, two at a time, so that memory does not depend on file sizes."""
    return {"chunksize": 2 * PIECE, "max_concurrency": 2} if scheme in _S3 else {}


def _code_of(problem: BaseException | None) -> str | None:
    """The error code of S3; s3fs keeps it only in the causes of its exceptions."""
    while problem is not None:
        response = getattr(problem, "response", None)
        if isinstance(response, dict):
            return str(response.get("Error", {}).get("Code"))
        problem = problem.__cause__
    return None


def _storage_message(problem: Exception) -> str:
    text = str(problem).split("\n", 1)[0]
    return f"{type(problem).__name__}: {text}" if text else type(problem).__name__
