"""Real processes of a sandbox: their output to everyone who listens at the time, their input, their end.

As in the real agent: who connects later hears only what comes from then on; a signal goes to the process itself and
not to its group; the end is told after both outputs are closed, whoever holds them open.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Output:
    stream: str  # stdout or stderr
    data: bytes


@dataclass(frozen=True, slots=True)
class End:
    """`status` is the exit status as `subprocess` gives it: negative for a signal."""

    status: int


@dataclass(frozen=True, slots=True)
class Vanished:
    """The sandbox is gone."""


Event = Output | End | Vanished
_BACKLOG = 256  # chunks; a listener that does not read makes the process wait, as a pipe would


class _ByteSource(Protocol):
    def fileno(self) -> int: ...


class Listener:
    """The output of a process from now on."""

    def __init__(self) -> None:
        self._events: queue.Queue[Event] = queue.Queue(_BACKLOG)
        self._left = False

    def put(self, event: Event) -> None:
        while not self._left:
            try:
                self._events.put(event, timeout=0.2)
            except queue.Full:
                continue
            return

    def get(self, timeout: float | None) -> Event | None:
        try:
            return self._events.get(timeout=timeout)
        except queue.Empty:
            return None

    def leave(self) -> None:
        self._left = True


class Process:
    def __init__(
        self, config: dict[str, Any], tag: str | None, environment: dict[str, str], cwd: str, stdin: bool,
        ended: Callable[[int], None],
    ) -> None:  # fmt: skip
        self.config = config
        self.tag = tag
        self._ended = ended
        self._lock = threading.Lock()
        self._listeners: list[Listener] = []
        self._over: Event | None = None
        self._process = subprocess.Popen(
            [config["cmd"], *config.get("args", [])],
            env=environment,
            cwd=cwd,
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.pid = self._process.pid

    def begin(self, first: Listener) -> None:
        """From here on there is output; the first listener misses nothing of it."""
        self._listeners.append(first)
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        readers = [
            threading.Thread(target=self._read, args=(name, source), daemon=True)
            for name, source in (("stdout", self._process.stdout), ("stderr", self._process.stderr))
        ]
        for reader in readers:
            reader.start()
        threading.Thread(target=self._wait, args=(readers,), daemon=True).start()

    def listen(self) -> Listener | None:
        """None: it has ended."""
        with self._lock:
            if self._over is not None:
                return None
            listener = Listener()
            self._listeners.append(listener)
            return listener

    def write(self, data: bytes) -> None:
        """Raises BrokenPipeError where nobody reads any more."""
        stdin = self._process.stdin
        if stdin is None:
            raise BrokenPipeError("stdin was not asked for")
        view = memoryview(data)
        while view:
            view = view[os.write(stdin.fileno(), view) :]

    def close_stdin(self) -> None:
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.close()

    def signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def vanish(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._tell(Vanished(), last=True)

    def _read(self, name: str, source: _ByteSource) -> None:
        while data := os.read(source.fileno(), 1 << 16):
            self._tell(Output(name, data))

    def _wait(self, readers: list[threading.Thread]) -> None:
        for reader in readers:
            reader.join()
        status = self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        self._ended(self.pid)
        self._tell(End(status), last=True)

    def _tell(self, event: Event, last: bool = False) -> None:
        with self._lock:
            if self._over is not None:
                return
            if last:
                self._over = event
            listeners = list(self._listeners)
        for listener in listeners:
            listener.put(event)
