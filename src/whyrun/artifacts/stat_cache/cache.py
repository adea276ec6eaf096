"""The stat cache: content hashes of files that have not changed since they were hashed. It may be deleted at any time.

    (device, inode, size, mtime_ns, ctime_ns) → sha256

An entry is made only if its time stamps prove the content (see `file_times.py`). Other files are hashed each time.
So an existing entry can always be trusted.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING

import msgspec

from whyrun import disk
from whyrun.artifacts.durable import atomic_write
from whyrun.artifacts.hashing import UnfitFolder, bytes_sha256, file_sha256_and_size, tree_manifest
from whyrun.artifacts.stat_cache.rows import (
    CHUNK,
    NEVER,
    ClockSkews,
    Entry,
    FileClock,
    StatRows,
    in_bytes,
    is_open_for_writing,
    is_settled,
    signature_of,
)
from whyrun.disk import Area
from whyrun.errors import WhyrunError, error

if TYPE_CHECKING:
    from whyrun.artifacts.stat_cache.parallel_stat import ParallelStat

_SECOND = 1_000_000_000
_TRIES = 5
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC  # only a base for relative paths

WORTH_A_PROCESS = 8192  # rows: for fewer, a second process costs more than it saves
MANY = 1000  # lookups out of order; for fewer, reordering the file does not pay


class WrittenFile(msgspec.Struct, frozen=True):
    """A published file as it was before the rename. `publish` sets its modification time to the nanosecond."""

    sha256: str
    device: int
    inode: int
    size: int
    mtime_ns: int


class StatCache:
    """Maps paths to hashes. An entry is trusted by its signature. Paths may be relative or absolute."""

    def __init__(self, path: str | os.PathLike[str], rows: StatRows, now: Callable[[], int]) -> None:
        self._path = os.fspath(path)
        self._rows = rows
        self._root = rows.root
        self._fresh: dict[str, Entry] = {}
        self._gone: set[str] = set()
        self._pending: dict[str, WrittenFile] = {}
        self._folders: set[str] = set()
        self._lookups: list[tuple[str, Sequence[str]]] = []  # in the order of the lookups
        self._expected = 0  # the row of the next lookup, if files are looked up in order
        self._next = (0, 0)  # the same for many files: the row, and the offset of its path
        self._misplaced = 0  # lookups of other rows
        self._scattered = False  # many files that are looked up together are not in consecutive rows
        self._row_lookups = bytearray(len(rows))  # 1 for every row that was looked up
        self._parallel: ParallelStat | None = None
        self._now = now
        self._skews = ClockSkews(os.path.dirname(self._path))

    @classmethod
    def load(cls, path: str | os.PathLike[str], now: Callable[[], int] | None = None) -> StatCache:
        """The cache at this path; an empty one if it is missing, damaged or of another version.

        Only speed depends on it, so a damaged cache is not an error; the next `save` replaces it. `now`: the clock that
        dates files; by default that of the file system of `path`.
        """
        now = now or FileClock(os.path.dirname(path))
        try:
            with open(path, "rb") as file:
                return cls(path, StatRows.load(file.read()), now)
        except (OSError, ValueError):  # msgspec's errors are ValueErrors
            return cls(path, StatRows.empty(), now)

    def __len__(self) -> int:
        return len({self._rows.path_of(name) for name in self._rows.names} - self._gone | self._fresh.keys())

    @contextmanager
    def with_parallel_stat(self) -> Iterator[None]:
        """Within this context, a second process may stat files in advance, but never before the context began."""
        if self._parallel is not None:
            yield  # it runs already
            return
        parallel = self._parallel = self._started()
        try:
            yield
        finally:
            self._parallel = None
            if parallel is not None:
                parallel.stop()

    def _started(self) -> ParallelStat | None:
        if len(self._rows) < WORTH_A_PROCESS:
            return None
        from whyrun.artifacts.stat_cache.parallel_stat import ParallelStat  # imported late: for many files only

        return ParallelStat.start(self._rows)

    def sha256_of(self, path: str, special: str | None = None) -> str | None:
        """The hash of a file or folder as it is now; None if it does not exist.

        `special`: the answer for paths that cannot be artifacts (a pipe, a device, a folder with a dangling link);
        without it, they are errors.
        """
        return self.sha256_of_many((path,), special)[0]

    def sha256_of_many(self, paths: Sequence[str], special: str | None = None) -> list[str | None]:
        """The same for many paths."""
        self._lookups.append(("", paths))
        return [self._look_up(path, self._rows.name_of(path), special) for path in paths]

    def sha256_in(self, root: str, paths: Sequence[str], special: str | None = None) -> Sequence[str | None]:
        """The same for many files of a folder, such as the project. Paths are relative to it, or absolute.

        The hot path of a plan with nothing to do. Files are mostly looked up in the order of the rows, and are
        unchanged: then whole chunks are compared.
        """
        self._root = root
        first = self._first_row(paths) if root == self._rows.root and paths else None
        if first is None:
            self._scattered = self._scattered or len(paths) > MANY
            return self.sha256_of_many([_inside(root, path) for path in paths], special)
        self._lookups.append((root, paths))
        end = first + len(paths)
        hashes = self._rows.sha256s(first, end)
        for row in self._changed_rows(paths, first):
            path = paths[row - first]
            hashes[row - first] = self._look_up(_inside(root, path), path, special)
        self._expected = end
        self._row_lookups[first:end] = b"\1" * len(paths)
        return hashes

    def entry_of(self, path: str) -> Entry | None:
        """The cached entry of a file, without a stat: the hash is valid if the signature is unchanged."""
        entry = self._fresh.get(path)
        if entry is not None:
            return entry
        row = self._rows.row_of.get(self._rows.name_of(path))
        return None if row is None or path in self._gone else (self._rows.signature(row), self._rows.sha256(row))

    @property
    def knows_folders(self) -> bool:
        """Whether any path was a folder."""
        return bool(self._folders)

    def is_folder(self, path: str) -> bool:
        """Whether this path was a folder at the last lookup. Folders have no entries, so each lookup notes it."""
        return path in self._folders

    def note(self, path: str, written: WrittenFile) -> None:
        """Note a file that we have just published. Its signature cannot be trusted yet: see `settle`."""
        self._pending[path] = written

    def distrust(self, path: str) -> None:
        """Hash this file, or all files of this folder, again at the next lookup: somebody found another content."""
        if self.is_folder(path):
            inside = [name for name in map(self._rows.path_of, self._rows.names) if name.startswith(f"{path}/")]
            inside += [name for name in self._fresh if name.startswith(f"{path}/")]
        else:
            inside = [path]
        for each in inside:
            row = self._rows.row_of.get(self._rows.name_of(each))
            if row is not None:
                self._rows.distrust(row)
            self._forget(each)

    def settle(self) -> int:
        """Make entries for noted files that are old enough; return the number that are still too young.

        A noted file is not read again if its inode, size and modification time are unchanged. We have set that time to
        the nanosecond, so any later write changes it.
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
            same = same and status.st_mtime_ns % _SECOND != 0  # else the file system has truncated the time
            same = same and self._skews.of(path, status.st_dev) != NEVER
            if same and _is_old(status, now):
                self._fresh[path] = (signature_of(status), written.sha256)
            elif same:
                waiting[path] = written
        self._pending = waiting
        return len(waiting)

    def save(self) -> bool:
        """Write the file if anything has changed. Entries of files that do not exist are dropped."""
        self.settle()
        lookups = sum(len(paths) for _, paths in self._lookups)
        reorder = self._misplaced > max(MANY, lookups // 2) or (self._scattered and not self._is_in_order())
        if not self._fresh and not self._gone and not reorder:
            return False
        if reorder or self._root != self._rows.root:
            rows = self._reordered()
        else:
            gone = {row for path in self._gone if (row := self._rows.row_of.get(self._rows.name_of(path))) is not None}
            gone |= {
                row
                for row in self._rows_not_looked_up()
                if not os.path.lexists(self._rows.path_of(self._rows.names[row]))
            }
            rows = self._rows.changed(self._fresh, gone)
        self._misplaced, self._scattered = 0, False
        disk.make_folders(Area.STAT_CACHE, os.path.dirname(self._path) or ".")
        atomic_write(self._path, rows.dump(), Area.STAT_CACHE)
        self._rows, self._row_lookups, self._next = rows, bytearray(len(rows)), (0, 0)
        self._fresh, self._gone = {}, set()
        return True

    # --- inside --------------------------------------------------------------------------------------------------

    def _first_row(self, paths: Sequence[str]) -> int | None:
        """The first of the consecutive rows of exactly these files; None if there are none."""
        wanted = in_bytes(paths)
        for row, start in (self._next, (0, 0)):
            end = self._rows.end_of(wanted, start)
            if end is not None:
                self._next = (row + len(paths), end + 1)
                return row
        first = self._rows.row_of.get(paths[0])
        return first if first is not None and self._rows.names[first : first + len(paths)] == list(paths) else None

    def _changed_rows(self, paths: Sequence[str], first: int) -> Iterator[int]:
        """The rows from `first` on whose files have changed or do not exist."""
        rows, parallel, end = self._rows, self._parallel, first + len(paths)
        try:
            folder = os.open(rows.root, _FOLDER) if rows.root else None
        except OSError:
            yield from range(first, end)
            return
        try:
            for start in chain((first,), range(first - first % CHUNK + CHUNK, end, CHUNK)):
                stop = min(start - start % CHUNK + CHUNK, end)
                if stop - start == CHUNK and parallel is not None and parallel.says_unchanged(start // CHUNK):
                    continue
                names = paths[start - first : stop - first]
                if not rows.are_unchanged(names, start, folder):
                    yield from (
                        row for row, name in enumerate(names, start) if not rows.are_unchanged([name], row, folder)
                    )
        finally:
            if folder is not None:
                os.close(folder)

    def _look_up(self, path: str, name: str, special: str | None) -> str | None:
        """The hash of one file or folder. `name`: its name in the rows."""
        try:
            status = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            self._forget(path)
            return None
        except OSError as failed:
            if failed.errno == errno.ELOOP and special is not None:  # a symlink loop
                return special
            raise _unreadable(path, failed) from failed
        rows, row = self._rows, self._expected
        if row >= len(rows) or rows.names[row] != name:
            self._misplaced += 1
            other_row = rows.row_of.get(name)
            if other_row is None:
                return self._hash(path, status, special)
            row = other_row
        self._expected = row + 1
        self._row_lookups[row] = 1
        return rows.sha256(row) if rows.signature(row) == signature_of(status) else self._hash(path, status, special)

    def _rows_not_looked_up(self) -> Iterator[int]:
        """The rows that were not looked up: their files may not exist any more."""
        at = self._row_lookups.find(0)
        while at >= 0:
            yield at
            at = self._row_lookups.find(0, at + 1)

    def _is_in_order(self) -> bool:
        """Whether the rows are in the order of the lookups, ignoring repeated lookups."""
        rows = self._rows
        names = (path if root == rows.root else rows.name_of(path) for root, paths in self._lookups for path in paths)
        wanted = [name for name in dict.fromkeys(names) if name in rows.row_of]
        return rows.names[: len(wanted)] == wanted

    def _reordered(self) -> StatRows:
        """The rows in the order of the lookups: the next command will probably use the same order."""
        known = chain(self._rows.entries(), self._fresh.items())
        entries = {path: entry for path, entry in known if path not in self._gone and os.path.lexists(path)}
        in_order = [_inside(root, path) for root, paths in self._lookups for path in paths]
        ordered = [path for path in dict.fromkeys([*in_order, *entries]) if path in entries]
        return StatRows.of(self._root, ((path, entries[path]) for path in ordered))

    def _forget(self, path: str) -> None:
        self._fresh.pop(path, None)
        self._folders.discard(path)
        if self._rows.name_of(path) in self._rows.row_of:
            self._gone.add(path)

    def _hash(self, path: str, status: os.stat_result, special: str | None) -> str:
        """The slow path: a new entry of this process, or the content itself."""
        if stat.S_ISDIR(status.st_mode):
            self._folders.add(path)
            try:
                return bytes_sha256(tree_manifest(path, self._hash_existing))
            except UnfitFolder:
                if special is None:
                    raise
                return special
        self._folders.discard(path)
        entry = self._fresh.get(path)
        if entry is not None and entry[0] == signature_of(status):
            return entry[1]
        if not stat.S_ISREG(status.st_mode):
            if special is not None:
                return special
            raise error("INPUT_TYPE", f"`{path}` is neither a file nor a folder", hint="give a file with content")
        for _ in range(_TRIES):
            # The clock is read before the content: a write after this moment gets a later ctime than the one in the
            # signature, if that one is more than a tick old.
            now = self._now() - self._skews.of(path, status.st_dev)
            try:
                # Asked first: a later open for writing moves the times.
                written_to = is_open_for_writing(path, unknown=False)
                sha256, size = file_sha256_and_size(path)
                after = os.stat(path)
            except OSError as failed:
                raise _unreadable(path, failed) from failed
            if signature_of(after) == signature_of(status):
                # If the size differs from the bytes read (`/sys`), the times mean nothing either.
                if _is_old(after, now) and not written_to and size == after.st_size:
                    self._fresh[path] = (signature_of(after), sha256)
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


def _inside(root: str, path: str) -> str:
    return f"{root}/{path}" if root and not path.startswith("/") else path


def _is_old(status: os.stat_result, now: int) -> bool:
    return is_settled(status.st_mtime_ns, status.st_ctime_ns, now)


def _unreadable(path: str, failed: OSError) -> WhyrunError:
    return error(
        "FILE_MISSING", f"`{path}` cannot be read: {failed.strerror}", hint="check the path and its permissions"
    )
