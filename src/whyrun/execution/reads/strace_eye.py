"""The eye outside Python: strace, around a program that a step starts, or attached to the process of a step.

A program is traced from its start, which with `--seccomp-bpf` costs only the calls that name files. strace runs beside
it (`-D`), so the program is still the child of whoever started it. A process of Python that already runs can only be
attached to, which slows down each of its system calls: see `trace_request.py`.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from whyrun.execution.reads.glimpses import Glimpses
from whyrun.execution.reads.packages import imported_among
from whyrun.execution.reads.strace_lines import CALLS, Trace
from whyrun.execution.reads.trace_request import PATIENCE

if TYPE_CHECKING:
    import subprocess

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
