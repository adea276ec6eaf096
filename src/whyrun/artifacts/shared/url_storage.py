"""A shelf behind a URL: `s3://bucket/prefix`, or whatever else fsspec can open. Imported only where a project has one.

Credentials come from the environment or the configuration of the cloud's own tools, as fsspec's file systems take
them. None is kept or written by Whyrun, and a URL that holds one is refused when the settings are read.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

from whyrun.artifacts.shelf import PIECE, ReadOnlyShelf, ShelfError
from whyrun.artifacts.shelf_address import scheme_of

CONNECT_SECONDS = 5
READ_SECONDS = 20  # without a byte
Answer = TypeVar("Answer")


class UrlShelf:
    beginning = None  # a bucket does not come to be by writing to it

    def __init__(self, url: str) -> None:
        self.scheme = scheme_of(url)
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise ShelfError("fsspec is not installed: pip install 'whyrun[shared]'") from None
        try:
            # Not one that somebody else opened: it may have been with other credentials.
            self.fs, root = url_to_fs(url, skip_instance_cache=True, **_settings(self.scheme))
        except ImportError as problem:
            hint = "pip install 'whyrun[shared]'" if self.scheme == "s3" else "install its package for fsspec"
            raise ShelfError(f"{problem}: {hint}") from None
        except Exception as problem:  # any of many packages: what they raise is not known here
            raise ShelfError(_told(problem)) from problem
        self.root = root.rstrip("/")
        if self.scheme in _S3:
            self.fs.retries = 2  # what is not there now need not be waited for

    def read(self, key: str, start: int, end: int) -> bytes | None:
        try:
            return self._ask(lambda: bytes(self.fs.cat_file(self._path(key), start=start, end=end)))
        except FileNotFoundError:
            return None
        except ShelfError as problem:
            if _code_of(problem) == "InvalidRange":  # S3's word for nothing: it ends before `start`
                return b""
            raise

    def size(self, key: str) -> int | None:
        try:
            # A listing may be remembered, and then it is old.
            found = self._ask(lambda: self.fs.info(self._path(key), **_afresh(self.scheme))["size"])
        except FileNotFoundError:
            return None
        return int(found) if found is not None else None

    def put_file(self, key: str, path: str) -> None:
        self._write(key, lambda: self.fs.put_file(path, self._path(key), **_pieces(self.scheme)))

    def put_bytes(self, key: str, data: bytes, *, replace: bool) -> bool:
        if self.scheme in _S3 and not replace:
            try:
                self._write(key, lambda: self.fs.pipe_file(self._path(key), data, mode="create"))
                return True
            except FileExistsError:
                return False
            except ShelfError as problem:
                if _code_of(problem) != "NotImplemented":  # of servers that speak an older S3
                    raise
        # Elsewhere two writers may both think that they are the first. Each writes what it made, as a whole.
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
                self._ask(lambda: self.fs.makedirs(folder, exist_ok=True), writing=True)
            self._ask(write, writing=True)
        except FileNotFoundError as problem:  # of a bucket that is not there
            raise ShelfError(_told(problem)) from problem

    def _ask(self, question: Callable[[], Answer], *, writing: bool = False) -> Answer:
        try:
            return question()
        except (FileNotFoundError, FileExistsError):
            raise
        except PermissionError as problem:
            raise (ReadOnlyShelf if writing else ShelfError)(_told(problem)) from problem
        except Exception as problem:  # of botocore, aiohttp, and whoever else stands behind the URL
            if _code_of(problem) in _THERE_ALREADY:
                raise FileExistsError(str(problem)) from problem
            raise ShelfError(_told(problem)) from problem


# Object stores have no folders; what is like a disk has, and wants them first.
_WITHOUT_FOLDERS = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "adl", "oci", "memory"})


_S3 = ("s3", "s3a")
_THERE_ALREADY = ("PreconditionFailed", "ConditionalRequestConflict")  # the second: another writer is at it just now


def _settings(scheme: str) -> dict[str, Any]:
    if scheme not in _S3:
        return {}
    config = {"connect_timeout": CONNECT_SECONDS, "read_timeout": READ_SECONDS, "retries": {"max_attempts": 1}}
    return {"config_kwargs": config, "use_listings_cache": False}


def _afresh(scheme: str) -> dict[str, Any]:
    return {"refresh": True} if scheme in _S3 else {}


def _pieces(scheme: str) -> dict[str, Any]:
    """Large files go up in pieces, two at a time: what a run takes of memory does not depend on its files."""
    return {"chunksize": 2 * PIECE, "max_concurrency": 2} if scheme in _S3 else {}


def _code_of(problem: BaseException | None) -> str | None:
    """S3's own word for what is wrong; s3fs keeps it only in what its exceptions come from."""
    while problem is not None:
        response = getattr(problem, "response", None)
        if isinstance(response, dict):
            return str(response.get("Error", {}).get("Code"))
        problem = problem.__cause__
    return None


def _told(problem: Exception) -> str:
    text = str(problem).split("\n", 1)[0]
    return f"{type(problem).__name__}: {text}" if text else type(problem).__name__
