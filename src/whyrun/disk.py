"""Every operation that writes Whyrun's own state to disk or starts a process, each with the name of its fault point.

    disk.rename(Area.STORE, temp, blob)      the point `store.rename`

Tests set `hook` to kill the process at a point, to make its call fail, or to record what would be on disk after a
power loss. Without a hook a call costs as much as the system call itself. `TABLE` lists every point; a test compares it
with the source.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import subprocess

Name = str | os.PathLike[str]
Hook = Callable[..., Any]  # (point, call, *arguments) → the result of the call

hook: Hook | None = None  # for tests alone


class Area(StrEnum):
    """The part of the state that an operation writes."""

    LOG = "log"
    LOCK = "lock"
    DRAFT = "draft"
    STORE = "store"
    PUBLISH = "publish"
    SECTION = "section"
    STAT_CACHE = "stat-cache"
    INDEX = "index"
    RUN = "run"
    STATUS = "status"
    CFG = "cfg"
    STEP = "step"
    ARTIFACT_LINK = "artifact-link"
    PRUNE = "prune"
    GC = "gc"
    SAVED = "saved"
    WORKER = "worker"


# area → (what it is, its operations in the order of a file's life)
TABLE: dict[Area, tuple[str, tuple[str, ...]]] = {
    Area.DRAFT: (
        "the folder of a new run, until it has its name: `tmp/<workflow>-r0001/`",
        ("mkdir", "open", "write", "sync_filesystem", "rename", "sync_folder", "unlink", "remove"),
    ),
    Area.LOG: ("the events of a run: `events.jsonl`", ("open", "write", "sync", "cut")),
    Area.LOCK: ("who holds the lock, and how far the log is synced: `lock`", ("mkdir", "open", "write", "cut", "sync")),
    Area.STORE: (
        "blobs: `store/tmp/…`, then `store/ab/cdef…`; and `store/lock`",
        ("mkdir", "open", "clone", "write", "rename", "unlink", "remove", "sync_filesystem"),
    ),
    Area.PUBLISH: (
        "published artifacts, and the folders above them",
        ("mkdir", "rename", "unlink", "remove"),
    ),
    Area.SECTION: (
        "files that several jobs share",
        ("mkdir", "open", "write", "sync", "rename", "unlink", "sync_folder"),
    ),
    Area.CFG: ("the configuration of each step: `cfg/<step>.json`", ("mkdir", "open", "write")),
    Area.STEP: ("the logs and files that a step leaves: `steps/<step>/…`", ("mkdir", "rename")),
    Area.RUN: (
        "the other files of a run: commands, metrics, logs, and files that are completed when it ends",
        ("mkdir", "open", "write", "cut", "rename", "link", "unlink", "sync_filesystem"),
    ),
    Area.ARTIFACT_LINK: (
        "links into the store: `artifacts/<step>/…`, and the process that makes those of a long run",
        ("mkdir", "link", "rename", "remove", "start"),
    ),
    Area.STATUS: (
        "`status.json`, the last file of a run",
        ("open", "write", "sync", "rename", "unlink", "sync_folder"),
    ),
    Area.STAT_CACHE: ("which files were hashed already: `stat-cache`", ("mkdir", "open", "write", "rename", "unlink")),
    Area.INDEX: ("what is derived from the logs: `index/`", ("mkdir", "open", "write", "rename", "unlink")),
    Area.PRUNE: (
        "runs that are pruned: their tombstones in `pruned.jsonl`, then their folders",
        ("open", "write", "sync", "rename", "unlink", "sync_folder", "mkdir", "remove"),
    ),
    Area.GC: ("blobs that nothing needs any more", ("unlink",)),
    Area.SAVED: ("files that a user asks for, such as a saved plan", ("open", "write", "rename", "unlink")),
    Area.WORKER: ("a worker process on this machine", ("start",)),
}


def points() -> list[str]:
    return [f"{area}.{operation}" for area, (_, operations) in TABLE.items() for operation in operations]


# --- files -------------------------------------------------------------------------------------------------------


def open(area: Area, path: Name, flags: int, mode: int = 0o666) -> int:  # the system's own name
    """Open a file for writing; `flags` may create it."""
    flags |= os.O_CLOEXEC
    if hook is None:
        return os.open(path, flags, mode)
    return int(hook(f"{area}.open", os.open, path, flags, mode))


def write(area: Area, descriptor: int, data: bytes) -> None:
    """Write all of the data: `os.write` may write less than it is given."""
    written = write_some(area, descriptor, data)
    if written < len(data):
        view = memoryview(data)
        while written < len(data):
            written += write_some(area, descriptor, view[written:])


def write_some(area: Area, descriptor: int, data: bytes | memoryview) -> int:
    """One call of `os.write`; returns how much it wrote. For callers that need to know this when a later call fails."""
    try:
        if hook is None:
            return os.write(descriptor, data)
        return int(hook(f"{area}.write", os.write, descriptor, data))
    except OSError as problem:
        raise _where(problem, descriptor) from None


def _where(problem: OSError, descriptor: int) -> OSError:
    """Add the file name: errors of calls with a descriptor have none, and the user needs it."""
    if problem.filename is None:
        with suppress(OSError):
            problem.filename = os.readlink(f"/proc/self/fd/{descriptor}")
    return problem


def clone(area: Area, target: int, source: int) -> None:
    """Share the extents of another file, copied on write. OSError where the file system cannot."""
    import fcntl

    if hook is None:
        fcntl.ioctl(target, FICLONE, source)
    else:
        hook(f"{area}.clone", fcntl.ioctl, target, FICLONE, source)


def cut(area: Area, descriptor: int, size: int) -> None:
    """Truncate a file to this size."""
    try:
        if hook is None:
            os.ftruncate(descriptor, size)
        else:
            hook(f"{area}.cut", os.ftruncate, descriptor, size)
    except OSError as problem:
        raise _where(problem, descriptor) from None


def append_line(area: Area, path: Name, text: str) -> None:
    """One more line in a log for people."""
    descriptor = open(area, path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        write(area, descriptor, f"{text}\n".encode(errors="backslashreplace"))
    finally:
        os.close(descriptor)


def memory_file(name: str) -> int:
    """A descriptor of a new file that is in memory alone. `name` is for people who look at the process."""
    try:
        return os.memfd_create(name)
    except OSError as problem:
        if problem.errno != errno.ENOSYS:
            raise
    # In a sandbox, where such a file would count against no limit. This folder is in memory, too, and limited.
    return os.open("/dev/shm", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)


# --- names -------------------------------------------------------------------------------------------------------


def rename(area: Area, source: Name, target: Name) -> None:
    if hook is None:
        os.rename(source, target)
    else:
        hook(f"{area}.rename", os.rename, source, target)


def link(area: Area, target: Name, path: Name) -> None:
    """Make a symbolic link at `path`."""
    if hook is None:
        os.symlink(target, path)
    else:
        hook(f"{area}.link", os.symlink, target, path)


def unlink(area: Area, path: Name) -> None:
    if hook is None:
        os.unlink(path)
    else:
        hook(f"{area}.unlink", os.unlink, path)


def remove(area: Area, folder: Name) -> None:
    """Remove a folder with all its content."""
    import shutil

    if hook is None:
        shutil.rmtree(folder)
    else:
        hook(f"{area}.remove", shutil.rmtree, folder)


def mkdir(area: Area, path: Name) -> None:
    if hook is None:
        os.mkdir(path)
    else:
        hook(f"{area}.mkdir", os.mkdir, path)


def make_folders(area: Area, path: Name) -> None:
    """Make this folder and its parents; existing ones are fine."""
    try:
        _make_folder(area, path)
    except FileNotFoundError:
        above = os.path.dirname(os.fspath(path).rstrip("/"))
        if not above:
            raise
        if not os.path.isdir(above):
            make_folders(area, above)
        _make_folder(area, path)


def _make_folder(area: Area, path: Name) -> None:
    """Make a folder whose parent exists."""
    try:
        mkdir(area, path)
    except FileExistsError:
        if not os.path.isdir(path):
            raise


# --- syncs -------------------------------------------------------------------------------------------------------


def sync(area: Area, descriptor: int) -> None:
    """The content of a file is on disk."""
    try:
        if hook is None:
            os.fdatasync(descriptor)
        else:
            hook(f"{area}.sync", os.fdatasync, descriptor)
    except OSError as problem:
        raise _where(problem, descriptor) from None


def sync_folder(area: Area, path: Name) -> None:
    """The names in this folder are on disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if hook is None:
            os.fsync(descriptor)
        else:
            hook(f"{area}.sync_folder", os.fsync, descriptor)
    except OSError as problem:
        raise _where(problem, descriptor) from None
    finally:
        os.close(descriptor)


def sync_filesystem(area: Area, path: Name) -> None:
    """Everything written so far to the file system of `path` is on disk.

    One call covers all that a run wrote since the last one, so many events share one sync. An fsync per file would
    cost more than most steps.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if hook is None:
            syncfs(descriptor)
        else:
            hook(f"{area}.sync_filesystem", syncfs, descriptor)
    except OSError as problem:
        raise _where(problem, descriptor) from None
    finally:
        os.close(descriptor)


def syncfs(descriptor: int) -> None:
    function = _syncfs()
    if function is None:
        os.sync()
        return
    if function(descriptor) != 0:
        import ctypes

        number = ctypes.get_errno()
        raise OSError(number, f"syncfs: {os.strerror(number)}")


@cache
def _syncfs() -> Any:
    """The C function, or None where the system has none. ctypes is imported only by a run."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    function = getattr(libc, "syncfs", None)
    if function is not None:
        function.argtypes = [ctypes.c_int]
        function.restype = ctypes.c_int
    return function


FICLONE = 0x40049409  # ioctl


# --- processes ---------------------------------------------------------------------------------------------------


def start(area: Area, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a process; `options` are those of `subprocess.Popen`."""
    import subprocess

    if hook is None:
        return subprocess.Popen(command, **options)
    started: subprocess.Popen[bytes] = hook(f"{area}.start", subprocess.Popen, command, **options)
    return started
