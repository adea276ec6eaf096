"""Content hashes of files that have not been touched since they were last hashed. Derived: it may be deleted any time.

    (device, inode, size, mtime_ns, ctime_ns) → sha256

Every write to a file moves its ctime, but clocks tick: two writes within one tick leave the same signature. So an
entry is made only from a look that came more than a tick after the file's last write; a file seen earlier than that
is hashed, and hashed again the next time. An entry that exists is therefore always to be trusted.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from whyrun.artifacts.durable import atomic_write, checked, with_checksum
from whyrun.artifacts.hashing import bytes_sha256, file_sha256, tree_manifest
from whyrun.errors import WhyrunError, error

_TICK = 20_000_000  # kernel timestamps lag by one jiffy: 1 to 10 ms
_COARSE_TICK = 2_000_000_000  # file systems that keep whole seconds (FAT: two)
_SECOND = 1_000_000_000
_VERSION = 1
_TRIES = 5

Signature = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file of our own, as it was before anyone else could reach it (`publish` gives it a time of its own)."""

    sha256: str
    device: int
    inode: int
    size: int
    mtime_ns: int


class _Columns(msgspec.Struct, array_like=True):
    """The file: columns, because one list of 100,000 ints is decoded many times faster than 100,000 lists."""

    version: int
    paths: list[str]
    sha256: list[str]
    device: list[int]
    inode: list[int]
    size: list[int]
    mtime_ns: list[int]
    ctime_ns: list[int]


def _empty() -> _Columns:
    return _Columns(_VERSION, [], [], [], [], [], [], [])

MANY = 1000  # questions out of order: below, looking them up costs nothing worth the writing


class StatCache:
    """Paths are only the way to an entry; what is trusted is the signature. Relative and absolute ones both work."""

    def __init__(self, path: str | os.PathLike[str], columns: _Columns, now: Callable[[], int]) -> None:
        self._path = os.fspath(path)
        self._columns = columns
        self._position_of: dict[str, int] | None = None
        self._fresh: dict[str, tuple[Signature, str]] = {}
        self._gone: set[str] = set()
        self._pending: dict[str, WrittenFile] = {}
        self._folders: set[str] = set()
        self._asked: list[Sequence[str]] = []  # in the order in which they were asked for
        self._expected = 0  # the row that the next question is likely to be about
        self._misplaced = 0  # questions about other rows
        self._now = now

    @classmethod
    def load(cls, path: str | os.PathLike[str], now: Callable[[], int] = time.time_ns) -> StatCache:
        """The cache at this path. Missing, of another version or not readable as one: an empty one, silently.

        Nothing depends on it but speed, so a damaged one is no error; it is replaced at the next `save`.
        """
        try:
            with open(path, "rb") as file:
                columns = msgspec.msgpack.decode(checked(file.read()), type=_Columns)
            lengths = {len(column) for column in msgspec.structs.astuple(columns)[1:]}
            if columns.version == _VERSION and len(lengths) == 1:
                return cls(path, columns, now)
        except (OSError, ValueError):  # msgspec's errors are ValueErrors
            pass
        return cls(path, _empty(), now)

    def __len__(self) -> int:
        return len(self._position.keys() - self._gone | self._fresh.keys())

    def sha256_of(self, path: str, special: str | None = None) -> str | None:
        """The hash of a file or folder as it is now; None if there is none.

        `special`: the answer for what is neither (a pipe, a device), and so has no content; without it, an error.
        """
        return self.sha256_of_many((path,), special)[0]

    def sha256_of_many(self, paths: Sequence[str], special: str | None = None) -> list[str | None]:
        """The same for many. The loop is the hot path of a plan with nothing to do: one stat and five comparisons."""
        columns = self._columns
        hashes, devices, inodes = columns.sha256, columns.device, columns.inode
        sizes, mtimes, ctimes = columns.size, columns.mtime_ns, columns.ctime_ns
        names, look = columns.paths, os.stat
        found: list[str | None] = []
        add = found.append
        expected, end, misplaced = self._expected, len(names), 0
        self._asked.append(paths)
        if paths and end and names[0] == paths[0]:
            expected = 0  # another round
        for path in paths:
            try:
                status = look(path)
            except (FileNotFoundError, NotADirectoryError):
                self._forget(path)
                add(None)
                continue
            except OSError as failed:
                raise _unreadable(path, failed) from failed
            # Files are mostly asked for in the order in which they were saved, and then need no dictionary.
            if expected < end and names[expected] == path:
                i: int | None = expected
            else:
                i = self._position.get(path)
                misplaced += 1
            if (
                i is not None
                and status.st_ctime_ns == ctimes[i]
                and status.st_mtime_ns == mtimes[i]
                and status.st_size == sizes[i]
                and status.st_ino == inodes[i]
                and status.st_dev == devices[i]
            ):
                add(hashes[i])
                expected = i + 1
            else:
                add(self._hash(path, status, special))
        self._expected = expected
        self._misplaced += misplaced
        return found

    def is_folder(self, path: str) -> bool:
        """Was this path a folder when its hash was last asked for? Folders have no entries, so that is known."""
        return path in self._folders

    def note(self, path: str, written: WrittenFile) -> None:
        """We have just written this file. Its hash is known, its signature not yet to be trusted: see `settle`."""
        self._pending[path] = written

    def settle(self) -> int:
        """Take noted files whose last write is more than a tick ago; the number that is still too young.

        A noted file is taken without reading it again, if it still has the inode, size and modification time that it
        had before it got its public name. Its time was set by us, to the nanosecond, so any later write shows.
        """
        waiting: dict[str, WrittenFile] = {}
        for path, written in self._pending.items():
            now = self._now()
            try:
                status = os.stat(path)
            except (FileNotFoundError, NotADirectoryError):
                self._forget(path)
                continue
            same = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns) == (
                written.device,
                written.inode,
                written.size,
                written.mtime_ns,
            )
            same = same and status.st_mtime_ns % _SECOND != 0  # else the file system has cut our time short
            if same and _is_old(status, now):
                self._fresh[path] = (_signature(status), written.sha256)
            elif same:
                waiting[path] = written
        self._pending = waiting
        return len(waiting)

    def save(self) -> bool:
        """Write the file, if anything is new. Entries of files that are gone are dropped."""
        self.settle()
        asked = sum(map(len, self._asked))
        reorder = self._misplaced > max(MANY, asked // 2)
        if not self._fresh and not self._gone and not reorder:
            return False
        entries = {path: entry for path, entry in self._entries() if path not in self._gone and os.path.lexists(path)}
        if reorder:
            in_order = [path for paths in self._asked for path in paths if path in entries]
            entries = {path: entries[path] for path in dict.fromkeys([*in_order, *entries])}
        self._misplaced = 0
        columns = _empty()
        for path, ((device, inode, size, mtime_ns, ctime_ns), sha256) in entries.items():
            columns.paths.append(path)
            columns.sha256.append(sha256)
            columns.device.append(device)
            columns.inode.append(inode)
            columns.size.append(size)
            columns.mtime_ns.append(mtime_ns)
            columns.ctime_ns.append(ctime_ns)
        os.makedirs(os.path.dirname(self._path) or ".", exist_ok=True)
        atomic_write(self._path, with_checksum(msgspec.msgpack.encode(columns)))
        self._columns = columns
        self._position_of = None
        self._fresh, self._gone = {}, set()
        return True

    # --- inside --------------------------------------------------------------------------------------------------

    @property
    def _position(self) -> dict[str, int]:
        """Path → row; made when it is first needed."""
        if self._position_of is None:
            self._position_of = {path: row for row, path in enumerate(self._columns.paths)}
        return self._position_of

    def _entries(self) -> list[tuple[str, tuple[Signature, str]]]:
        c = self._columns
        signatures = zip(c.device, c.inode, c.size, c.mtime_ns, c.ctime_ns, strict=True)
        return [*zip(c.paths, zip(signatures, c.sha256, strict=True), strict=True), *self._fresh.items()]

    def _forget(self, path: str) -> None:
        self._fresh.pop(path, None)
        self._folders.discard(path)
        if path in self._position:
            self._gone.add(path)

    def _hash(self, path: str, status: os.stat_result, special: str | None) -> str:
        """The slow way: an entry of this session, or the content itself."""
        if stat.S_ISDIR(status.st_mode):
            self._folders.add(path)
            return bytes_sha256(tree_manifest(path, self._hash_existing))
        self._folders.discard(path)
        entry = self._fresh.get(path)
        if entry is not None and entry[0] == _signature(status):
            return entry[1]
        if not stat.S_ISREG(status.st_mode):
            if special is not None:
                return special
            raise error("INPUT_TYPE", f"`{path}` is neither a file nor a folder", hint="give a file with content")
        for _ in range(_TRIES):
            # The clock is read before the content: a write that comes after this moment gets a later ctime than
            # the one in the signature, if that one is more than a tick old.
            now = self._now()
            try:
                sha256 = file_sha256(path)
                after = os.stat(path)
            except OSError as failed:
                raise _unreadable(path, failed) from failed
            if _signature(after) == _signature(status):
                if _is_old(after, now):
                    self._fresh[path] = (_signature(after), sha256)
                    self._gone.discard(path)
                else:
                    self._forget(path)
                return sha256
            status = after
        raise error(
            "FILE_MISSING",
            f"`{path}` keeps changing while it is being read",
            hint="stop the program that writes it, then try again",
        )

    def _hash_existing(self, path: str) -> str:
        sha256 = self.sha256_of(path)
        if sha256 is None:
            raise error("FILE_MISSING", f"`{path}` vanished while its folder was being read", hint="try again")
        return sha256


def _signature(status: os.stat_result) -> Signature:
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _is_old(status: os.stat_result, now: int) -> bool:
    mtime, ctime = status.st_mtime_ns, status.st_ctime_ns
    coarse = mtime % _SECOND == 0 or ctime % _SECOND == 0
    return max(mtime, ctime) + (_COARSE_TICK if coarse else _TICK) < now


def _unreadable(path: str, failed: OSError) -> WhyrunError:
    return error(
        "FILE_MISSING", f"`{path}` cannot be read: {failed.strerror}", hint="check the path and its permissions"
    )
