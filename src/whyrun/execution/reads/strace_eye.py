"""The eye outside Python: strace, around a program that a step starts, or attached to the process of a step.

A program is traced from its start, which with `--seccomp-bpf` costs only the calls that name files. strace runs beside
it (`-D`), so the program is still the child of whoever started it. A process of Python that already runs can only be
attached to, which slows down each of its system calls: see `trace_request.py`.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from whyrun.execution.reads.glimpses import Glimpses
from whyrun.execution.reads.packages import imported_among
from whyrun.execution.reads.trace_request import PATIENCE
from whyrun.lazy_regex import lazy_regex

if TYPE_CHECKING:
    import subprocess

# --- reads what strace wrote: which paths the processes of a step opened, listed, executed or looked for --------------
# Lines of several processes are interleaved: a call that another process interrupts stands in two lines. The form is
# that of `strace -f -y`: descriptors, the working folder too, are followed by their path in `<>`.
#
# Python lists each folder of its path before it imports from there, and again when the folder has changed; and once
# more to look for installed packages (`importlib.metadata`, `importlib_metadata`). That does not count: it comes right
# after a `stat` of the folder, once for each time that this tells, and the program opened a module there.


_LINE = lazy_regex(r"(\d+) +(\w+)\((.*)\) += (-?\d+|\?)(?:<((?:[^>\\]|\\.)*)>)?(?: (E[A-Z0-9]+))?")
_BEGUN = lazy_regex(r"(\d+) +(\w+\(.*) <unfinished \.\.\.>$")
_RESUMED = lazy_regex(r"(\d+) +<\.\.\. \w+ resumed>(.*)$")
_AT = lazy_regex(r'(?:AT_FDCWD|\d+)(?:<((?:[^>\\]|\\.)*)>)?, "((?:[^"\\]|\\.)*)"')
_TEXT = lazy_regex(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE = lazy_regex(rb"\\([0-7]{1,3}|x[0-9a-f]{2}|.)")
_NAMED = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"v": b"\v", b"f": b"\f"}
_WRITES = lazy_regex(r"O_(?:WRONLY|RDWR|CREAT|TRUNC)")
_UPDATES = lazy_regex(r"^(?!.*(?:O_TRUNC|O_EXCL)).*O_RDWR")
_DESCRIPTOR = lazy_regex(r"\d+<((?:[^>\\]|\\.)*)>(?:$|,)")
_CHANGED = lazy_regex(r"stx?_mtime=.*?_nsec=\d+|stx_mtime=\{[^}]*\}")
_METADATA = lazy_regex(r"/importlib[/_]metadata(?=/|$)")
_PYTHON = lazy_regex(r"(?:^|/)python[0-9.]*$")

_FORKS = ("clone", "clone3", "fork", "vfork")
_OPENS = ("open", "openat", "openat2", "creat")
_LOOKS = (
    "stat", "lstat", "newfstatat", "statx", "access", "faccessat", "faccessat2", "readlink", "readlinkat",
)  # fmt: skip
_NAMES = ("rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat", "mkdir", "mkdirat")
_STARTS, _MOVES, _LISTS = ("execve", "execveat"), ("chdir", "fchdir"), ("getdents", "getdents64")
CALLS = (*_FORKS, *_OPENS, *_LOOKS, *_NAMES, *_STARTS, *_MOVES, *_LISTS)


_Look = tuple[str, str]


@dataclass(slots=True)
class _Program:
    """What one executed program and its forks did with folders."""

    is_python: bool = False
    # Folder, and when it had been changed as Python was told → how often it was listed then.
    listed: Counter[tuple[str, str]] = field(default_factory=Counter)
    has_hook: bool = False  # it runs Python already, and the audit hook sees which folders that lists
    metadata: set[str] = field(default_factory=set)  # what it uses to look for installed packages
    modules: set[str] = field(default_factory=set)  # folders of the Python files that it opened

    def listed_by_itself(self) -> Iterator[str]:
        """The folders that it listed for another reason than to import from there."""
        for (folder, _), times in self.listed.items():
            if folder not in self.modules or (times > 1 + len(self.metadata) and not self.has_hook):
                yield folder


@dataclass(slots=True)
class _Process:
    folder: str
    program: _Program
    looked_at: _Look = ("", "")  # what its last call asked about, and when that had been changed
    # Opened and not listed yet, by real path: as the step named it, and what a `stat` right before told.
    open_folders: dict[str, tuple[str, str]] = field(default_factory=dict)


class _Call(NamedTuple):
    pid: int
    name: str
    arguments: str
    result: str  # a number, or `?`
    path: str | None  # of the descriptor that it returned
    problem: str | None  # ENOENT

    @property
    def found_nothing(self) -> bool:
        return self.problem in ("ENOENT", "ENOTDIR")


class Trace:
    """The processes of one step. `folder`: the working folder of the first. `imports_from`: the folders of its
    `sys.path`, if it runs Python already."""

    def __init__(self, folder: str, project: str, imports_from: Iterable[str] | None = None) -> None:
        self.seen = Glimpses()
        self._folder, self._root = folder, project.rstrip("/")
        self._processes: dict[int, _Process] = {}
        has_hook = imports_from is not None
        self._first = _Program(has_hook, modules={*(imports_from or ())}, has_hook=has_hook)
        self._programs = [self._first]
        self._parents: dict[int, int] = {}
        self._acts: dict[str, Callable[[_Process, _Call, _Look], None]] = {
            **dict.fromkeys(_OPENS, self._open),
            **dict.fromkeys(_LOOKS, self._look),
            **dict.fromkeys(_NAMES, self._name),
            **dict.fromkeys(_STARTS, self._execute),
            **dict.fromkeys(_LISTS, self._list),
            **dict.fromkeys(_MOVES, self._change_folder),
        }

    def read(self, lines: Callable[[], Iterable[str]]) -> Glimpses:
        """`lines`: called twice, since a child may appear in the trace before its parent's call returns."""
        for call in _calls(lines()):
            if call.name in _FORKS and call.result.isdigit():
                self._parents[int(call.result)] = call.pid
        for call in _calls(lines()):
            act = self._acts.get(call.name)
            if act is not None:
                process = self._process(call.pid)
                looked_at, process.looked_at = process.looked_at, ("", "")
                act(process, call, looked_at)
        for program in self._programs:
            self.seen.listed.update(program.listed_by_itself())
        self.seen.there |= self.seen.listed
        return self.seen

    def _process(self, pid: int) -> _Process:
        if pid not in self._processes:
            parent = self._processes.get(self._parents.get(pid, -1))
            if parent is None:
                self._processes[pid] = _Process(self._folder, self._first)
            else:
                self._processes[pid] = _Process(parent.folder, parent.program)
        return self._processes[pid]

    def _new_program(self) -> _Program:
        self._programs.append(_Program())
        return self._programs[-1]

    # --- calls -------------------------------------------------------------------------------------------------------

    def _open(self, process: _Process, call: _Call, looked_at: _Look) -> None:
        named = self._path(process, call.arguments)
        if named is None:
            return
        if call.found_nothing:
            self.seen.opened.add(named)
        elif call.path is not None and (real := _text(call.path)).startswith("/"):
            path = named if named.startswith(f"{self._root}/") else real  # a file may have a name in the project too
            if call.name == "creat" or _WRITES.search(call.arguments):
                if _UPDATES.search(call.arguments):
                    self.seen.updated.add(path)
                    self.seen.there.add(path)
                else:
                    self.seen.written.update((named, path))
            elif "O_DIRECTORY" in call.arguments or os.path.isdir(path):
                process.open_folders[real] = path, looked_at[1] if looked_at[0] == named else ""
            else:
                self.seen.opened.add(path)
                self.seen.there.add(path)
                _note_module(process.program, path)

    def _look(self, process: _Process, call: _Call, looked_at: _Look) -> None:
        named = self._path(process, call.arguments)
        if named is not None and call.found_nothing:
            self.seen.opened.add(named)
        elif named is not None and call.result == "0":
            changed = _CHANGED.search(call.arguments)
            process.looked_at = named, changed[0] if changed is not None else ""

    def _list(self, process: _Process, call: _Call, looked_at: _Look) -> None:
        descriptor = _DESCRIPTOR.match(call.arguments)
        opened = process.open_folders.pop(_text(descriptor[1]), None) if descriptor is not None else None
        if opened is None:
            return  # the rest of a long list
        folder, changed = opened
        program = process.program
        if program.is_python and changed:
            program.listed[folder, changed] += 1
        else:
            self.seen.listed.add(folder)

    def _execute(self, process: _Process, call: _Call, looked_at: _Look) -> None:
        named = self._path(process, call.arguments)
        if named is not None and (call.found_nothing or call.result == "0"):
            self.seen.opened.add(named)
        if named is not None and call.result == "0":
            self.seen.there.add(named)
            process.program = self._new_program()
            process.program.is_python = bool(_PYTHON.search(named) or _PYTHON.search(os.path.realpath(named)))
            process.program.modules.add(process.folder)  # `python -c` and `python -m` import from there

    def _name(self, process: _Process, call: _Call, looked_at: _Look) -> None:
        """A new name for a file: what the step wrote, under another name."""
        named = self._path(process, call.arguments, last=True)
        if named is not None and call.result == "0":
            self.seen.written.add(named)

    def _change_folder(self, process: _Process, call: _Call, looked_at: _Look) -> None:
        if call.result != "0":
            return
        descriptor = _DESCRIPTOR.match(call.arguments)
        path = _text(descriptor[1]) if descriptor else self._path(process, call.arguments)
        process.folder = path or process.folder

    # --- paths -------------------------------------------------------------------------------------------------------

    def _path(self, process: _Process, arguments: str, last: bool = False) -> str | None:
        """The path among the arguments, absolute, as the process named it; None if there is none."""
        found = list(_AT.finditer(arguments)) if last else [_AT.match(arguments)]
        if found and found[-1] is not None:
            base, given = found[-1].groups()
            folder = _text(base) if base else process.folder
        else:
            texts = list(_TEXT.finditer(arguments))
            if not texts:
                return None
            given, folder = texts[-1 if last else 0][1], process.folder
        path = _text(given)
        return os.path.normpath(os.path.join(folder, path)) if path else None


def _note_module(program: _Program, path: str) -> None:
    """A folder from which Python imports: of a module, and the one above that of a package."""
    if path.endswith((".py", ".pyc")):
        folder, _, name = path.replace("/__pycache__/", "/").rpartition("/")
        program.modules.add(folder)
        program.metadata.update(_METADATA.findall(folder))
        if name.startswith("__init__."):
            program.modules.add(os.path.dirname(folder))


def _calls(lines: Iterable[str]) -> Iterator[_Call]:
    begun: dict[str, str] = {}
    for line in lines:
        if line.endswith("<unfinished ...>\n") and (start := _BEGUN.match(line)):
            begun[start[1]] = start[2]
            continue
        if "<... " in line and (rest := _RESUMED.match(line)) and rest[1] in begun:
            line = f"{rest[1]} {begun.pop(rest[1])}{rest[2]}"
        found = _LINE.match(line)
        if found is not None:
            pid, call, arguments, result, path, problem = found.groups()
            yield _Call(int(pid), call, arguments, result, path, problem)


def _text(written: str) -> str:
    """What strace wrote, with its escapes resolved."""
    if "\\" not in written:
        return written
    return os.fsdecode(_ESCAPE.sub(lambda found: _byte(found[1]), os.fsencode(written)))


def _byte(escape: bytes) -> bytes:
    if escape.isdigit():
        return bytes([int(escape, 8) & 0xFF])
    if escape[:1] == b"x" and len(escape) == 3:
        return bytes([int(escape[1:], 16)])
    return _NAMED.get(escape, escape)


# --- running strace ---------------------------------------------------------------------------------------------------


NOT_INSTALLED = "strace is not installed"

# Strings other than paths are left out (`-s 0`): an argument may be a secret. `-I 4`: what ends the step must not end
# strace first, since the calls of a program that has lost it fail.
_TRACED = ",".join(f"?{call}" for call in CALLS)
_OPTIONS = [
    "-f", "-qq", "-y", "-s", "0", "-I", "4",
    "-e", "signal=none", "-e", "abbrev=?execve,?execveat", "-e", f"trace={_TRACED}",
]  # fmt: skip
_FROM_THE_START = ["-D", "--seccomp-bpf"]


class StraceEye:
    """Of one worker."""

    def __init__(self, scratch: Path, project: str) -> None:
        self._scratch, self._project = scratch, project
        self.folder = str(scratch / "work")  # of the present step
        self._why_not: str | None = None
        self._files: list[tuple[Path, bool]] = []  # and whether it is of a process that runs Python already
        self._attached: list[subprocess.Popen[bytes]] = []
        self.problem = ""  # why the present step is not traced

    def begin(self) -> None:
        self._files, self._attached, self.problem = [], [], ""

    def why_not(self) -> str:
        """Why no process can be traced here; empty if that is possible. Tried once."""
        if self._why_not is None:
            self._why_not = _tried(self._scratch)
        return self._why_not or ""

    def launcher(self) -> list[str]:
        """What comes before the command of a program that is to be traced; nothing if that is impossible."""
        self.problem = self.why_not()
        return (
            [] if self.problem else ["strace", *_FROM_THE_START, *_OPTIONS, "-o", str(self._file(attached=False)), "--"]
        )

    def attach(self, pid: int) -> None:
        """Trace a running process from here on. Returns when it is traced, or cannot be."""
        self.problem = self.problem or self.why_not()
        if self.problem:
            return
        import subprocess  # only for steps that are traced

        tracer = subprocess.Popen(
            ["strace", *_OPTIONS, "-o", str(self._file(attached=True)), "-p", str(pid)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        self._attached.append(tracer)
        deadline = time.monotonic() + PATIENCE
        while not _is_traced(pid):
            if tracer.poll() is not None or time.monotonic() > deadline:
                self.problem = "strace could not attach to the step: permission denied"
                return
            time.sleep(0.001)

    def end(self) -> None:
        """All processes of the step have ended, or soon will."""
        for tracer in self._attached:
            from subprocess import TimeoutExpired

            with suppress(TimeoutExpired):
                tracer.wait(PATIENCE)
            tracer.kill()
            tracer.communicate()
        self._attached = []

    def take(self) -> Glimpses:
        """What was seen."""
        self.end()
        seen = Glimpses()
        for file, attached in self._files:
            trace = Trace(self.folder, self._project, sys.path if attached else None)
            traced = trace.read(partial(_lines, file))
            seen.opened |= traced.opened
            seen.listed |= traced.listed
            seen.there |= traced.there
            seen.written |= traced.written
            seen.updated |= traced.updated
        seen.imported = imported_among(seen.opened)
        for file, _ in self._files:
            with suppress(OSError):
                file.unlink()
        self._files = []
        return seen

    def _file(self, *, attached: bool) -> Path:
        path = self._scratch / f"trace-{len(self._files)}"
        self._files.append((path, attached))
        return path


def _lines(path: Path) -> Iterator[str]:
    with suppress(FileNotFoundError), open(path, encoding="utf-8", errors="surrogateescape", newline="\n") as file:
        yield from file


def _tried(folder: Path) -> str | None:
    """None: the trial was stopped, as Ctrl-C stops all that the worker started, and tells nothing."""
    import shutil
    import subprocess

    if shutil.which("strace") is None:
        return NOT_INSTALLED
    trace = folder / "trace-tried"
    command = ["strace", *_FROM_THE_START, *_OPTIONS, "-o", str(trace), "--", "true"]
    tried = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    traced = any("execve" in line for line in _lines(trace))  # the program runs even if strace cannot attach to it
    with suppress(OSError):
        trace.unlink()
    if tried.returncode in (-signal.SIGTERM, -signal.SIGINT):
        return None
    if traced and tried.returncode == 0 and not tried.stderr:
        return ""
    said = tried.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit status {tried.returncode}"]
    return f"strace does not work here: {said[-1].removeprefix('strace: ')}"


def _is_traced(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            return b"TracerPid:\t0\n" not in file.read()
    except OSError:
        return False
