"""A record of everything that a command does to the disk, with the data, in the order in which it happened.

Each operation is one entry of an append-only file that host and workers share. A lock covers the operation and its
entry, so the entries of all threads and processes have the order of their operations. Syncs have two entries: what was
there when one began is on the disk when it has ended.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from fault_hook import FaultHook

from whyrun import disk
from whyrun.cli.broken_pipe import TolerantFile

LENGTH = 4  # bytes before each entry

Entry = tuple[Any, ...]


class RecordingHook(FaultHook):
    """Writes entries to `hits`, and disturbs nothing."""

    def __init__(self, hits: int) -> None:
        super().__init__(hits, ())
        self._numbers = count()

    def note(self, *entry: Any) -> None:
        data = pickle.dumps(entry)
        os.write(self.hits, len(data).to_bytes(LENGTH, "big") + data)

    def __call__(self, point: str, call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        if call in (os.fsync, os.fdatasync, disk.syncfs):
            return self._sync(call, *arguments)
        if point.endswith(".start"):
            return self.perform(point, call, arguments, options)
        with self._locked():
            return self._perform_and_note(call, *arguments)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """No other thread or process performs an operation meanwhile.

        Without this, a process can use a folder before the entry of the process that made it is written. Each call
        opens the file again, because a lock belongs to one opening: threads and forked processes share `hits`.
        """
        own = os.open(f"/proc/self/fd/{self.hits}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(own, fcntl.LOCK_EX)
            try:
                yield
            finally:
                # Closing is not enough: a worker that another thread forks meanwhile has a copy of the descriptor.
                fcntl.flock(own, fcntl.LOCK_UN)
        finally:
            os.close(own)

    def _perform_and_note(self, call: Callable[..., Any], *arguments: Any) -> Any:
        if call is os.open:
            return self._open(*arguments)
        if call is os.write:
            return self._write(*arguments)
        if call is os.rename:
            source, target = (os.fspath(path) for path in arguments)
            status = os.lstat(source)
            data = Path(source).read_bytes() if stat.S_ISREG(status.st_mode) else None
            tree = tree_of(source) if stat.S_ISDIR(status.st_mode) else None
            os.rename(source, target)
            self.note("rename", source, target, status.st_ino, data, tree)
            return None
        result = call(*arguments)
        if call is os.mkdir:
            self.note("mkdir", os.fspath(arguments[0]))
        elif call in (os.unlink, shutil.rmtree):
            self.note("remove", os.fspath(arguments[0]))
        elif call is os.symlink:
            self.note("link", os.fspath(arguments[0]), os.fspath(arguments[1]))
        elif call is os.ftruncate:
            self.note("cut", os.fstat(arguments[0]).st_ino, arguments[1])
        elif call is fcntl.ioctl:
            size = os.fstat(arguments[0]).st_size
            self.note("write", os.fstat(arguments[0]).st_ino, 0, os.pread(arguments[0], size, 0))
        else:
            raise AssertionError(f"the record has no entry for {call}")
        return result

    def _open(self, path: str | os.PathLike[str], flags: int, mode: int) -> int:
        new = not os.path.lexists(path)
        descriptor = os.open(path, flags, mode)
        if new:
            self.note("create", os.fspath(path), os.fstat(descriptor).st_ino)
        elif flags & os.O_TRUNC:
            self.note("cut", os.fstat(descriptor).st_ino, 0)
        return descriptor

    def _write(self, descriptor: int, data: bytes) -> int:
        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_APPEND:
            offset = os.fstat(descriptor).st_size
        else:
            offset = os.lseek(descriptor, 0, os.SEEK_CUR)
        written = os.write(descriptor, data)
        self.note("write", os.fstat(descriptor).st_ino, offset, bytes(data[:written]))
        return written

    def _sync(self, call: Callable[[int], None], descriptor: int) -> None:
        number = (os.getpid(), next(self._numbers))
        subject = None if call is disk.syncfs else os.fstat(descriptor).st_ino
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        with self._locked():
            self.note("sync begins", number, subject, path)
        call(descriptor)
        self.note("sync ends", number)


def tolerant_file_of(hook: RecordingHook) -> type[TolerantFile]:
    """The file beneath stdout and stderr of a recorded command: the record also has what is printed, in order.

    Beneath, because a command replaces `sys.stderr`.
    """

    class TellingFile(TolerantFile):
        def write(self, data: Any, /) -> int:
            hook.note("told", bytes(data).decode())
            return super().write(data)

    return TellingFile


def tree_of(folder: str) -> dict[str, tuple[str, Any]]:
    """The content of a folder: relative path → (kind, content)."""
    found: dict[str, tuple[str, Any]] = {}
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(parent, name)
            relative = os.path.relpath(path, folder)
            if os.path.islink(path):
                found[relative] = ("link", os.readlink(path))
            elif os.path.isdir(path):
                found[relative] = ("folder", None)
            else:
                found[relative] = ("file", Path(path).read_bytes())
    return found


def read_record(path: Path) -> list[Entry]:
    data = path.read_bytes()
    return list(_entries(data))


def _entries(data: bytes) -> Iterator[Entry]:
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + LENGTH], "big")
        yield pickle.loads(data[at + LENGTH : at + LENGTH + size])
        at += LENGTH + size


def printed_text(entries: Sequence[Entry]) -> str:
    return "".join(entry[1] for entry in entries if entry[0] == "told")
