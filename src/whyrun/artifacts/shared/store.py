"""A store that several people share: results by fingerprint, and their blobs by content hash.

    v1/results/ab/cdef….json    the result of a step with this fingerprint: hashes of its outputs, by whom and when
    v1/blobs/ab/cdef…           the bytes

A result is written after all its blobs, so every result has its blobs, unless somebody has removed them. Each blob is
checked against its hash before it is put into the local store.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import suppress

import msgspec

from whyrun import disk
from whyrun.artifacts.hashing import canonical_json, decode_tree
from whyrun.artifacts.shared.result import Refused, SharedOutput, SharedResult, decode_result, encode_result
from whyrun.artifacts.shared.storage import PIECE, Storage
from whyrun.artifacts.store import Store
from whyrun.disk import Area
from whyrun.errors import WhyrunError

LARGEST_RESULT = 16 << 20  # bytes of a result's file
LARGEST_TREE = 256 << 20  # bytes of a folder's manifest, which is read as a whole
Alive = Callable[[], None]  # called after every piece: the storage still answers


class SharedStore:
    """Used by several threads at once. Raises StorageError if the storage fails."""

    def __init__(self, storage: Storage, store: Store) -> None:
        self.storage, self.store = storage, store
        self.given: set[str] = set()  # fingerprints of the results that were written
        self._invalid: set[str] = set()  # keys whose content was refused: `offer` replaces it

    # --- fetching --------------------------------------------------------------------------------------------------

    def find(self, fingerprint: str) -> SharedResult | None:
        """The result with this fingerprint, if there is one; `Refused` if it is invalid."""
        key = _result_key(fingerprint)
        data = self.storage.read(key, 0, LARGEST_RESULT + 1)
        if data is None:
            return None
        try:
            if len(data) > LARGEST_RESULT:
                raise Refused("it is too large for a result")
            return decode_result(data, fingerprint)
        except Refused:
            self._invalid.add(key)
            raise

    def fetch(self, result: SharedResult, alive: Alive) -> None:
        """Fetch all its blobs into the local store; `Refused` if one is missing or invalid."""
        try:
            for output in result.outputs:
                if output.value is not msgspec.UNSET:
                    if not output.is_leaf:  # the run folder links to every output
                        self.store.put_bytes(canonical_json(output.value))
                elif output.type == "directory":
                    self._fetch_tree(output, alive)
                else:
                    self._fetch_blob(output.sha256, output.stored, alive)
        except Refused:
            self._invalid.add(_result_key(result.fingerprint))
            raise

    def _fetch_tree(self, output: SharedOutput, alive: Alive) -> None:
        if output.stored > LARGEST_TREE:
            raise Refused(f"the list of files of `{output.key}` is too large")
        self._fetch_blob(output.sha256, output.stored, alive)
        try:
            tree = decode_tree(self.store.read(output.sha256))
        except (ValueError, RecursionError) as wrong:
            raise Refused(f"`{output.key}` is not a folder: {wrong}") from None
        if (size := sum(file.size for file in tree.files)) != output.size:
            raise Refused(f"the files of `{output.key}` have {size} bytes, not {output.size}")
        for file in tree.files:
            self._fetch_blob(file.sha256, file.size, alive)

    def _fetch_blob(self, sha256: str, size: int, alive: Alive) -> None:
        if self._has_blob(sha256):
            if (stored_size := os.stat(self.store.path(sha256)).st_size) != size:
                raise Refused(f"the blob {sha256} has {stored_size} bytes, not {size}")
            return
        temp = self.store.temp_path()
        try:
            descriptor = disk.open(Area.STORE, temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o444)
            try:
                copied = self._copy(sha256, size, descriptor, alive)
            finally:
                os.close(descriptor)
            if copied != sha256:
                self._invalid.add(_blob_key(sha256))
                raise Refused(f"the blob {sha256} has other bytes (sha256 {copied})")
            self.store.put_file(temp, sha256, move=True)
        finally:
            with suppress(FileNotFoundError):  # it was moved into the store
                disk.unlink(Area.STORE, temp)

    def _copy(self, sha256: str, size: int, target: int, alive: Alive) -> str:
        hasher, key = hashlib.sha256(), _blob_key(sha256)
        at = 0
        while at < size:
            # Ask for one byte more than expected: a longer blob is noticed without downloading all of it.
            piece = self.storage.read(key, at, min(at + PIECE, size + 1))
            alive()
            if not piece:
                self._invalid.add(key)
                what = "is missing" if piece is None else f"ends after {at} of {size} bytes"
                raise Refused(f"the blob {sha256} {what}")
            hasher.update(piece)
            disk.write(Area.STORE, target, piece)
            at += len(piece)
        return hasher.hexdigest()

    def _has_blob(self, sha256: str) -> bool:
        try:
            self.store.check(sha256)
        except WhyrunError:
            return False  # missing or damaged: fetch it
        return True

    # --- offering --------------------------------------------------------------------------------------------------

    def offer(self, result: SharedResult, alive: Alive) -> SharedResult | None:
        """Write a result: its blobs, then the result itself. An existing, different result stays and is returned."""
        key = _result_key(result.fingerprint)
        try:
            existing = None if key in self._invalid else self.find(result.fingerprint)
        except Refused:
            existing = None  # `find` has noted that it is invalid: replace it
        if existing is not None:
            return existing if existing.content != result.content else None
        for sha256, size in self._blobs(result):
            blob = _blob_key(sha256)
            if blob in self._invalid or self.storage.size(blob) != size:
                self.store.check(sha256)  # do not share a damaged blob
                self.storage.put_file(blob, self.store.open_path(sha256))
                self._invalid.discard(blob)
            alive()
        replace = key in self._invalid
        if self.storage.put_bytes(key, encode_result(result), replace=replace):
            self.given.add(result.fingerprint)
        self._invalid.discard(key)
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
