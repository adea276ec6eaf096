"""Watches one step after the other: in its process `watching` and `sighted`, in its worker `reads`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from whyrun.execution.protocol.framing import WorkerStart
from whyrun.execution.protocol.messages import StepReads
from whyrun.execution.reads.content import ReadContent
from whyrun.execution.reads.glimpses import Sighted
from whyrun.execution.reads.places import Places
from whyrun.execution.reads.python_eye import PythonEye


class Eyes:
    def __init__(self, start: WorkerStart, clock: Callable[[], int]) -> None:
        self._clock = clock
        own = [start.run_dir, start.store, start.sources, start.environments]
        self._places = Places(start.project, start.scratch, filter(None, own))
        self._content = ReadContent(start.project, clock)
        self._python: PythonEye | None = None
        self._began = 0

    def begin(self) -> None:
        """A step begins."""
        self._began = time.time_ns()

    @contextmanager
    def watching(self, action: str) -> Iterator[None]:
        """In the process of the step, while its action is imported and runs.

        Steps that share a process share its modules, too: what one has imported, the next has read as well. So this
        process forgets nothing.
        """
        if action == "shell":
            yield
            return
        eye = self._python = self._python or PythonEye()
        eye.watch()
        try:
            yield
        finally:
            eye.rest()

    def sighted(self) -> Sighted:
        """In the process of the step, after its end."""
        return self._places.sighted(self._python.take()) if self._python is not None else Sighted()

    def reads(self, sighted: Sighted) -> StepReads | None:
        """In the worker. None: nothing was seen."""
        if not sighted:
            return None
        skew = time.time_ns() - self._clock()
        return StepReads(self._content.of(sighted, self._began - skew), sighted.outside)
