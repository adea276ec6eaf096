"""The rows of the stat cache as columns, because 100,000 rows must load at once.

Paths are relative to one folder, the project that was looked up last: a stat is faster, and the workflow names files in
the same way.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys
import time
from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from functools import cached_property
from itertools import compress
from operator import attrgetter

import msgspec

from whyrun import disk
from whyrun.artifacts.durable import checked, discard_file, temp_name, with_checksum
from whyrun.artifacts.hash_column import WIDTH, HashColumn
from whyrun.disk import Area

# --- when the time stamps of a file prove that its content is unchanged, so that it need not be read again ------------
# Every write moves the ctime of a file. Three things can hide a write, and each has its rule here:
#
# - Clocks tick. Two writes within one tick leave the same time stamps. So time stamps count only if the file was looked
#   at more than a tick after its last write (`is_settled`).
# - Another machine sets the times. `statfs` gives one of three classes: a local file system has the clock of this
#   kernel; a file server may be behind, so its files count after five minutes; FUSE, read-only images and unknown file
#   systems may have any time, so their files are hashed each time (`ClockSkews`).
# - A memory-mapped file changes without a `write`. So a file that is open for writing never counts
#   (`is_open_for_writing`).


_TICK = 20_000_000  # kernel timestamps lag by one jiffy: 1 to 10 ms
_COARSE_TICK = 2_000_000_000  # file systems that keep whole seconds (FAT: two)
_SECOND = 1_000_000_000
SERVER_SKEW = 300 * _SECOND  # Kerberos refuses a clock that differs by more, so a maintained server is not further off
NEVER = 1 << 62  # a skew of more than a century: no file is older than that


def is_settled(mtime_ns: int, ctime_ns: int, now: int) -> bool:
    """Whether a later write would leave other time stamps. `now`: the clock of the file system, in nanoseconds, read
    before the file was looked at."""
    coarse = mtime_ns % _SECOND == 0 or ctime_ns % _SECOND == 0
    return max(mtime_ns, ctime_ns) + (_COARSE_TICK if coarse else _TICK) < now


# --- file systems ------------------------------------------------------------------------------------------------


class FileSystem(Enum):
    LOCAL = "local"  # only this kernel writes to it
    SERVER = "server"  # other machines write to it; the server sets the times
    UNKNOWN = "unknown"  # FUSE, read-only images, and whatever is not listed here


_BY_MAGIC = {  # `f_type` of `statfs`
    0xEF53: FileSystem.LOCAL,  # ext2, ext3, ext4
    0x58465342: FileSystem.LOCAL,  # xfs
    0x9123683E: FileSystem.LOCAL,  # btrfs
    0x01021994: FileSystem.LOCAL,  # tmpfs
    0x858458F6: FileSystem.LOCAL,  # ramfs
    0xF2F52010: FileSystem.LOCAL,  # f2fs
    0x2FC12FC1: FileSystem.LOCAL,  # zfs
    0xCA451A4E: FileSystem.LOCAL,  # bcachefs
    0x794C7630: FileSystem.LOCAL,  # overlay: the kernel forbids writes to its layers while it is mounted
    0x6969: FileSystem.SERVER,  # nfs
    0x517B: FileSystem.SERVER,  # smb
    0xFF534D42: FileSystem.SERVER,  # cifs
    0xFE534D42: FileSystem.SERVER,  # smb2, smb3
    0x01021997: FileSystem.SERVER,  # 9p
    0x5346414F: FileSystem.SERVER,  # afs
    0x6B414653: FileSystem.SERVER,  # kafs
    0x00C36400: FileSystem.SERVER,  # ceph
    0x0BD00BD0: FileSystem.SERVER,  # lustre
    0x47504653: FileSystem.SERVER,  # gpfs
    0x19830326: FileSystem.SERVER,  # beegfs
    0x20030528: FileSystem.SERVER,  # orangefs
    0xAAD7AAEA: FileSystem.SERVER,  # panfs
    0x01161970: FileSystem.SERVER,  # gfs2
    0x7461636F: FileSystem.SERVER,  # ocfs2
    0x786F4256: FileSystem.SERVER,  # vboxsf
}
_STATFS_SIZE = 512  # larger than the structure is on any machine


def file_system_of(path: str | os.PathLike[str]) -> FileSystem:
    import ctypes  # imported late: a plan with nothing to do takes less time than twenty imports

    answer = ctypes.create_string_buffer(_STATFS_SIZE)
    try:
        failed = ctypes.CDLL(None).statfs(os.fsencode(path), answer)
    except AttributeError:  # a system without `statfs`
        return FileSystem.UNKNOWN
    if failed:
        return FileSystem.UNKNOWN
    (magic,) = struct.unpack_from("l", answer.raw)
    found = _BY_MAGIC.get(magic & 0xFFFFFFFF, FileSystem.UNKNOWN)
    return FileSystem.UNKNOWN if found is FileSystem.LOCAL and _is_read_only_image(path) else found


def _is_read_only_image(path: str | os.PathLike[str]) -> bool:
    """Whether this kernel never writes to the file system there, so that somebody else set its times. Another image may
    take its place, with the same times. (A folder that is only mounted read-only is as its file system is.)"""
    if not os.statvfs(path).f_flag & os.ST_RDONLY:
        return False
    device = os.stat(path).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            mount, _, of_file_system = line.partition(" - ")
            if mount.split(" ")[2] == number:
                return "ro" in of_file_system.split()[2].split(",")
    return False


def is_local(path: str | os.PathLike[str]) -> bool:
    return file_system_of(path) is FileSystem.LOCAL


# --- clocks ------------------------------------------------------------------------------------------------------


def clock_skew(path: str | os.PathLike[str]) -> int:
    """How far the clock that dates the files there may be behind this machine's, in nanoseconds."""
    return {FileSystem.LOCAL: 0, FileSystem.SERVER: SERVER_SKEW, FileSystem.UNKNOWN: NEVER}[file_system_of(path)]


class FileClock:
    """`clock()`: now, in nanoseconds, never later than the clock of the file system of `folder`.

    The first call creates a file there, reads its time, and removes it. If no file can be created, this machine's clock
    is used.
    """

    def __init__(self, folder: str | os.PathLike[str], now: Callable[[], int] = time.time_ns) -> None:
        self._folder = os.fspath(folder) or "."
        self._now = now
        self._skew: int | None = None

    def __call__(self) -> int:
        if self._skew is None:
            self._skew = max(0, self._measure())
        return self._now() - self._skew

    def _measure(self) -> int:
        path = os.path.join(self._folder, f".{temp_name()}")
        try:
            descriptor = disk.open(Area.STAT_CACHE, path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        except OSError:
            return 0
        try:
            # This machine's clock is read last: the time in between makes the skew larger, which is the safe side.
            return -os.fstat(descriptor).st_ctime_ns + self._now()
        finally:
            os.close(descriptor)
            discard_file(Area.STAT_CACHE, path)


class ClockSkews:
    """How far the clocks of file systems may be behind the `FileClock` of `folder`.

    On the file system of `folder`, that clock was measured. On others nothing is measured, because that would create
    files in folders of users: their class decides.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = os.path.abspath(folder)
        self._by_device: dict[int, int] = {}

    def of(self, path: str | os.PathLike[str], device: int) -> int:
        """`device`: that of the file at `path`. Nanoseconds."""
        if not self._by_device:
            own, own_device = _existing(self._folder)
            self._by_device[own_device] = NEVER if clock_skew(own) == NEVER else 0
        if device not in self._by_device:
            self._by_device[device] = clock_skew(path)
        return self._by_device[device]


def _existing(folder: str) -> tuple[str, int]:
    """The folder and its device; of a folder that is still to be made, those of the nearest folder above it."""
    try:
        return folder, os.stat(folder).st_dev
    except OSError:
        above = os.path.dirname(folder)
        return _existing(above) if above != folder else (folder, 0)


# --- writers -----------------------------------------------------------------------------------------------------


def is_open_for_writing(path: str | os.PathLike[str], *, unknown: bool) -> bool:
    """Whether any process has the file open, or mapped, for writing.

    A mapping (`mmap`, `np.memmap`) moves the times at most when it first touches a page; later writes to that page move
    nothing until it is on the disk. `unknown`: the answer where the system gives none (files of other users, file
    systems without leases).
    """
    import signal  # imported late: files that are as before are not opened

    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # If a process opens the file while we hold the lease, the kernel signals us. The default, SIGIO, would end this
        # process; SIGURG is ignored by default.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as refused:
        return refused.errno == errno.EAGAIN or unknown
    finally:
        os.close(descriptor)
    return False


# --- rows -------------------------------------------------------------------------------------------------------------


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
