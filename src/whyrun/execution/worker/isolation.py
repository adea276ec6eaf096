"""Isolates the steps of one worker from each other: restores the process's state, keeps project modules apart,
measures resources, and ends processes.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from whyrun.actions.builtin import BUILTIN
from whyrun.actions.code.source_loader import remove_project_modules, restore_project_modules
from whyrun.errors import WhyrunError

_PR_SET_CHILD_SUBREAPER = 36
_PATIENCE = 5.0  # seconds for killed processes to be gone
_PAUSE = 0.005
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
    """Adopt orphaned processes of steps, instead of init, so that this process can find and end them."""
    if sys.platform == "linux":
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def flush_c_streams() -> None:
    """Write what C code has buffered: it belongs to this step, not to the next."""
    _libc.fflush(None)


class _CallDetector:
    """Replaces a function such as `signal.signal` to notice its calls: comparing 64 handlers after every step would
    cost a tenth of a short one."""

    def __init__(self, module: Any, name: str) -> None:
        self.called = False
        self.real = getattr(module, name)

        def wrapper(*arguments: Any, **named: Any) -> Any:
            self.called = True
            return self.real(*arguments, **named)

        setattr(module, name, wrapper)


class Baseline:
    """The process state that every step of a worker begins with."""

    def __init__(self, work_dir: str) -> None:
        self._work_dir = work_dir
        self._mapping = os.environ
        # Comparing the encoded variables saves decoding all of them for every step.
        self._raw_environ = dict(os.environ._data)  # type: ignore[attr-defined]
        self._environ = dict(os.environ)
        self._argv = list(sys.argv)
        self._path = list(sys.path)
        self._handlers = [(int(number), _getsignal(number)) for number in _HANDLED]
        self._signals = _CallDetector(signal, "signal")
        self._limits = {number: resource.getrlimit(number) for number in _LIMITS}
        self._limiting = _CallDetector(resource, "setrlimit")
        self._lowered = False  # a step lowered a limit that cannot be raised again
        self.path_changed = False  # the last step changed `sys.path`
        self._locale = _setlocale(_LC_ALL, None)
        self._threads = threading.active_count()
        self._mask = _sigmask(signal.SIG_BLOCK, ())
        self._umask = os.umask(0o022)
        os.umask(self._umask)
        self._recursion = sys.getrecursionlimit()

    def restore(self) -> None:
        os.chdir(self._work_dir)
        os.umask(self._umask)
        os.environ = self._mapping  # noqa: B003 - the same object, in case a step replaced it
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
        if self._signals.called:
            for number, handler in self._handlers:
                if _getsignal(number) is not handler and handler is not None:
                    signal.signal(number, handler)
            self._signals.called = False
        if _sigmask(signal.SIG_BLOCK, ()) != self._mask:
            _sigmask(signal.SIG_SETMASK, self._mask)
        if self._limiting.called:
            for number, limit in self._limits.items():
                try:
                    self._limiting.real(number, limit)
                except (ValueError, OSError):
                    self._lowered = True
            self._limiting.called = False
        if _setlocale(_LC_ALL, None) != self._locale:
            _setlocale(_LC_ALL, self._locale)
        # Only modules that a step has imported: seeding alone costs a twentieth of a short step.
        socket: Any = sys.modules.get("socket")
        if socket is not None and socket.getdefaulttimeout() is not None:
            socket.setdefaulttimeout(None)
        tempfile: Any = sys.modules.get("tempfile")
        if tempfile is not None:
            tempfile.tempdir = None
        random: Any = sys.modules.get("random")
        if random is not None:
            random.seed(int.from_bytes(os.urandom(8), "big"))  # a third of the cost of `seed()`
        numpy_random: Any = sys.modules.get("numpy.random")
        if numpy_random is not None:
            numpy_random.seed()

    def is_lost(self) -> bool:
        """Whether the state cannot be restored: a step left a thread running, which may write where the next step
        works, or lowered a limit. Then the next step needs another process."""
        return self._lowered or threading.active_count() > self._threads


# --- project modules -------------------------------------------------------------------------------------------

Entry = tuple[str, str]  # action, and for `python` the `call` or `script`


class ImportedCode:
    """Which modules of the project are imported while a step runs.

    Modules stay imported from step to step, which makes a worker fast. But where the code of one step changes the
    import path, `util` may be another file for it than for the next step. So each entry with such code gets its own
    set of modules, and all other entries share one. (A step with its own environment runs in a process in which
    nothing of the project is imported, because a module may read the environment on import.)
    """

    def __init__(self, project: Path) -> None:
        self._project = project
        self._last: tuple[Entry, Mapping[str, Any]] | None = None  # whose modules are imported now
        self._moves: dict[Entry, bool] = {}  # whether its code changes the import path
        self._put_aside: dict[Entry | None, dict[str, ModuleType]] = {}  # None: of the entries that share one set

    def __bool__(self) -> bool:
        return self._last is not None

    def enter(self, uses: str, with_: Mapping[str, Any]) -> None:
        """A step with this action is about to run in this process."""
        entry = _entry(uses, with_)
        if entry is None or (self._last is not None and self._last[0] == entry):
            return
        if self._last is not None:
            own, current = self._owner(entry, with_), self._owner(*self._last)
            if own != current:
                self._put_aside[current] = remove_project_modules()
                restore_project_modules(self._put_aside.pop(own, {}))
        self._last = entry, with_

    def path_changed(self) -> None:
        """The last step changed `sys.path`, whatever its source says."""
        if self._last is not None:
            self._moves[self._last[0]] = True

    def _owner(self, entry: Entry, with_: Mapping[str, Any]) -> Entry | None:
        if entry not in self._moves:
            self._moves[entry] = self._changes_sys_path(entry[0], with_)
        return entry if self._moves[entry] else None

    def _changes_sys_path(self, uses: str, with_: Mapping[str, Any]) -> bool:
        from whyrun.actions.code.imports import project_code  # only where steps of several kinds meet in one worker
        from whyrun.actions.registry.load import project_entry

        try:
            entry = project_entry(uses, with_, self._project)
        except WhyrunError:
            return True  # unknown; the step itself will report the error
        if entry is None:
            return False
        code = project_code(self._project, entry[0], imported=entry[1])
        return code.changes_sys_path or bool(code.problems)


def _entry(uses: str, with_: Mapping[str, Any]) -> Entry | None:
    """None: the action has no code in the project."""
    if uses == "python":
        return uses, str(with_.get("call", with_.get("script")))
    return None if uses in BUILTIN else (uses, "")


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

    def since(self, before: Resources) -> dict[str, float]:
        """The metrics of a step. The peak of children is that of the largest child that the worker ever had: an upper
        bound, which counts only if the step had children."""
        had_children = self.children_pages != before.children_pages
        return {
            "cpu_seconds": round(self.cpu_seconds - before.cpu_seconds, 6),
            "max_rss_bytes": float(max(self.own_peak, self.children_peak) if had_children else self.own_peak),
            "disk_read_bytes": float(self.disk_read - before.disk_read),
            "disk_written_bytes": float(self.disk_written - before.disk_written),
        }


class PeakMemory:
    """Resets the kernel's record of this process's peak memory, because a worker runs many steps."""

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


def has_children() -> bool:
    """Whether this process has a child, ended or not. Cheap, and leaves exit statuses to their owners."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


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


def end_descendants(spared: frozenset[int] = frozenset()) -> None:
    """Kill and reap every process that a step left running, except the `spared` ones from before the step."""
    for _ in range(20):  # a process may start another before it dies
        strays = [pid for pid in descendants(os.getpid()) if pid not in spared]
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
