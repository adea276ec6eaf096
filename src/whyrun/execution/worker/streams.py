"""Redirects stdout and stderr of a worker to files in its scratch folder, at the level of descriptors, so that the
output of subprocesses and C code is redirected, too. The evidence keeps the files only if a step printed something."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import TextIO

from whyrun.connections.redact import Redactor
from whyrun.execution.files.scratch import Scratch
from whyrun.execution.worker.processes import flush_c_streams

_NAMES = ("stdout", "stderr")


class Streams:
    def __init__(self, scratch: Scratch) -> None:
        self.scratch = scratch
        self._files = [self._open(name) for name in _NAMES]
        self._python: list[TextIO] = [_text_stream(1), _text_stream(2)]
        self.attach()

    def _open(self, name: str) -> int:
        return os.open(self.scratch.root / name, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def attach(self) -> None:
        """Connect descriptors 1 and 2, and Python's streams, to the files again, whatever a step did to them."""
        for position in (0, 1):
            os.dup2(self._files[position], position + 1)
            if self._python[position].closed:
                self._python[position] = _text_stream(position + 1)
        sys.stdout = sys.__stdout__ = self._python[0]  # type: ignore[misc, assignment]
        sys.stderr = sys.__stderr__ = self._python[1]  # type: ignore[misc, assignment]

    def reopen(self) -> None:
        """Open the files anew: another process of this worker may have moved them to the evidence."""
        for position, name in enumerate(_NAMES):
            os.close(self._files[position])
            self._files[position] = self._open(name)
        self.attach()

    def discard(self) -> None:
        """Drop what was printed."""
        self.flush()
        for file in self._files:
            os.ftruncate(file, 0)

    def flush(self) -> None:
        own = sys.stdout is self._python[0] and sys.stderr is self._python[1]
        for stream in self._python if own else (sys.stdout, sys.stderr, *self._python):
            try:
                stream.flush()
            except (ValueError, AttributeError, OSError):
                pass  # the step closed or replaced it, so there is nothing to flush
        flush_c_streams()

    def written(self) -> bool:
        """Whether the step printed anything."""
        self.flush()
        out, err = self._files
        return os.lseek(out, 0, os.SEEK_END) > 0 or os.lseek(err, 0, os.SEEK_END) > 0  # a third of the cost of `fstat`

    def keep(self, step_dir: Path, redactor: Redactor) -> None:
        for position, name in enumerate(_NAMES):
            if os.fstat(self._files[position]).st_size:
                self.scratch.keep_log(name, step_dir, redactor)
                os.close(self._files[position])
                self._files[position] = self._open(name)


def _text_stream(descriptor: int) -> TextIO:
    # Line-buffered, so that the last lines of a killed step are in the file.
    binary = io.FileIO(descriptor, "w", closefd=False)
    return io.TextIOWrapper(io.BufferedWriter(binary), encoding="utf-8", errors="backslashreplace", line_buffering=True)
