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
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from types import FrameType
from typing import Any

import whyrun
from whyrun import disk
from whyrun.execution.reads.glimpses import Glimpses
from whyrun.execution.reads.packages import imported_since, modules_since
from whyrun.execution.reads.trace_request import STARTERS, python_needs

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_CREATES = os.O_CREAT | os.O_EXCL
_IMPORT_SYSTEM = ("<frozen importlib", os.path.dirname(importlib.__file__))  # also `importlib.metadata`
_HOME = os.path.dirname(os.__file__)  # modules by their path, so that a process of a step need not import them
# Who opens a module to run it, or to find an action in it.
_LOADERS = (
    *_IMPORT_SYSTEM,
    "<frozen runpy>",
    "<frozen zipimport>",
    f"{_HOME}/runpy.py",
    os.path.dirname(whyrun.__file__),
)
# They open a module to show a line of it, as a traceback or a warning does, which decides no result.
_SHOWS_LINES = (f"{_HOME}/traceback.py", f"{_HOME}/warnings.py")
_OPENS_LINES = f"{_HOME}/tokenize.py"
_READS_LINES = (_OPENS_LINES, f"{_HOME}/linecache.py")
# Other modules, and their functions, that look for installed packages in each folder of `sys.path`.
_LIKE_METADATA = {("importlib_metadata", "children"), ("pkg_resources", "safe_listdir")}
_LIBRARY = (f"{_HOME}/", "<frozen")
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
        self._seen: tuple[set[Any], ...] = (set(), set(), set(), set(), set(), set())
        self._modules = 0  # that were there before; none: this process has watched nothing
        self._path_before: Sequence[str] = ()  # `sys.path` then
        self._sought: dict[str, tuple[str, ...]] = {}  # module that the step's code imports → `sys.path` as it did so
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
        self._path_before = self._path_before or (*sys.path,)
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
        opened, listed, there, written, updated, texts = (set(_texts(paths)) for paths in self._seen)
        opened |= {*would_go_first(self._sought, self._path_before, self._modules)} - there
        packages = imported_since(self._modules)
        return Glimpses(opened, listed, there, written, updated, texts, packages, set(_texts(self._links)))

    def _handlers(self) -> dict[str, _Handler]:
        opened, listed, there, written, updated, texts = self._seen

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
                if path[-3:] == ".py" and path not in texts and _reads_text(sys._getframe(2)):
                    texts.add(path)
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
            elif "." not in args[0] and args[0] not in self._sought and _is_of_step(sys._getframe(2)):
                self._sought[args[0]] = (*args[2],)
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


def _reads_text(frame: FrameType | None) -> bool:
    """Whether a Python file is opened by code that may use its text. Its canonical form does not stand for that."""
    if frame is not None and frame.f_code.co_filename == _OPENS_LINES:
        while frame is not None and frame.f_code.co_filename in _READS_LINES:
            frame = frame.f_back
        return frame is None or frame.f_code.co_filename not in _SHOWS_LINES
    return frame is None or not frame.f_code.co_filename.startswith(_LOADERS)


def _is_of_step(frame: FrameType | None) -> bool:
    """Whether the code that imports something is the step's own, not that of an installed package."""
    while frame is not None and frame.f_code.co_filename.startswith(_LOADERS):
        frame = frame.f_back
    return frame is not None and not _is_installed(frame.f_code.co_filename)


def _is_installed(file: str) -> bool:
    return "-packages/" in file or file.startswith(_LIBRARY)


def would_go_first(sought: dict[str, tuple[str, ...]], path_before: Sequence[str], modules: int) -> Iterator[str]:
    """The files that Python would import in place of those that it found, if they were there; where it found none, all
    that it looked for. `modules`: how many there were before.

    In folders of `path_before` this is known from import statements, and left to the host.
    """
    path_now = (*sys.path,)
    new = modules_since(modules)
    for name in new:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file is not None and not _is_installed(file):
            yield from _beside(file, name)
    for name, path in {**dict.fromkeys((name for name in new if "." not in name), path_now), **sought}.items():
        file = getattr(sys.modules.get(name), "__file__", None)
        folder, _, last = file.rpartition("/") if file else ("", "", "")
        found_in = os.path.dirname(folder) if last == "__init__.py" else folder
        if file is None and (name in sys.modules or name not in sought):
            continue  # built in, or a folder without a module
        if file is not None and name not in sought and _is_installed(file):
            continue  # what packages import from each other
        if file is not None and (found_in not in path or last not in (f"{name}.py", "__init__.py")):
            continue  # loaded by its path, or in another way of its own
        for entry in path:
            if file is not None and entry == found_in:
                break
            if found_in not in path_before or entry not in path_before:
                yield from (f"{entry}/{name}.py", f"{entry}/{name}/__init__.py")


def _beside(file: str, name: str) -> Iterator[str]:
    """For the module `a.b` in `a/b.py`: `a/b/__init__.py`; and for a folder `a` without modules of its own,
    `a/__init__.py` and `a.py`."""
    folder, _, last = file.rpartition("/")
    parent, _, own = name.rpartition(".")
    if last == f"{own}.py":
        yield f"{file[:-3]}/__init__.py"
    elif last == "__init__.py":
        folder = os.path.dirname(folder)
    else:
        return
    while parent:
        if getattr(sys.modules.get(parent), "__file__", None) is None:
            yield from (f"{folder}/__init__.py", f"{folder}.py")
        folder, parent = os.path.dirname(folder), parent.rpartition(".")[0]


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
