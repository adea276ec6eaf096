"""What a worker asks the kernel about processes: what a step has used, which processes it left, and their end."""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import signal
import sys
import time
import warnings
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

_PR_SET_CHILD_SUBREAPER = 36
_PATIENCE = 5.0  # seconds for killed processes to be gone
_PAUSE = 0.005
_libc = ctypes.CDLL(None, use_errno=True)


def become_worker() -> None:
    """Adopt orphaned processes of steps, instead of init, so that this process can find and end them."""
    if sys.platform == "linux":
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def flush_c_streams() -> None:
    """Write what C code has buffered: it belongs to this step, not to the next."""
    _libc.fflush(None)


# --- resources -------------------------------------------------------------------------------------------------


BLOCK = 512  # bytes: the unit in which the kernel counts disk transfers


class Resources(NamedTuple):
    """What this process and its ended children have used so far."""

    cpu_seconds: float
    disk_read: int
    disk_written: int
    own_peak: int
    children_peak: int
    children_pages: int  # grows whenever a child ends

    @classmethod
    def now(cls) -> Resources:
        own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
        return cls(
            own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime,
            (own.ru_inblock + children.ru_inblock) * BLOCK,
            (own.ru_oublock + children.ru_oublock) * BLOCK,
            own.ru_maxrss * 1024,
            children.ru_maxrss * 1024,
            children.ru_minflt,
        )

    def since(self, before: Resources, peak_of_child: int | None = None) -> dict[str, float]:
        """The metrics of a step. `peak_of_child`: of the one program that the step ran, if it was only that. Else the
        peak of children is that of the largest child that this process ever had: an upper bound, unless the process
        is the step's own. It counts only if the step had children."""
        had_children = self.children_pages != before.children_pages
        children = self.children_peak if peak_of_child is None else peak_of_child
        return {
            "cpu_seconds": round(self.cpu_seconds - before.cpu_seconds, 6),
            "max_rss_bytes": float(max(self.own_peak, children) if had_children else self.own_peak),
            "disk_read_bytes": float(self.disk_read - before.disk_read),
            "disk_written_bytes": float(self.disk_written - before.disk_written),
        }


class PeakMemory:
    """Resets the kernel's record of this process's peak memory, for a process that runs many steps."""

    def __init__(self) -> None:
        """Create one for each process: an inherited descriptor would reset the parent."""
        self._descriptor: int | None
        try:
            self._descriptor = os.open("/proc/self/clear_refs", os.O_WRONLY | os.O_CLOEXEC)
        except OSError:  # a kernel without this file: the peak is that of the worker so far
            self._descriptor = None

    def reset(self) -> None:
        if self._descriptor is not None:
            try:
                os.write(self._descriptor, b"5")
            except OSError:  # the kernel does not support it, or a step closed the descriptor
                self._descriptor = None


# --- processes -------------------------------------------------------------------------------------------------


def fork() -> int:
    """`os.fork`, without the warning about threads: the worker has one Python thread, and libraries that start threads
    of their own in C and C++ (such as OpenBLAS) handle forks themselves or are named in `import_late`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def freeze() -> None:
    """Keep what is in memory now out of garbage collections. They would write to it, and copy it in every fork."""
    gc.freeze()


def die_like(status: int) -> None:
    """End this worker as its process for steps ended, so that the host sees a lost step."""
    if status < 0:
        number = -status
        signal.signal(number, signal.SIG_DFL) if number not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), number)
    os._exit(status)


@contextmanager
def opened_pidfd(pid: int) -> Iterator[int]:
    """A descriptor that becomes readable when this process ends."""
    descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def has_strays(spared: Collection[int] = ()) -> bool:
    """Whether this process has a child, ended or not, that is not `spared`. What a step leaves running becomes a child
    of its worker. Leaves exit statuses to their owners."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return not spared or any(child not in spared for child in _children())


def _children() -> list[int]:
    """The children of this process, which has one thread."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:
            return [int(child) for child in file.read().split()]
    except FileNotFoundError:  # a kernel without this file
        return descendants(os.getpid())


def descendants(root: int) -> list[int]:
    """All processes below `root`, in any session or group. Reads /proc; empty if there is none."""
    children: dict[int, list[int]] = {}
    try:
        names = os.listdir("/proc")
    except FileNotFoundError:
        return []
    for name in names:
        if name.isdigit():
            with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:  # it may have ended meanwhile
                parent = int(file.read().rpartition(b")")[2].split()[1])
                children.setdefault(parent, []).append(int(name))
    processes: list[int] = []
    queue = [root]
    while queue:
        below = children.get(queue.pop(), [])
        processes += below
        queue += below
    return processes


def processes_with(variable: bytes) -> list[int]:
    """Processes with exactly this `NAME=value` in their environment, whoever their parent is now."""
    return [pid for pid, environment in environments() if variable in environment]


def environments() -> Iterator[tuple[int, list[bytes]]]:
    """Every process whose environment we may read. That of a zombie is empty."""
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit():
            with (
                suppress(OSError),
                open(f"/proc/{name}/environ", "rb") as file,
            ):  # it has ended, or belongs to another user
                yield int(name), file.read().split(b"\0")


def end_descendants(spared: Collection[int] = ()) -> None:
    """Kill and reap every process that a step left running, except the `spared` children of this process and the
    processes below them."""
    for _ in range(20):  # a process may start another before it dies
        if not has_strays(spared):  # else every process of the machine is looked at
            return
        kept = {*spared, *(below for root in spared for below in descendants(root))} if spared else ()
        strays = [pid for pid in descendants(os.getpid()) if pid not in kept]
        if not strays:
            return
        for pid in strays:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        for pid in strays:
            with suppress(ChildProcessError):  # a grandchild: this process adopts it when its parent is gone
                os.waitpid(pid, 0)


def end_group(group: int, also: list[int]) -> None:
    """Send SIGKILL to a process group, and to the descendants that left it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
    for pid in also:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def end_workers(homes: Iterable[Path]) -> None:
    """Kill the workers, and the processes of their steps, that have one of these folders as their HOME.

    Workers end by themselves when their host is gone, but their files may only be moved when none still writes.
    """
    variables = {b"HOME=" + os.fsencode(os.path.realpath(home)) for home in homes}
    me = os.getpid()  # the caller may itself be a process of such a step, or run below one
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        workers = [pid for pid, environment in environments() if any(_resolved(v) in variables for v in environment)]
        workers = [pid for pid in workers if pid != me]
        if not workers:
            return
        for pid in {*workers, *(below for worker in workers for below in descendants(worker))} - {me}:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_PAUSE)


def _resolved(variable: bytes) -> bytes:
    """HOME with its real path: the earlier run may have named the same folder by another path."""
    name, equals, value = variable.partition(b"=")
    return name + equals + os.path.realpath(value) if name == b"HOME" else variable
