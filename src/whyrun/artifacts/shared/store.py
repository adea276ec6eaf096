"""A store that several people share: results by fingerprint, and the bytes that they speak of by content hash.

    v1/results/ab/cdef….json    what a step with this fingerprint made: outputs with their hashes, by whom and when
    v1/blobs/ab/cdef…           the bytes

A result is put there after all its bytes, so whoever finds a result finds the bytes too, unless somebody took them
away. Whatever comes back is checked against its hash before it gets a name in the store of this machine.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import suppress

import msgspec

from whyrun import disk
from whyrun.artifacts.hashing import canonical_json, decode_tree
from whyrun.artifacts.shared_result import Refused, SharedOutput, SharedResult, decode_result, encode_result
from whyrun.artifacts.shelf import PIECE, Shelf
from whyrun.artifacts.store import Store
from whyrun.disk import Area
from whyrun.errors import WhyrunError

LARGEST_RESULT = 16 << 20  # bytes of a result's file
LARGEST_TREE = 256 << 20  # bytes of the list of a folder's files, which is read as a whole
Alive = Callable[[], None]  # told after every piece: the other side still answers


class SharedStore:
    """Used by several threads at once. Raises ShelfError where the other side cannot be reached."""

    def __init__(self, shelf: Shelf, store: Store) -> None:
        self.shelf, self.store = shelf, store
        self.given: set[str] = set()  # fingerprints of the results that were put there
        self._wrong: set[str] = set()  # keys whose content was refused: who can make the right one may replace it

    # --- taking --------------------------------------------------------------------------------------------------

    def find(self, fingerprint: str) -> SharedResult | None:
        """The result with this fingerprint, if there is one; Refused if what is there cannot be one."""
        key = _result_key(fingerprint)
        data = self.shelf.read(key, 0, LARGEST_RESULT + 1)
        if data is None:
            return None
        try:
            if len(data) > LARGEST_RESULT:
                raise Refused("it is too large for a result")
            return decode_result(data, fingerprint)
        except Refused:
            self._wrong.add(key)
            raise

    def fetch(self, result: SharedResult, alive: Alive) -> None:
        """All its bytes, checked, into the store of this machine; Refused if any are not what they should be."""
        try:
            for output in result.outputs:
                if output.value is not msgspec.UNSET:
                    if not output.is_leaf:  # the folder of the run links to it, as to any output
                        self.store.put_bytes(canonical_json(output.value))
                elif output.type == "directory":
                    self._fetch_tree(output, alive)
                else:
                    self._fetch_blob(output.sha256, output.stored, alive)
        except Refused:
            self._wrong.add(_result_key(result.fingerprint))
            raise

    def _fetch_tree(self, output: SharedOutput, alive: Alive) -> None:
        if output.stored > LARGEST_TREE:
            raise Refused(f"the list of files of `{output.key}` is too large")
        self._fetch_blob(output.sha256, output.stored, alive)
        try:
            tree = decode_tree(self.store.read(output.sha256))
        except (ValueError, RecursionError) as wrong:
            raise Refused(f"`{output.key}` is no folder: {wrong}") from None
        if (size := sum(file.size for file in tree.files)) != output.size:
            raise Refused(f"the files of `{output.key}` have {size} bytes, not {output.size}")
        for file in tree.files:
            self._fetch_blob(file.sha256, file.size, alive)

    def _fetch_blob(self, sha256: str, size: int, alive: Alive) -> None:
        if self._is_here(sha256):
            if (found := os.stat(self.store.path(sha256)).st_size) != size:
                raise Refused(f"the blob {sha256} has {found} bytes, not {size}")
            return
        temp = self.store.temp_path()
        try:
            descriptor = disk.open(Area.STORE, temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o444)
            try:
                copied = self._copy(sha256, size, descriptor, alive)
            finally:
                os.close(descriptor)
            if copied != sha256:
                self._wrong.add(_blob_key(sha256))
                raise Refused(f"the blob {sha256} has other bytes (sha256 {copied})")
            self.store.put_file(temp, sha256, move=True)
        finally:
            with suppress(FileNotFoundError):  # moved into the store
                disk.unlink(Area.STORE, temp)

    def _copy(self, sha256: str, size: int, target: int, alive: Alive) -> str:
        hasher, key = hashlib.sha256(), _blob_key(sha256)
        at = 0
        while at < size:
            # One byte more than there should be: what is longer than promised is not downloaded to its end.
            piece = self.shelf.read(key, at, min(at + PIECE, size + 1))
            alive()
            if not piece:
                self._wrong.add(key)
                what = "is not there" if piece is None else f"ends after {at} of {size} bytes"
                raise Refused(f"the blob {sha256} {what}")
            hasher.update(piece)
            disk.write(Area.STORE, target, piece)
            at += len(piece)
        return hasher.hexdigest()

    def _is_here(self, sha256: str) -> bool:
        try:
            self.store.check(sha256)
        except WhyrunError:
            return False  # not there, or not with these bytes: then it is fetched
        return True

    # --- giving --------------------------------------------------------------------------------------------------

    def offer(self, result: SharedResult, alive: Alive) -> SharedResult | None:
        """Put a result there: its bytes, then itself. Another one that stands there already stays, and is returned."""
        key = _result_key(result.fingerprint)
        try:
            standing = None if key in self._wrong else self.find(result.fingerprint)
        except Refused:
            standing = None  # it is noted as wrong by now, and replaced
        if standing is not None:
            return standing if standing.content != result.content else None
        for sha256, size in self._blobs(result):
            blob = _blob_key(sha256)
            if blob in self._wrong or self.shelf.size(blob) != size:
                self.store.check(sha256)  # what was damaged here since must not get a good name there
                self.shelf.put_file(blob, self.store.open_path(sha256))
                self._wrong.discard(blob)
            alive()
        replace = key in self._wrong
        if self.shelf.put_bytes(key, encode_result(result), replace=replace):
            self.given.add(result.fingerprint)
        self._wrong.discard(key)
        return None

    def _blobs(self, result: SharedResult) -> Iterator[tuple[str, int]]:
        for output in result.outputs:
            if output.value is not msgspec.UNSET:
                continue
            if output.type == "directory":
                for file in self.store.read_tree(output.sha256).files:
                    yield file.sha256, file.size
            yield output.sha256, output.stored


def _result_key(fingerprint: str) -> str:
    return f"v1/results/{fingerprint[:2]}/{fingerprint[2:]}.json"


def _blob_key(sha256: str) -> str:
    return f"v1/blobs/{sha256[:2]}/{sha256[2:]}"
