"""One sandbox with its site: creates both, receives the worker's messages, and removes both."""

from __future__ import annotations

import errno
import os
import signal
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from whyrun.execution.backends.base import Ended, Received
from whyrun.execution.backends.remote import site
from whyrun.execution.backends.sandbox.launcher import ForkServer, SandboxFailed, SandboxProcess, hand_over
from whyrun.execution.backends.sandbox.view import Limits, SandboxSpec
from whyrun.execution.files.safe_files import copy_content
from whyrun.execution.files.scratch import Scratch
from whyrun.execution.files.tree_removal import make_readable
from whyrun.execution.protocol.framing import describe_exit, encode

# --- measures what the processes of a sandbox use together, and ends the sandbox if it is too much --------------------
# The kernel limits the memory of one process and the size of a folder in memory. Nothing limits the sum of the
# processes, or the files that they write to the disk, so this module looks ten times a second. What a step allocates
# between two looks may exceed the limit.


INTERVAL = 0.1  # seconds between two looks
_REST = 10  # a look that takes long is followed by a rest this many times as long
_COUNTED = (b"RssAnon:", b"RssShmem:")  # not mapped files, whose memory the kernel can reclaim at any time
_BLOCK = 512  # bytes; what `st_blocks` counts, on every file system


@dataclass(frozen=True, slots=True)
class Measured:
    """A sandbox to look at."""

    roots: tuple[int, ...]  # its processes, with all of their descendants
    folder: Path  # what it may write to
    limits: Limits
    on_excess: Callable[[str], None]  # called once, with what is too much: "memory" or "disk"


class Watch:
    """One thread for all sandboxes of a run."""

    def __init__(self) -> None:
        self._measured: dict[object, Measured] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, key: object, measured: Measured) -> None:
        with self._lock:
            self._measured[key] = measured
            if self._thread is None:
                self._thread = threading.Thread(target=self._look, daemon=True, name="whyrun-limits")
                self._thread.start()

    def forget(self, key: object) -> None:
        with self._lock:
            self._measured.pop(key, None)

    def close(self) -> None:
        self._closing.set()
        if self._thread is not None:
            self._thread.join()

    def _look(self) -> None:
        rested = 0.0  # when the disk may be read again
        while not self._closing.wait(INTERVAL):
            with self._lock:
                measured = list(self._measured.items())
            began = time.monotonic()
            reads_disk = began >= rested
            for key, sandbox in measured:
                excess = ""
                if used_memory(sandbox.roots) > sandbox.limits.memory:
                    excess = "memory"
                elif reads_disk and used_disk(sandbox.folder, sandbox.roots) > sandbox.limits.disk:
                    excess = "disk"
                if excess:
                    self.forget(key)
                    sandbox.on_excess(excess)
            if reads_disk:
                ended = time.monotonic()
                rested = ended + (ended - began) * _REST


def used_memory(roots: tuple[int, ...]) -> int:
    """Bytes of private memory of these processes and their descendants. Ended processes count as zero."""
    used = 0
    for process in _with_descendants(roots):
        with suppress(OSError), open(f"/proc/{process}/status", "rb") as file:  # it may have ended meanwhile
            for line in file:
                if line.startswith(_COUNTED):
                    used += int(line.split()[1]) * 1024
    return used


def _with_descendants(roots: tuple[int, ...]) -> Iterator[int]:
    queue = list(roots)
    while queue:
        process = queue.pop()
        yield process
        with suppress(OSError):
            for thread in os.listdir(f"/proc/{process}/task"):
                with open(f"/proc/{process}/task/{thread}/children", "rb") as file:
                    queue += map(int, file.read().split())


def used_disk(folder: Path, roots: tuple[int, ...] = ()) -> int:
    """Bytes on the disk of a folder's files, and of deleted files that these processes still have open. Holes in files
    count as nothing."""
    seen = set[int]()
    try:
        device = os.stat(folder).st_dev
        used = _used_below(folder, seen)
    except OSError:  # it was removed meanwhile
        return 0
    for process in _with_descendants(roots):
        with suppress(OSError):
            for number in os.listdir(f"/proc/{process}/fd"):
                with suppress(OSError):
                    status = os.stat(f"/proc/{process}/fd/{number}")
                    if status.st_dev == device and status.st_nlink == 0 and stat.S_ISREG(status.st_mode):
                        used += _size(status, seen)
    return used


def _size(status: os.stat_result, seen: set[int]) -> int:
    """Bytes on the disk. A file with several names, or open several times, counts once."""
    if status.st_nlink != 1:
        if status.st_ino in seen:
            return 0
        seen.add(status.st_ino)
    return status.st_blocks * _BLOCK


# A step may nest folders deeper than a path can name and than this process can open at once. So folders are opened one
# from the other, `_DEEPEST` at a time; those that lie deeper wait, open, until the others are done.
_DEEPEST, _WAITING = 64, 128


def _used_below(folder: Path, seen: set[int]) -> int:
    waiting = [_open(str(folder), None)]
    used = 0
    try:
        while waiting:
            top = waiting.pop()
            try:
                used += _used_in(top, 1, waiting, seen)
            finally:
                os.close(top)
    finally:
        for descriptor in waiting:
            os.close(descriptor)
    return used


def _used_in(folder: int, depth: int, waiting: list[int], seen: set[int]) -> int:
    used = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                status = entry.stat(follow_symlinks=False)
                used += _size(status, seen) if not stat.S_ISDIR(status.st_mode) else status.st_blocks * _BLOCK
                if not stat.S_ISDIR(status.st_mode):
                    continue
                inner = _open(entry.name, folder)
            except OSError as problem:
                if problem.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):  # it changed meanwhile
                    raise
                continue
            if depth < _DEEPEST:
                try:
                    used += _used_in(inner, depth + 1, waiting, seen)
                finally:
                    os.close(inner)
            elif len(waiting) < _WAITING:
                waiting.append(inner)
            else:  # nobody nests folders like this but to hide them
                os.close(inner)
                return 1 << 62
    return used


def _open(name: str, parent: int | None) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(name, flags, dir_fd=parent)
    except PermissionError:  # a folder that only takes files would hide them
        make_readable(name, parent)
        return os.open(name, flags, dir_fd=parent)


# --- one sandbox ------------------------------------------------------------------------------------------------------


STDERR = "worker.stderr"  # stderr of the worker process itself; the sandbox does not see the file
_CHUNK = 1 << 16
_PATIENCE = 5.0  # seconds for a worker that has closed its stdout to end


class SandboxInstance:
    def __init__(
        self, root: Path, inside: str, fork_server: ForkServer, spec: SandboxSpec, limits: Limits, user: int | None
    ) -> None:
        """`root`: path of the site on the host; `inside`: its path in the sandbox."""
        self.root, self.spec, self.limits = root, spec, limits
        self.over = False
        self._over_limit = ""
        self._listener: threading.Thread | None = None
        _make_site(root, user)
        worker_in, self._stdin = os.pipe()
        self._stdout, worker_out = os.pipe()
        start = encode(site.worker_start(inside, single=True)).decode()
        try:
            with open(root / STDERR, "wb") as stderr:
                self.process: SandboxProcess = fork_server.start(
                    spec, limits, start=start, stdin=worker_in, stdout=worker_out, stderr=stderr.fileno()
                )
        except BaseException:
            os.close(self._stdin)
            os.close(self._stdout)
            raise
        finally:
            os.close(worker_in)
            os.close(worker_out)

    @property
    def stdin(self) -> int:
        return self._stdin

    def is_waiting(self) -> bool:
        """Whether the worker runs and waits for its step."""
        try:
            return self.process.wait(0) is None
        except SandboxFailed:
            return False

    def listen(self, deliver: Callable[[Received], None]) -> None:
        self._listener = threading.Thread(target=self._listen, args=(deliver,), daemon=True)
        self._listener.start()

    def _listen(self, deliver: Callable[[Received], None]) -> None:
        """Deliver messages until the worker is gone. Always delivers `Ended`, because the remote worker waits for
        it."""
        reason = describe_exit(-signal.SIGKILL)
        try:
            while chunk := os.read(self._stdout, _CHUNK):
                deliver(chunk)
            status = self.process.wait(_PATIENCE)
            if status is None:
                self.process.signal(signal.SIGKILL)
                status = self.process.wait(_PATIENCE)
            reason = describe_exit(-signal.SIGKILL if status is None else status)
        except (SandboxFailed, OSError) as failed:
            reason = f"the sandbox was lost: {failed}"
        finally:
            self.over = True
            deliver(Ended(self._over_limit or reason))

    def exceeds(self, what: str) -> None:
        """End the sandbox, because its step uses too much `memory` or `disk`."""
        limit, name = (self.limits.disk, "disk space") if what == "disk" else (self.limits.memory, "memory")
        self._over_limit = f"the worker was killed: its step used more {name} than its sandbox may ({size_text(limit)})"
        self.process.signal(signal.SIGKILL)

    def close(self) -> None:
        """End the sandbox and remove its folder."""
        os.close(self._stdin)
        if self._listener is not None:  # let it read the exit status first, which `end` would consume
            self.process.signal(signal.SIGKILL)
            self._listener.join()
        self.process.end()
        os.close(self._stdout)
        Scratch(self.root).remove()


def size_text(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def _make_site(root: Path, user: int | None) -> None:
    for folder in (root, *(root / name for name in (site.PROJECT, *site.FOLDERS))):
        visible_folder(folder)
    Scratch(root / site.SCRATCH).make()
    hand_over(str(root / site.WRITTEN), user)


def private_folder(folder: Path, user: int | None) -> None:
    """Create a folder that only the sandbox's user, and root, can enter."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if user is not None:
        os.chown(folder, user, user)


def visible_folder(folder: Path) -> None:
    """Create a folder that the sandbox's user can read, whatever the umask is."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for new in reversed(missing):
        new.mkdir()
        new.chmod(0o755)


def make_visible(folder: Path) -> None:
    """Make a folder and everything in it readable for the sandbox's user."""
    folder.chmod(0o755)
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(parent, name)
            mode = os.lstat(path).st_mode
            if not stat.S_ISLNK(mode):
                os.chmod(path, 0o755 if mode & stat.S_IXUSR else 0o644)


def copy_visible(source: Path | bytes, target: Path) -> None:
    """Copy a file or folder so that the sandbox can read it. Never a hard link: the sandbox must not reach the host's
    own file."""
    visible_folder(target.parent)
    if isinstance(source, bytes):
        target.write_bytes(source)
        target.chmod(0o644)
    elif source.is_dir():
        visible_folder(target)
        for entry in sorted(source.iterdir()):
            copy_visible(entry, target / entry.name)
    elif source.is_file():
        with open(source, "rb") as original, open(target, "wb") as copy:
            copy_content(original.fileno(), copy.fileno())
        target.chmod(0o755 if os.access(source, os.X_OK) else 0o644)
