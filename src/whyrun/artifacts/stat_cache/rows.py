"""The rows of the stat cache as columns, because 100,000 rows must load at once.

Paths are relative to one folder, the project that was looked up last: a stat is faster, and the workflow names files in
the same way.
"""

from __future__ import annotations

import os
import sys
from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import compress
from operator import attrgetter

import msgspec

from whyrun.artifacts.durable import checked, with_checksum
from whyrun.artifacts.hash_column import WIDTH, HashColumn

_VERSION = 4  # 2 trusted files on FUSE and unknown file systems, 3 those on read-only images
CHUNK = 256  # rows that are compared at a time

Signature = tuple[int, int, int, int, int]  # ctime, mtime, size, inode, device; the most frequent differences first
signature_of = attrgetter("st_ctime_ns", "st_mtime_ns", "st_size", "st_ino", "st_dev")
Entry = tuple[Signature, str]


class _File(msgspec.Struct, array_like=True):
    version: int
    byteorder: str
    root: str
    paths: bytes  # in the encoding of the file system, separated by \0
    sha256: bytes
    ctime_ns: bytes
    mtime_ns: bytes
    size: bytes
    inode: bytes
    device: bytes


class StatRows:
    """`paths`: relative to `root` if inside, else absolute; in bytes, separated by \\0."""

    def __init__(self, root: str, paths: bytes, hashes: bytes, columns: Sequence[array[int]]) -> None:
        self.root = root
        self.paths = paths
        self.hashes = hashes
        self.columns = columns  # in the order of `Signature`

    @classmethod
    def empty(cls) -> StatRows:
        return cls("", b"", b"", [array(letter) for letter in "qqqQQ"])

    @classmethod
    def of(cls, root: str, entries: Iterable[tuple[str, Entry]]) -> StatRows:
        """From absolute paths (or relative paths that are kept as they are)."""
        rows = cls.empty()
        rows.root = root
        names: list[str] = []
        hashes: list[str] = []
        for path, (signature, sha256) in entries:
            names.append(rows.name_of(path))
            hashes.append(sha256)
            for column, value in zip(rows.columns, signature, strict=True):
                column.append(value)
        rows.paths = in_bytes(names)
        rows.hashes = bytes.fromhex("".join(hashes))
        return rows

    @cached_property
    def names(self) -> list[str]:
        """Built on demand: lookups in the order of the rows do not need it."""
        return os.fsdecode(self.paths).split("\0") if self.hashes else []

    def changed(self, entries: Mapping[str, Entry], gone: Collection[int]) -> StatRows:
        """A copy with these entries, updated or appended, and without the rows of `gone`."""
        names, hashes = list(self.names), bytearray(self.hashes)
        columns = [column[:] for column in self.columns]
        for path, (signature, sha256) in entries.items():
            name = self.name_of(path)
            row = self.row_of.get(name, len(names))
            if row == len(names):
                names.append(name)
                for column in columns:
                    column.append(0)
            hashes[row * WIDTH : row * WIDTH + WIDTH] = bytes.fromhex(sha256)
            for column, value in zip(columns, signature, strict=True):
                column[row] = value
        kept = bytearray(b"\1") * len(names)
        for row in gone:
            kept[row] = self.path_of(names[row]) in entries
        if 0 in kept:
            parts = [hashes[at : at + WIDTH] for at in range(0, len(hashes), WIDTH)]
            names, hashes = list(compress(names, kept)), bytearray().join(compress(parts, kept))
            columns = [array(column.typecode, compress(column, kept)) for column in columns]
        return StatRows(self.root, in_bytes(names), bytes(hashes), columns)

    @classmethod
    def load(cls, data: bytes) -> StatRows:
        """ValueError unless `dump` wrote it, with this version and byte order."""
        file = msgspec.msgpack.decode(checked(data), type=_File)
        if file.version != _VERSION or file.byteorder != sys.byteorder:
            raise ValueError("another version")
        rows = file.paths.count(b"\0") + 1 if file.paths else 0
        parts = (file.ctime_ns, file.mtime_ns, file.size, file.inode, file.device)
        columns = [array(letter, part) for letter, part in zip("qqqQQ", parts, strict=True)]
        if len(file.sha256) != WIDTH * rows or any(len(column) != rows for column in columns):
            raise ValueError("columns of different lengths")
        return cls(file.root, file.paths, file.sha256, columns)

    def dump(self) -> bytes:
        parts = [column.tobytes() for column in self.columns]
        file = _File(_VERSION, sys.byteorder, self.root, self.paths, self.hashes, *parts)
        return with_checksum(msgspec.msgpack.encode(file))

    def __len__(self) -> int:
        return len(self.hashes) // WIDTH

    def end_of(self, wanted: bytes, start: int) -> int | None:
        """The offset where `wanted` ends if these paths are at `start`; None if others are."""
        end = start + len(wanted)
        if start and self.paths[start - 1 : start] != b"\0":
            return None
        return end if self.paths.startswith(wanted, start) and self.paths[end : end + 1] in (b"", b"\0") else None

    def name_of(self, path: str) -> str:
        """The name of a file in the rows."""
        head = len(self.root) + 1
        return path[head:] if self.root and path[:head] == f"{self.root}/" else path

    def path_of(self, name: str) -> str:
        return f"{self.root}/{name}" if self.root and not name.startswith("/") else name

    @cached_property
    def row_of(self) -> dict[str, int]:
        """Built on demand: lookups in the order of the rows do not need it."""
        return {name: row for row, name in enumerate(self.names)}

    def signature(self, row: int) -> Signature:
        ctime, mtime, size, inode, device = (column[row] for column in self.columns)
        return ctime, mtime, size, inode, device

    def signatures(self, first: int, end: int) -> list[Signature]:
        ctime, mtime, size, inode, device = (column[first:end] for column in self.columns)
        return list(zip(ctime, mtime, size, inode, device, strict=True))

    def distrust(self, row: int) -> None:
        """No file looks like this row from now on."""
        self.columns[0][row] = -1

    def sha256(self, row: int) -> str:
        return self.hashes[row * WIDTH : row * WIDTH + WIDTH].hex()

    def sha256s(self, first: int, end: int) -> HashColumn:
        return HashColumn(self.hashes[first * WIDTH : end * WIDTH])

    def entries(self) -> Iterable[tuple[str, Entry]]:
        paths = map(self.path_of, self.names)
        hashes: list[str] = self.sha256s(0, len(self)).texts()  # type: ignore[assignment]  # none of them is set
        return zip(paths, zip(self.signatures(0, len(self)), hashes, strict=True), strict=True)

    def are_unchanged(self, names: Sequence[str], first: int, folder: int | None) -> bool:
        """Whether all files of these rows have their recorded signatures. `folder`: a descriptor of `root`; None if it
        is the current directory."""
        stat = os.stat
        try:
            if folder is None:
                signatures = list(map(signature_of, map(stat, names)))
            else:
                signatures = [signature_of(stat(name, dir_fd=folder)) for name in names]
        except OSError:
            return False  # the caller finds out which file, and why
        return signatures == self.signatures(first, first + len(names))


def in_bytes(names: Sequence[str]) -> bytes:
    return os.fsencode("\0".join(names))
