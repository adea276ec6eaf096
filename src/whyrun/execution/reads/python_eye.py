"""The eye in Python: an audit hook notes each path that the process of a step opens or lists.

Audit hooks cannot be removed, so there is one for the life of a process and of its forks. It looks the name of an event
up in a table that is empty while nothing is watched. It must be fast, since `open` in a loop calls it each time, and it
must not raise, since that would fail the `open` itself.

A process that the step forks (`multiprocessing`) has the hook, too; it writes what it sees to a memory file that it
shares with the process of the step. A child that is another program, or a fresh Python, is seen by strace alone.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from whyrun import disk
from whyrun.execution.reads.glimpses import Glimpses
from whyrun.execution.reads.packages import imported_since
from whyrun.execution.reads.trace_request import STARTERS, python_needs

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_CREATES = os.O_CREAT | os.O_EXCL
_IMPORT_SYSTEM = ("<frozen importlib", os.path.dirname(importlib.__file__))  # also `importlib.metadata`
# Other modules, and their functions, that look for installed packages in each folder of `sys.path`.
_LIKE_METADATA = {("importlib_metadata", "children"), ("pkg_resources", "safe_listdir")}
_PROGRAMS = ("subprocess.Popen", "os.posix_spawn", "os.spawn", "os.exec", "os.system")

_Handler = Callable[[tuple[Any, ...]], None]
_handlers: dict[str, _Handler] = {}


def _hook(event: str, args: tuple[Any, ...], look_up: Callable[[str], _Handler | None] = _handlers.get) -> None:
    handler = look_up(event)
    if handler is not None:
        handler(args)


class PythonEye:
    """What this process does with files, from `watch` to `take`. One of a process."""

    def __init__(self) -> None:
        self._seen: tuple[set[Any], ...] = (set(), set(), set(), set(), set())
        self._modules = 0  # that were there before; none: this process has watched nothing
        self._moved = False  # the process has changed its working directory
        self._shared: int | None = None  # memory file in which forks of this process note what they see
        self._ask: Callable[[], None] | None = None
        self._table: dict[str, _Handler] = {}
        self._links = set[str]()

    def open(self) -> None:
        """Get ready, in the process that watches or in one that it is forked from."""
        self._table = self._table or self._handlers()
        if not _installed:
            sys.addaudithook(_hook)
            os.register_at_fork(before=_before_fork, after_in_child=_in_fork)
            _installed.append(True)

    def watch(self, ask: Callable[[], None] | None = None) -> None:
        """Note what happens from here on, in addition to what was noted before. `ask`: called before something happens
        that this eye does not see, such as a child process."""
        self._ask = ask
        self.open()
        self._modules = self._modules or len(sys.modules)
        _eyes[:] = [self]
        _handlers.update(self._table)

    @property
    def has_watched(self) -> bool:
        """In this process, and not only in its forks."""
        return self._modules > 0

    def rest(self) -> None:
        _handlers.clear()
        _eyes.clear()

    def mark(self) -> tuple[int, ...]:
        """Another one once there is more to take."""
        self._read_shared()
        return (*map(len, self._seen), len(sys.modules), len(self._links))

    def take(self) -> Glimpses:
        """Everything noted so far."""
        opened, listed, there, written, updated = (set(_texts(paths)) for paths in self._seen)
        return Glimpses(
            opened, listed, there, written, updated, imported_since(self._modules), set(_texts(self._links))
        )

    def _handlers(self) -> dict[str, _Handler]:
        opened, listed, there, written, updated = self._seen

        def look(path: str) -> bool:
            """Is it there? The event comes before the operation, so that nobody tells whether that succeeds."""
            try:
                if path not in there and os.access(path, os.F_OK):
                    there.add(path)
            except ValueError:
                return False  # the operation itself will report it
            return path in there

        def on_open(args: tuple[Any, ...]) -> None:
            path, _, flags = args
            if path.__class__ is not str or (self._moved and path[:1] != "/"):
                path = self._path(path)
            if not flags & _WRITES:
                opened.add(path)
                look(path)
            elif not (flags & os.O_RDWR) or flags & os.O_TRUNC or flags & _CREATES == _CREATES:
                written.add(path)
            else:  # it reads as well, if there is something to read
                (updated if look(path) else written if flags & os.O_CREAT else opened).add(path)

        def on_list(args: tuple[Any, ...]) -> None:
            # Two frames up, because the hook itself calls this. What imports list does not count.
            caller = sys._getframe(2)
            code = caller.f_code
            finds_packages = (caller.f_globals.get("__name__"), code.co_name) in _LIKE_METADATA
            if not (finds_packages or code.co_filename.startswith(_IMPORT_SYSTEM)):
                listed.add(path := self._path(args[0] if args[0] is not None else "."))
                look(path)

        def on_library(args: tuple[Any, ...]) -> None:
            name = args[0]
            if isinstance(name, str) and "/" in name:
                opened.add(path := self._path(name))
                look(path)

        def on_import(args: tuple[Any, ...]) -> None:
            if args[1] is not None:
                opened.add(path := self._path(args[1]))
                look(path)
            if self._ask is not None and (python_needs(args[1]) if args[1] is not None else args[0] in STARTERS):
                self._ask()

        def on_connect(args: tuple[Any, ...]) -> None:
            updated.add(path := self._path(args[0]))
            look(path)

        def on_program(args: tuple[Any, ...]) -> None:
            if self._ask is not None:
                self._ask()

        def on_chdir(args: tuple[Any, ...]) -> None:
            self._moved = True

        def on_link(args: tuple[Any, ...]) -> None:
            self._links.add(self._path(args[1]))

        return {
            "open": on_open,
            "os.listdir": on_list,
            "os.scandir": on_list,
            "sqlite3.connect": on_connect,
            "ctypes.dlopen": on_library,
            "import": on_import,
            "os.chdir": on_chdir,
            "os.symlink": on_link,
            "os.link": lambda args: written.add(self._path(args[1])),
            "os.rename": lambda args: written.add(self._path(args[1])),
            "os.mkdir": lambda args: written.add(self._path(args[0])),
            **dict.fromkeys(_PROGRAMS, on_program),
            "shutil.copyfile": lambda args: written.add(self._path(args[1])),
        }

    def _path(self, given: Any) -> str:
        """As text, and absolute once the working directory may be another. Empty for what is no path."""
        try:
            if isinstance(given, int):
                return os.readlink(f"/proc/self/fd/{given}")
            path = os.fsdecode(given)
            return os.path.join(os.getcwd(), path) if self._moved and path[:1] != "/" else path
        except (OSError, TypeError, ValueError):
            return ""  # the operation itself will report it

    # --- forks -------------------------------------------------------------------------------------------------------

    def before_fork(self) -> None:
        if self._shared is None:
            with suppress(OSError):
                self._shared = disk.memory_file("whyrun-reads")

    def in_fork(self) -> None:
        """Note in the shared file, at once: a fork often ends without running any code of ours."""
        if self._shared is None:
            return
        self._seen = tuple(_Shared(self._shared, kind) for kind in range(len(self._seen)))
        _handlers.update(self._handlers())

    def _read_shared(self) -> None:
        if self._shared is None:
            return
        size = os.fstat(self._shared).st_size
        for note in os.pread(self._shared, size, 0).split(b"\0")[:-1]:
            self._seen[note[0] - ord("0")].add(os.fsdecode(note[1:]))


class _Shared(set[Any]):
    """A set that also writes each new member to the shared file."""

    def __init__(self, descriptor: int, kind: int) -> None:
        super().__init__()
        self._descriptor, self._start = descriptor, b"%d" % kind

    def add(self, path: Any) -> None:
        if path not in self and isinstance(path, str):
            super().add(path)
            with suppress(OSError, UnicodeError):  # the fork has closed all its descriptors
                os.write(self._descriptor, self._start + os.fsencode(path) + b"\0")


_installed: list[bool] = []
_eyes: list[PythonEye] = []  # the one that watches


def _before_fork() -> None:
    for eye in _eyes:
        eye.before_fork()


def _in_fork() -> None:
    for eye in _eyes:
        eye.in_fork()


def _texts(paths: set[Any]) -> Iterator[str]:
    # A copy: a thread that the step left may add to it.
    return (path for path in paths.copy() if path and "\0" not in path)
