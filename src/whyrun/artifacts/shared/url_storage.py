"""Storage behind a URL: `s3://bucket/prefix`, or any other that fsspec can open. Imported only if a project has one.

Credentials come from the environment or the configuration of the cloud's own tools, as usual for fsspec. Whyrun keeps
none, and refuses a URL with credentials when it reads the settings.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

from whyrun.artifacts.shared.storage import PIECE, ReadOnlyStorage, StorageError, scheme_of

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
            raise StorageError("fsspec is not installed: pip install 'whyrun[shared]'") from None
        try:
            # No shared instance: it may have other credentials.
            self.fs, root = url_to_fs(url, skip_instance_cache=True, **_settings(self.scheme))
        except ImportError as problem:
            hint = "pip install 'whyrun[shared]'" if self.scheme == "s3" else "install its package for fsspec"
            raise StorageError(f"{problem}: {hint}") from None
        except Exception as problem:  # many packages, each with its own exceptions
            raise StorageError(_message(problem)) from problem
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
            raise StorageError(_message(problem)) from problem

    def _call(self, operation: Callable[[], Answer], *, writing: bool = False) -> Answer:
        try:
            return operation()
        except (FileNotFoundError, FileExistsError):
            raise
        except PermissionError as problem:
            raise (ReadOnlyStorage if writing else StorageError)(_message(problem)) from problem
        except Exception as problem:  # of botocore, aiohttp or another package
            if _code_of(problem) in _EXISTS_CODES:
                raise FileExistsError(str(problem)) from problem
            raise StorageError(_message(problem)) from problem


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


def _message(problem: Exception) -> str:
    text = str(problem).split("\n", 1)[0]
    return f"{type(problem).__name__}: {text}" if text else type(problem).__name__
