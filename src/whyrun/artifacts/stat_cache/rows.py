"""The rows of the stat-cache as they are kept in its file: columns, because 100,000 rows must be there at once.

Paths are relative to one folder, that of the project whose files were asked for last: from there they are found with
a shorter walk, and asked for as the workflow names them.
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

_VERSION = 2
CHUNK = 256  # rows that are looked at and compared at a time

Signature = tuple[int, int, int, int, int]  # ctime, mtime, size, inode, device: what differs most often comes first
signature_of = attrgetter("st_ctime_ns", "st_mtime_ns", "st_size", "st_ino", "st_dev")
Entry = tuple[Signature, str]


class _File(msgspec.Struct, array_like=True):
    version: int
    byteorder: str
    root: str
    paths: bytes  # as the file system writes them, one \0 between them
    sha256: bytes
    ctime_ns: bytes
    mtime_ns: bytes
    size: bytes
    inode: bytes
    device: bytes


class StatRows:
    """`paths`: relative to `root` where they are inside, else absolute; in bytes, with one \\0 between them."""

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
        """From absolute paths (or such as are relative to nothing that is known)."""
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
        """Made when it is first needed: not for files that are asked for in the order in which they stand here."""
        return os.fsdecode(self.paths).split("\0") if self.hashes else []

    def changed(self, entries: Mapping[str, Entry], gone: Collection[int]) -> StatRows:
        """The same with these entries, in their places or at the end, and without the rows of `gone`."""
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
        """ValueError if it is not what `dump` made on such a machine."""
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
        """Where the paths end, in bytes, that stand at `start`; None if it is other paths than `wanted` that do."""
        end = start + len(wanted)
        if start and self.paths[start - 1 : start] != b"\0":
            return None
        return end if self.paths.startswith(wanted, start) and self.paths[end : end + 1] in (b"", b"\0") else None

    def name_of(self, path: str) -> str:
        """How a file is named here."""
        head = len(self.root) + 1
        return path[head:] if self.root and path[:head] == f"{self.root}/" else path

    def path_of(self, name: str) -> str:
        return f"{self.root}/{name}" if self.root and not name.startswith("/") else name

    @cached_property
    def row_of(self) -> dict[str, int]:
        """Made when it is first needed: files are mostly asked for in the order in which they stand here."""
        return {name: row for row, name in enumerate(self.names)}

    def signature(self, row: int) -> Signature:
        ctime, mtime, size, inode, device = (column[row] for column in self.columns)
        return ctime, mtime, size, inode, device

    def signatures(self, first: int, end: int) -> list[Signature]:
        ctime, mtime, size, inode, device = (column[first:end] for column in self.columns)
        return list(zip(ctime, mtime, size, inode, device, strict=True))

    def sha256(self, row: int) -> str:
        return self.hashes[row * WIDTH : row * WIDTH + WIDTH].hex()

    def sha256s(self, first: int, end: int) -> HashColumn:
        return HashColumn(self.hashes[first * WIDTH : end * WIDTH])

    def entries(self) -> Iterable[tuple[str, Entry]]:
        paths = map(self.path_of, self.names)
        hashes: list[str] = self.sha256s(0, len(self)).texts()  # type: ignore[assignment]  # none of them is set
        return zip(paths, zip(self.signatures(0, len(self)), hashes, strict=True), strict=True)

    def are_as_recorded(self, names: Sequence[str], first: int, folder: int | None) -> bool:
        """Do the files of these rows all have their recorded signatures? `folder`: a descriptor of `root`; None if one
        is in it."""
        look = os.stat
        try:
            if folder is None:
                found = list(map(signature_of, map(look, names)))
            else:
                found = [signature_of(look(name, dir_fd=folder)) for name in names]
        except OSError:
            return False  # which of them, and why, is for others to find out
        return found == self.signatures(first, first + len(names))


def in_bytes(names: Sequence[str]) -> bytes:
    return os.fsencode("\0".join(names))
