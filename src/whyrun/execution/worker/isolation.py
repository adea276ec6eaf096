"""What one step may change in its worker, and how it is put back for the next one. And how processes are ended."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any, NamedTuple

_PR_SET_CHILD_SUBREAPER = 36
_HANDLED = sorted(s for s in signal.valid_signals() if s not in (signal.SIGKILL, signal.SIGSTOP))
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)

# The C function: the one of `signal` builds an enum member each time, 64 times a step.
_getsignal: Callable[[int], Any] = import_module("_signal").getsignal
_sigmask: Callable[[int, Iterable[int]], set[int]] = import_module("_signal").pthread_sigmask
_setlocale: Callable[[int, str | None], str] = import_module("_locale").setlocale
_LC_ALL: int = import_module("_locale").LC_ALL
_LIMITS = tuple(sorted({getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")}))
_libc = ctypes.CDLL(None, use_errno=True)


def become_worker() -> None:
    """Orphans of a step come to this process instead of to init, so that it can find and end them."""
    if sys.platform == "linux":
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def flush_c_streams() -> None:
    """What C code has printed but not written yet belongs to this step, not to the next."""
    _libc.fflush(None)


class _Watch:
    """Notices calls of a function, such as `signal.signal`: comparing 64 handlers after every step would cost a tenth
    of a short one."""

    def __init__(self, module: Any, name: str) -> None:
        self.touched = False
        self.real = getattr(module, name)

        def noticed(*arguments: Any, **named: Any) -> Any:
            self.touched = True
            return self.real(*arguments, **named)

        setattr(module, name, noticed)


class Baseline:
    """The state that every step of a worker begins with."""

    def __init__(self, work_dir: str) -> None:
        self._work_dir = work_dir
        self._mapping = os.environ
        # Comparing what lies under the mapping saves decoding every variable for every step.
        self._raw_environ = dict(os.environ._data)  # type: ignore[attr-defined]
        self._environ = dict(os.environ)
        self._argv = list(sys.argv)
        self._path = list(sys.path)
        self._handlers = [(int(number), _getsignal(number)) for number in _HANDLED]
        self._signals = _Watch(signal, "signal")
        self._limits = {number: resource.getrlimit(number) for number in _LIMITS}
        self._limiting = _Watch(resource, "setrlimit")
        self._lowered = False  # a limit, for good
        self.path_changed = False  # where modules are looked for, by the last step
        self._locale = _setlocale(_LC_ALL, None)
        self._threads = threading.active_count()
        self._mask = _sigmask(signal.SIG_BLOCK, ())
        self._umask = os.umask(0o022)
        os.umask(self._umask)
        self._recursion = sys.getrecursionlimit()

    def restore(self) -> None:
        os.chdir(self._work_dir)
        os.umask(self._umask)
        os.environ = self._mapping  # noqa: B003 - the very same mapping, in case a step put another in its place
        if os.environ._data != self._raw_environ:  # type: ignore[attr-defined]
            os.environ.clear()
            os.environ.update(self._environ)
        if sys.argv != self._argv:
            sys.argv = list(self._argv)
        self.path_changed = sys.path != self._path
        if self.path_changed:
            sys.path[:] = self._path
        if sys.getrecursionlimit() != self._recursion:
            sys.setrecursionlimit(self._recursion)
        for timer in _TIMERS:
            if signal.getitimer(timer) != (0.0, 0.0):
                signal.setitimer(timer, 0)
        if self._signals.touched:
            for number, handler in self._handlers:
                if _getsignal(number) is not handler and handler is not None:
                    signal.signal(number, handler)
            self._signals.touched = False
        if _sigmask(signal.SIG_BLOCK, ()) != self._mask:
            _sigmask(signal.SIG_SETMASK, self._mask)
        if self._limiting.touched:
            for number, limit in self._limits.items():
                try:
                    self._limiting.real(number, limit)
                except (ValueError, OSError):
                    self._lowered = True
            self._limiting.touched = False
        if _setlocale(_LC_ALL, None) != self._locale:
            _setlocale(_LC_ALL, self._locale)
        # Only what a step has imported: seeding alone is a twentieth of what a short one costs.
        socket: Any = sys.modules.get("socket")
        if socket is not None and socket.getdefaulttimeout() is not None:
            socket.setdefaulttimeout(None)
        tempfile: Any = sys.modules.get("tempfile")
        if tempfile is not None:
            tempfile.tempdir = None
        random: Any = sys.modules.get("random")
        if random is not None:
            random.seed(int.from_bytes(os.urandom(8), "big"))  # a third of the cost of `seed()`, and as fresh
        numpy_random: Any = sys.modules.get("numpy.random")
        if numpy_random is not None:
            numpy_random.seed()

    def is_lost(self) -> bool:
        """Whether a step left something behind that cannot be put back: a thread, which may still write where the next
        step works, or a limit that cannot be raised again. Then the next one gets another process."""
        return self._lowered or threading.active_count() > self._threads


# --- resources ---------------------------------------------------------------------------------------------------


BLOCK = 512  # bytes: the unit in which the kernel counts what went to and from a disk


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

    def since(self, before: Resources) -> dict[str, float]:
        """As metrics of a step. The peak of children is that of the largest one the worker ever had: an upper bound,
        which counts only where the step had children at all."""
        had_children = self.children_pages != before.children_pages
        return {
            "cpu_seconds": round(self.cpu_seconds - before.cpu_seconds, 6),
            "max_rss_bytes": float(max(self.own_peak, self.children_peak) if had_children else self.own_peak),
            "disk_read_bytes": float(self.disk_read - before.disk_read),
            "disk_written_bytes": float(self.disk_written - before.disk_written),
        }


class PeakMemory:
    """The highest memory of this process, counted from where `forget` was called last: a worker runs many steps."""

    def __init__(self) -> None:
        """In each process anew: the file is that of the process which opened it, whoever inherits it."""
        self._descriptor: int | None
        try:
            self._descriptor = os.open("/proc/self/clear_refs", os.O_WRONLY | os.O_CLOEXEC)
        except OSError:  # a kernel without it: then the peak is that of the worker so far
            self._descriptor = None

    def forget(self) -> None:
        if self._descriptor is not None:
            try:
                os.write(self._descriptor, b"5")
            except OSError:  # one that does not know this use of it; or a step closed it
                self._descriptor = None


# --- processes ---------------------------------------------------------------------------------------------------


def has_children() -> bool:
    """Whether there is any child, ended or not; cheap, and takes no exit status away from its owner."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def descendants(root: int) -> list[int]:
    """Every process below `root`, whatever its session or group. Reads /proc; none where there is no /proc."""
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
    found: list[int] = []
    queue = [root]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def processes_with(variable: bytes) -> list[int]:
    """Processes that have exactly this `NAME=value` in their environment: a step's, whoever adopted them."""
    return [pid for pid, environment in environments() if variable in environment]


def environments() -> Iterator[tuple[int, list[bytes]]]:
    """Every process that we may look at, with its environment; a dead one that nobody has waited for has none."""
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit():
            with suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:  # ended meanwhile, or another user's
                yield int(name), file.read().split(b"\0")


def end_descendants(spared: frozenset[int] = frozenset()) -> None:
    """End every process that a step left behind (and reap it), except those that were there before it."""
    for _ in range(20):  # a process may start another while it is being ended
        strays = [pid for pid in descendants(os.getpid()) if pid not in spared]
        if not strays:
            return
        for pid in strays:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        for pid in strays:
            with suppress(ChildProcessError):  # a grandchild; it comes to us when its parent is gone
                os.waitpid(pid, 0)


def end_group(group: int, also: list[int]) -> None:
    """SIGKILL for a whole process group and for descendants that left it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
    for pid in also:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
