"""stdout and stderr of a worker: files in its scratch folder, at the level of descriptors, so that what subprocesses
and C code print is caught too. Kept in the evidence only when a step printed something."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import TextIO

from whyrun.execution.isolation import flush_c_streams
from whyrun.execution.scratch import Scratch
from whyrun.execution.secrets import Redactor

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
        """Descriptors 1 and 2 lead to the files again, and Python's streams to them, whatever a step did to both."""
        for position in (0, 1):
            os.dup2(self._files[position], position + 1)
            if self._python[position].closed:
                self._python[position] = _text_stream(position + 1)
        sys.stdout = sys.__stdout__ = self._python[0]  # type: ignore[misc, assignment]
        sys.stderr = sys.__stderr__ = self._python[1]  # type: ignore[misc, assignment]

    def flush(self) -> None:
        own = sys.stdout is self._python[0] and sys.stderr is self._python[1]
        for stream in self._python if own else (sys.stdout, sys.stderr, *self._python):
            try:
                stream.flush()
            except (ValueError, AttributeError, OSError):
                pass  # closed or replaced by the step: it holds nothing
        flush_c_streams()

    def written(self) -> bool:
        """Whether the step printed anything."""
        self.flush()
        out, err = self._files
        return os.lseek(out, 0, os.SEEK_END) > 0 or os.lseek(err, 0, os.SEEK_END) > 0  # a third of what `fstat` costs

    def keep(self, step_dir: Path, redactor: Redactor) -> None:
        for position, name in enumerate(_NAMES):
            if os.fstat(self._files[position]).st_size:
                self.scratch.keep_log(name, step_dir, redactor)
                os.close(self._files[position])
                self._files[position] = self._open(name)


def _text_stream(descriptor: int) -> TextIO:
    # Written through, so that the last words of a step that gets killed are there.
    binary = io.FileIO(descriptor, "w", closefd=False)
    return io.TextIOWrapper(io.BufferedWriter(binary), encoding="utf-8", errors="backslashreplace", line_buffering=True)
