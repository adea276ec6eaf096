"""stdout and stderr of the command, when nobody reads them any more or what takes them is full.

A reader may go at any time (`whyrun verify | head`): that is its right, and says nothing of what the command found. So
the rest is dropped and the command goes on to its own exit status. A broken-off command would end with one that says
something else, 0 above all. What can be left out then, ask `nobody_reads`.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class Outlet(io.FileIO):
    """Takes everything, and drops it from the first failure on: what is left in buffers does not fail once more."""

    def __init__(self, descriptor: int, *, talk: bool) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self.talk = talk
        self.gone = False

    def write(self, data: ReadableBuffer, /) -> int:
        if not self.gone:
            try:
                return super().write(data)
            except OSError as problem:
                self.gone = True
                # Data that a full disk did not take are missed by somebody; talk is not what was asked for.
                if not (self.talk or isinstance(problem, BrokenPipeError)):
                    raise
        return memoryview(data).nbytes


@contextmanager
def outlets() -> Iterator[None]:
    """The command writes through `Outlet`s; a program that called it has its own streams back afterwards."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _through_outlet(before[0], talk=False), _through_outlet(before[1], talk=True)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):  # who writes flushes, and has heard of it
                stream.flush()
        sys.stdout, sys.stderr = before


def nobody_reads() -> bool:
    """Whether what is printed on stdout from now on reaches nobody: a long list can end, a verdict goes on."""
    outlet = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return isinstance(outlet, Outlet) and outlet.gone


def _through_outlet(stream: TextIO | None, *, talk: bool) -> TextIO:
    if stream is None:  # closed by the shell (`>&-`)
        return open(os.devnull, "w", encoding="utf-8")
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError, AttributeError):
        return stream  # of a test or a notebook: no file, and nobody who can go
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(Outlet(descriptor, talk=talk)),
        encoding=stream.encoding,
        errors="backslashreplace",  # a terminal that has no arrow gets another sign for it, and not half a page
        line_buffering=talk or stream.isatty(),
    )
