"""Redirects stdout and stderr of a worker to files in its scratch folder, at the level of descriptors, so that the
output of subprocesses and C code is redirected, too. The evidence keeps the files only if a step printed something.

A step with secrets prints into pipes. Its worker, which waits for the process of the step, writes to the files what it
has redacted, so no secret reaches a disk, whenever the worker is killed (`Redaction`).
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from whyrun.artifacts.durable import write_all
from whyrun.connections.redact import Redactor
from whyrun.execution.files.scratch import Scratch
from whyrun.execution.worker.processes import flush_c_streams

_NAMES = ("stdout", "stderr")
_STDERR = 1
_CHUNK = 1 << 16
_LONGEST_ANSWER = 1 << 16


class Streams:
    def __init__(self, scratch: Scratch) -> None:
        self.scratch = scratch
        self._files = [self._open(name) for name in _NAMES]
        self._python: list[TextIO] = [_text_stream(1), _text_stream(2)]
        self._redaction: Redaction | None = None
        self.attach()

    def _open(self, name: str) -> int:
        return os.open(self.scratch.root / name, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)

    def attach(self) -> None:
        """Connect descriptors 1 and 2, and Python's streams, to the files again, whatever a step did to them."""
        targets = self._files if self._redaction is None else self._redaction.ends
        for position in (0, 1):
            os.dup2(targets[position], position + 1)
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

    # --- a step with secrets --------------------------------------------------------------------------------------

    def redact(self, redactor: Redactor) -> None:
        """Before the step's process is forked: from here on what is printed is redacted before it reaches a file."""
        self._redaction = Redaction(self._files, redactor)
        self.attach()

    def pumps(self) -> Mapping[int, Callable[[], object]]:
        """In the worker, while it waits for the step: what to call when which descriptor becomes readable."""
        return self._redaction.pumps() if self._redaction is not None else {}

    def held_back(self) -> str:
        """In the worker: what was printed to stderr and is not in the file yet. All before it is, after this call."""
        return self._redaction.held_back().decode("utf-8", "replace") if self._redaction is not None else ""

    def unwritten(self) -> str:
        """In the step's process: what it has printed to stderr and the file does not have yet."""
        return self._redaction.unwritten() if self._redaction is not None else ""

    def end_redaction(self) -> None:
        """In the worker, after all processes of the step have ended: write the rest."""
        redaction, self._redaction = self._redaction, None
        if redaction is not None:
            self.flush()
            try:
                redaction.finish()
            finally:
                self.attach()

    # --- what was printed -----------------------------------------------------------------------------------------

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


class Redaction:
    """Two pipes from a step to its worker, and a channel on which the step asks for what the worker holds back."""

    def __init__(self, files: list[int], redactor: Redactor) -> None:
        import socket  # only for steps with secrets

        self._files, self._redactor = files, redactor
        pipes = [os.pipe(), os.pipe()]
        self._readers, self.ends = [reader for reader, _ in pipes], [end for _, end in pipes]
        for reader in self._readers:
            os.set_blocking(reader, False)
        self._worker, self._step = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._held = [b"", b""]  # it may be the beginning of a secret
        self._problem: OSError | None = None

    def pumps(self) -> dict[int, Callable[[], object]]:
        out, err = self._readers
        return {out: lambda: self._read(0), err: lambda: self._read(_STDERR), self._worker.fileno(): self._answer}

    def unwritten(self) -> str:
        self._step.send(b"?")
        return self._step.recv(_LONGEST_ANSWER).decode("utf-8", "replace")

    def _answer(self) -> None:
        self._worker.recv(1)
        with suppress(ConnectionError):  # the step has died
            self._worker.send(self.held_back()[-_LONGEST_ANSWER:])

    def held_back(self) -> bytes:
        self._take(_STDERR)
        return self._redactor.data(self._held[_STDERR])  # not written: the rest of a secret may follow

    def _take(self, position: int) -> None:
        """All that is in a pipe now, and no more: a process that the step left running may print without end."""
        import fcntl
        import struct
        import termios

        there = bytearray(struct.calcsize("i"))
        fcntl.ioctl(self._readers[position], termios.FIONREAD, there)
        (left,) = struct.unpack("i", there)
        while left > 0 and (taken := self._read(position)):
            left -= taken

    def _read(self, position: int) -> int:
        """Take what is in a pipe, and write what cannot be the beginning of a secret. Returns how much it was."""
        try:
            chunk = os.read(self._readers[position], _CHUNK)
        except BlockingIOError:
            return 0
        waiting = self._held[position] + chunk
        ready = self._redactor.ready(waiting)
        self._held[position] = waiting[ready:]
        self._write(position, waiting[:ready])
        return len(chunk)

    def _write(self, position: int, data: bytes) -> None:
        if self._problem is None:
            try:
                write_all(self._files[position], self._redactor.data(data))
            except OSError as problem:  # a full disk: the step goes on, and what it prints is lost
                self._problem = problem

    def finish(self) -> None:
        """Raises the error that writing to a file gave, if any."""
        for position in (0, 1):
            self._take(position)
            self._write(position, self._held[position])
        for descriptor in (*self._readers, *self.ends):
            os.close(descriptor)
        self._worker.close()
        self._step.close()
        if self._problem is not None:
            raise self._problem


def _text_stream(descriptor: int) -> TextIO:
    # Line-buffered, so that the last lines of a killed step are in the file.
    binary = io.FileIO(descriptor, "w", closefd=False)
    return io.TextIOWrapper(io.BufferedWriter(binary), encoding="utf-8", errors="backslashreplace", line_buffering=True)
