"""Content hashes of files that have not been touched since they were last hashed. Derived: it may be deleted any time.

    (device, inode, size, mtime_ns, ctime_ns) → sha256

Every write to a file moves its ctime, but clocks tick: two writes within one tick leave the same signature. So an
entry is made only from a look that came more than a tick after the file's last write; a file seen earlier than that
is hashed, and hashed again the next time. An entry that exists is therefore always to be trusted.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain

import msgspec

from whyrun import disk
from whyrun.artifacts.durable import atomic_write
from whyrun.artifacts.file_clock import FileClock, OtherClocks
from whyrun.artifacts.hashing import UnfitFolder, bytes_sha256, file_sha256_and_size, tree_manifest
from whyrun.artifacts.second_look import SecondLook
from whyrun.artifacts.settled import is_settled
from whyrun.artifacts.stat_rows import CHUNK, Entry, StatRows, in_bytes, signature_of
from whyrun.artifacts.writers import is_open_for_writing
from whyrun.disk import Area
from whyrun.errors import WhyrunError, error

_SECOND = 1_000_000_000
_TRIES = 5
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC  # to name files from it, not to read it

MANY = 1000  # questions out of order: below, looking them up costs nothing worth the writing


class WrittenFile(msgspec.Struct, frozen=True):
    """A file of our own, as it was before anyone else could reach it (`publish` gives it a time of its own)."""

    sha256: str
    device: int
    inode: int
    size: int
    mtime_ns: int


class StatCache:
    """Paths are only the way to an entry; what is trusted is the signature. Relative and absolute ones both work."""

    def __init__(self, path: str | os.PathLike[str], rows: StatRows, now: Callable[[], int]) -> None:
        self._path = os.fspath(path)
        self._rows = rows
        self._root = rows.root
        self._fresh: dict[str, Entry] = {}
        self._gone: set[str] = set()
        self._pending: dict[str, WrittenFile] = {}
        self._folders: set[str] = set()
        self._asked: list[tuple[str, Sequence[str]]] = []  # in the order in which they were asked for
        self._expected = 0  # the row that the next question is likely to be about
        self._next = (0, 0)  # the same for many files: the row, and where its path begins
        self._misplaced = 0  # questions about other rows
        self._scattered = False  # many files that were asked for together do not stand together
        self._asked_rows = bytearray(len(rows))  # 1 for every row whose file was looked at
        self._second: SecondLook | None = None
        self._now = now
        self._others = OtherClocks(os.path.dirname(self._path))

    @classmethod
    def load(cls, path: str | os.PathLike[str], now: Callable[[], int] | None = None) -> StatCache:
        """The cache at this path. Missing, of another version or not readable as one: an empty one, silently.

        Nothing depends on it but speed, so a damaged one is no error; it is replaced at the next `save`. `now`: the
        clock that files get their times from; by default that of the file system of `path`.
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
    def with_second_look(self) -> Iterator[None]:
        """While this lasts, a second process may look at files beforehand: never earlier than when it began."""
        if self._second is not None:
            yield  # one is enough
            return
        second = self._second = SecondLook.start(self._rows)
        try:
            yield
        finally:
            self._second = None
            if second is not None:
                second.stop()

    def sha256_of(self, path: str, special: str | None = None) -> str | None:
        """The hash of a file or folder as it is now; None if there is none.

        `special`: the answer for what has no content that an artifact could have (a pipe, a device, a folder with a
        link that leads nowhere); without it, an error.
        """
        return self.sha256_of_many((path,), special)[0]

    def sha256_of_many(self, paths: Sequence[str], special: str | None = None) -> list[str | None]:
        """The same for many, one after the other."""
        self._asked.append(("", paths))
        return [self._look_up(path, self._rows.name_of(path), special) for path in paths]

    def sha256_in(self, root: str, paths: Sequence[str], special: str | None = None) -> Sequence[str | None]:
        """The same for many files of a folder, such as the project: paths are relative to it, or absolute.

        The hot path of a plan with nothing to do. Files are mostly asked for in the order in which they were saved,
        and have the signatures that they had: then whole chunks are compared.
        """
        self._root = root
        first = self._first_row(paths) if root == self._rows.root and paths else None
        if first is None:
            self._scattered = self._scattered or len(paths) > MANY
            return self.sha256_of_many([_inside(root, path) for path in paths], special)
        self._asked.append((root, paths))
        end = first + len(paths)
        found = self._rows.sha256s(first, end)
        for row in self._other_rows(paths, first):
            path = paths[row - first]
            found[row - first] = self._look_up(_inside(root, path), path, special)
        self._expected = end
        self._asked_rows[first:end] = b"\1" * len(paths)
        return found

    def entry_of(self, path: str) -> Entry | None:
        """What is known of a file, without a look at it: it has this hash if it still has this signature."""
        entry = self._fresh.get(path)
        if entry is not None:
            return entry
        row = self._rows.row_of.get(self._rows.name_of(path))
        return None if row is None else (self._rows.signature(row), self._rows.sha256(row))

    @property
    def knows_folders(self) -> bool:
        """Was any path a folder?"""
        return bool(self._folders)

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
                self._fresh[path] = (signature_of(status), written.sha256)
            elif same:
                waiting[path] = written
        self._pending = waiting
        return len(waiting)

    def save(self) -> bool:
        """Write the file, if anything is new. Entries of files that are gone are dropped."""
        self.settle()
        asked = sum(len(paths) for _, paths in self._asked)
        reorder = self._misplaced > max(MANY, asked // 2) or (self._scattered and not self._is_in_order())
        if not self._fresh and not self._gone and not reorder:
            return False
        if reorder or self._root != self._rows.root:
            rows = self._reordered()
        else:
            gone = {row for path in self._gone if (row := self._rows.row_of.get(self._rows.name_of(path))) is not None}
            gone |= {row for row in self._not_asked() if not os.path.lexists(self._rows.path_of(self._rows.names[row]))}
            rows = self._rows.changed(self._fresh, gone)
        self._misplaced, self._scattered = 0, False
        disk.make_folders(Area.STAT_CACHE, os.path.dirname(self._path) or ".")
        atomic_write(self._path, rows.dump(), Area.STAT_CACHE)
        self._rows, self._asked_rows, self._next = rows, bytearray(len(rows)), (0, 0)
        self._fresh, self._gone = {}, set()
        return True

    # --- inside --------------------------------------------------------------------------------------------------

    def _first_row(self, paths: Sequence[str]) -> int | None:
        """The row where exactly these files stand, one after the other; None if they do not."""
        wanted = in_bytes(paths)
        for row, start in (self._next, (0, 0)):
            end = self._rows.end_of(wanted, start)
            if end is not None:
                self._next = (row + len(paths), end + 1)
                return row
        first = self._rows.row_of.get(paths[0])
        return first if first is not None and self._rows.names[first : first + len(paths)] == list(paths) else None

    def _other_rows(self, paths: Sequence[str], first: int) -> Iterator[int]:
        """Those of the rows from `first` on whose files do not have the recorded signature, or are not there."""
        rows, second, end = self._rows, self._second, first + len(paths)
        try:
            folder = os.open(rows.root, _FOLDER) if rows.root else None
        except OSError:
            yield from range(first, end)
            return
        try:
            for start in chain((first,), range(first - first % CHUNK + CHUNK, end, CHUNK)):
                stop = min(start - start % CHUNK + CHUNK, end)
                if stop - start == CHUNK and second is not None and second.says_as_recorded(start // CHUNK):
                    continue
                names = paths[start - first : stop - first]
                if not rows.are_as_recorded(names, start, folder):
                    yield from (
                        row for row, name in enumerate(names, start) if not rows.are_as_recorded([name], row, folder)
                    )
        finally:
            if folder is not None:
                os.close(folder)

    def _look_up(self, path: str, name: str, special: str | None) -> str | None:
        """One file or folder. `name`: how the rows call it."""
        try:
            status = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            self._forget(path)
            return None
        except OSError as failed:
            if failed.errno == errno.ELOOP and special is not None:  # a link that leads to itself
                return special
            raise _unreadable(path, failed) from failed
        rows, row = self._rows, self._expected
        if row >= len(rows) or rows.names[row] != name:
            self._misplaced += 1
            found = rows.row_of.get(name)
            if found is None:
                return self._hash(path, status, special)
            row = found
        self._expected = row + 1
        self._asked_rows[row] = 1
        return rows.sha256(row) if rows.signature(row) == signature_of(status) else self._hash(path, status, special)

    def _not_asked(self) -> Iterator[int]:
        """The rows of files that nobody asked for, so that nobody knows whether they are there."""
        at = self._asked_rows.find(0)
        while at >= 0:
            yield at
            at = self._asked_rows.find(0, at + 1)

    def _is_in_order(self) -> bool:
        """Whether files stand as they were asked for, as far as they can: some may be asked for more than once."""
        rows = self._rows
        asked = (path if root == rows.root else rows.name_of(path) for root, paths in self._asked for path in paths)
        wanted = [name for name in dict.fromkeys(asked) if name in rows.row_of]
        return rows.names[: len(wanted)] == wanted

    def _reordered(self) -> StatRows:
        """In the order in which files were asked for, which is the order in which they will be."""
        there = chain(self._rows.entries(), self._fresh.items())
        entries = {path: entry for path, entry in there if path not in self._gone and os.path.lexists(path)}
        in_order = [_inside(root, path) for root, paths in self._asked for path in paths]
        ordered = [path for path in dict.fromkeys([*in_order, *entries]) if path in entries]
        return StatRows.of(self._root, ((path, entries[path]) for path in ordered))

    def _forget(self, path: str) -> None:
        self._fresh.pop(path, None)
        self._folders.discard(path)
        if self._rows.name_of(path) in self._rows.row_of:
            self._gone.add(path)

    def _hash(self, path: str, status: os.stat_result, special: str | None) -> str:
        """The slow way: an entry of this session, or the content itself."""
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
            # The clock is read before the content: a write that comes after this moment gets a later ctime than
            # the one in the signature, if that one is more than a tick old.
            now = self._now() - self._others.behind(path, status.st_dev)
            try:
                written_to = is_open_for_writing(path, unknown=False)  # before: who opens it later moves its times
                sha256, size = file_sha256_and_size(path)
                after = os.stat(path)
            except OSError as failed:
                raise _unreadable(path, failed) from failed
            if signature_of(after) == signature_of(status):
                # Where it has another size than one can read (`/sys`), its times say nothing either.
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
