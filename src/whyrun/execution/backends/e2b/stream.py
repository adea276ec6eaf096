"""Reads the output of the relay in an E2B sandbox and writes to its stdin, and reconnects when a connection breaks."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import e2b

from whyrun.execution.backends.base import Ended, Received, WorkerLost
from whyrun.execution.backends.e2b.calls import (
    BROKEN,
    GONE,
    SDK_ERRORS,
    SandboxConnection,
    is_stream_cut,
    short_message,
)
from whyrun.execution.backends.e2b.relay import BEAT, Channel

if TYPE_CHECKING:
    from e2b import Sandbox

_SEND = 2.0  # seconds for one attempt to send a line
_SENDING = 10.0  # seconds for all attempts: messages may still arrive while sending fails
_PAUSE = 0.1
_STUCK = 3 * BEAT  # seconds without a heartbeat, though the sandbox answers, after which the stream reconnects
_STDERR = 64  # chunks that are kept


class Stream:
    def __init__(self, sandbox: Sandbox, connection: SandboxConnection, deliver: Callable[[Received], None]) -> None:
        self._sandbox = sandbox
        self._connection = connection
        self._deliver = deliver
        self._pid = 0
        self._channel = Channel(self._write, self._pass_on)
        self._stderr: deque[str] = deque(maxlen=_STDERR)
        self._generation = 0  # of the connection; threads of earlier connections are ignored
        self._beat = time.monotonic()
        self.ended = False
        self.send = self._channel.send
        self.signal = self._channel.signal

    def start(self, command: Callable[[], str]) -> None:
        """Start the relay. `command` is called for every attempt, because an attempt that seems to have failed may
        still run, unused, until the sandbox ends."""
        handle = self._connection.call(
            # No timeout: the SDK would end the process after it.
            lambda: self._sandbox.commands.run(command(), background=True, stdin=True, timeout=0, retain_output=False)
        )
        self._pid = handle.pid
        self._beat = time.monotonic()
        self._listen(handle)

    def stderr(self) -> str:
        return "".join(self._stderr)

    def check(self) -> None:
        """Reconnect if the sandbox answers, but the stream brings no heartbeats."""
        if not self.ended and time.monotonic() - self._beat > _STUCK:
            self._beat = time.monotonic()
            self._listen(None)

    def close(self) -> None:
        self._generation += 1
        self.ended = True

    # --- sending ------------------------------------------------------------------------------------------------

    def _write(self, data: bytes) -> None:
        """Send until it succeeds. The relay executes an order only once, however often it arrives."""
        deadline = time.monotonic() + _SENDING
        while True:
            self._connection.check()
            try:
                self._sandbox.commands.send_stdin(self._pid, data, request_timeout=_SEND)
            except (*GONE, *BROKEN) as problem:
                self._connection.failed(problem)
                self._connection.check_alive()
                if self._connection.is_silent:  # an outage, which has a limit of its own
                    deadline = time.monotonic() + _SENDING
                elif time.monotonic() > deadline:
                    raise WorkerLost(
                        f"the sandbox takes no input: {short_message(problem)}"
                    ) from None  # files may still be fetched
                time.sleep(_PAUSE)
            except SDK_ERRORS as problem:  # the sandbox and its files still exist
                raise WorkerLost(f"the worker's process in the sandbox has ended: {short_message(problem)}") from None
            else:
                self._connection.seen_alive()
                return

    # --- receiving ----------------------------------------------------------------------------------------------

    def _listen(self, handle: Any) -> None:
        self._generation += 1
        threading.Thread(target=self._follow, args=(self._generation, handle), daemon=True).start()

    def _follow(self, generation: int, handle: Any) -> None:
        """Read until the process ends, the sandbox is lost, or another thread takes over."""
        try:
            while generation == self._generation:
                ended = self._connected(generation) if handle is None else self._read(generation, handle)
                if ended is not None:
                    self._end(generation, ended)
                    return
                handle = None
        except WorkerLost as lost:
            self._end(generation, str(lost))

    def _connected(self, generation: int) -> str | None:
        """Reconnect, ask for the missing lines, and continue reading."""
        try:
            handle = self._sandbox.commands.connect(self._pid, timeout=0, retain_output=False)
        except GONE as problem:
            self._connection.failed(problem)
        except e2b.NotFoundException:
            return "the worker's process in the sandbox has ended"
        except SDK_ERRORS as problem:
            self._connection.failed(problem)
            time.sleep(_PAUSE)
        else:
            if generation != self._generation:
                return None
            self._channel.reconnected()
            return self._read(generation, handle)
        return None

    def _read(self, generation: int, handle: Any) -> str | None:
        """Read until the process ends, and say how; None if the connection broke first."""

        def receive(text: str) -> None:
            if generation == self._generation:
                self._beat = time.monotonic()
                self._connection.seen_alive()
                self._channel.feed(text.encode())

        try:
            handle.wait(on_stdout=receive, on_stderr=self._stderr.append)
        except e2b.CommandExitException as ended:
            return f"the worker's process in the sandbox ended: {ended.error or f'exit status {ended.exit_code}'}"
        except WorkerLost:
            raise
        except Exception as problem:
            if not (isinstance(problem, SDK_ERRORS) or is_stream_cut(problem)):
                raise WorkerLost(f"the worker's process in the sandbox sent an invalid line: {problem}") from problem
            self._connection.failed(problem)
        else:
            return "the worker's process in the sandbox ended: exit status 0"
        return None

    def _end(self, generation: int, reason: str) -> None:
        if generation == self._generation:
            self._pass_on(Ended(reason))

    def _pass_on(self, received: Received) -> None:
        if not self.ended:
            self.ended = isinstance(received, Ended)
            self._deliver(received)
