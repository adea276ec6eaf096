"""Lets a command finish when the reader of its output goes away, or when the disk that takes it is full.

`whyrun verify | head` closes the pipe early. The command then drops the rest of its output and still ends with its own
exit status: ending early would report a wrong one, such as 0 for a damaged log. Commands with long lists ask
`reader_is_gone` and stop printing.
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


class TolerantFile(io.FileIO):
    """Drops all output after the first failed write, so that flushing the buffers does not fail again."""

    def __init__(self, descriptor: int, *, is_stderr: bool) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self.is_stderr = is_stderr
        self.failed = False

    def write(self, data: ReadableBuffer, /) -> int:
        if not self.failed:
            try:
                return super().write(data)
            except OSError as problem:
                self.failed = True
                # Data that a full disk did not take is an error of the command. Lost notes on stderr are not.
                if not (self.is_stderr or isinstance(problem, BrokenPipeError)):
                    raise
        return memoryview(data).nbytes


@contextmanager
def tolerant_streams() -> Iterator[None]:
    """Replace stdout and stderr for the command; a program that called it gets its own streams back afterwards."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _tolerant(before[0], is_stderr=False), _tolerant(before[1], is_stderr=True)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):  # the command flushed its data itself, and reported a failure then
                stream.flush()
        sys.stdout, sys.stderr = before


def reader_is_gone() -> bool:
    """Whether output on stdout is dropped from now on. A long list can stop then; a check must go on."""
    file = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return isinstance(file, TolerantFile) and file.failed


def _tolerant(stream: TextIO | None, *, is_stderr: bool) -> TextIO:
    if stream is None:  # closed by the shell (`>&-`)
        return open(os.devnull, "w", encoding="utf-8")
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError, AttributeError):
        return stream  # a stream of a test or a notebook, without a file
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(TolerantFile(descriptor, is_stderr=is_stderr)),
        encoding=stream.encoding,
        errors="backslashreplace",  # a terminal that cannot show an arrow gets an escape instead of half a page
        line_buffering=is_stderr or stream.isatty(),
    )
