"""Watches one step after the other: in its process `watching` and `glimpsed`, in its worker all else."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from whyrun.execution.protocol.framing import WorkerStart
from whyrun.execution.protocol.messages import StepReads
from whyrun.execution.reads.content import ReadContent
from whyrun.execution.reads.glimpses import Glimpses, Sighted
from whyrun.execution.reads.packages import among_own, packages_of
from whyrun.execution.reads.places import Places
from whyrun.execution.reads.python_eye import PythonEye
from whyrun.execution.reads.strace_eye import StraceEye
from whyrun.execution.reads.trace_request import TraceRequest, any_loaded_needs

_SHARED = "the step runs in the process of its worker, which is not traced"


class Eyes:
    def __init__(self, start: WorkerStart, clock: Callable[[], int]) -> None:
        self._clock = clock
        own = [start.run_dir, start.store, start.sources, start.environments]
        self._places = Places(start.project, start.scratch, filter(None, own))
        self._content = ReadContent(start.project, clock, live=start.live)
        self._python: PythonEye | None = None
        self._strace = StraceEye(Path(start.scratch), start.project)
        self._mark: tuple[int, ...] = ()
        self._glimpsed: list[bytes] = []  # in this process, by all its steps, at this mark
        self._last: tuple[list[bytes], Sighted] = [], Sighted()  # steps that share this process often name no more
        self._began = 0
        self._trace = False
        self._request: TraceRequest | None = None
        self._in_worker = True
        self.launcher: list[str] = []  # what comes before the command of a program

    def begin(self, action: str, trace: bool, folder: Path, *, copy: bool) -> None:
        """A step begins. `trace`: watch all its processes with strace; `folder`: where it works. `copy`: that is a copy
        of the project, which only this step writes to."""
        self._places.work_in(str(folder), copy=copy)
        self._content.copy = str(folder) if copy else None
        self._strace.folder = str(folder)
        self._began, self._trace, self._in_worker = time.time_ns(), trace, True
        self._strace.begin()
        self.launcher = self._strace.launcher() if trace and action == "shell" else []

    def pumps(self) -> dict[int, Callable[[], None]]:
        """The step gets a process of its own: what the worker does when descriptors become readable."""
        self._in_worker = False
        if self._python is None:  # once, not in each process
            self._python = PythonEye()
            self._python.open()
        if not self._trace or self.launcher:
            return {}
        self._request = TraceRequest()
        return self._request.pumps(self._strace.attach)

    # --- in the process of the step -------------------------------------------------------------------------------

    @contextmanager
    def watching(self, action: str) -> Iterator[None]:
        """While the action is imported and runs.

        Steps that share a process share its modules, too: what one has imported, the next has read as well. So this
        process forgets nothing.
        """
        if action == "shell":
            yield
            return
        ask = (self._request.ask if self._request is not None else self._cannot_attach) if self._trace else None
        eye = self._python = self._python or PythonEye()
        eye.watch(ask)
        try:
            if ask is not None and any_loaded_needs():
                ask()
            yield
        finally:
            eye.rest()

    def _cannot_attach(self) -> None:
        self._strace.problem = _SHARED

    def glimpsed(self) -> list[bytes]:
        """After its end: what it named. Its worker, whose memory is not shared any more, finds out what counts."""
        if self._python is None or not self._python.has_watched:
            return []
        mark = self._python.mark()
        if mark != self._mark:
            self._mark, self._glimpsed = mark, self._python.take().packed(self._places.left_out)
        return self._glimpsed

    # --- in the worker --------------------------------------------------------------------------------------------

    def reads(self, glimpsed: list[bytes], named: Iterable[str]) -> StepReads | None:
        """After the end of all its processes. None: nothing was seen. `named`: see `packages_of`."""
        self.end()
        in_python = self._sighted(glimpsed)
        traced = self._places.sighted(self._strace.take()) if self._trace else Sighted()
        packages = packages_of({*in_python.imported, *among_own(traced.imported)}, named)
        if not (in_python or self._trace or packages):
            return None
        began = self._began - (time.time_ns() - self._clock())
        if self._in_worker:
            self._content.stays_read(in_python, began)
        return StepReads(
            self._content.of(in_python, traced, began),
            sorted({*in_python.outside, *traced.outside}),
            traced=self._trace and not self._strace.problem,
            written=self._places.undeclared((in_python, traced), began),
            untraced=self._strace.problem if self._trace else "",
            packages=packages,
        )

    def _sighted(self, glimpsed: list[bytes]) -> Sighted:
        if not glimpsed:
            return Sighted()
        if glimpsed is not self._last[0]:
            self._last = glimpsed, self._places.sighted(Glimpses.unpacked(glimpsed))
        return self._last[1]

    def end(self) -> None:
        """The process of the step is gone, whatever it read."""
        self._strace.end()
        if self._request is not None:
            self._request.close()
            self._request = None
