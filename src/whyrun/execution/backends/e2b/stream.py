"""What a process in an E2B sandbox prints, carried to the relay's channel across broken connections."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import e2b

from whyrun.execution.backends.e2b_calls import BROKEN, GONE, SDK_ERRORS, Reach, brief, is_cut
from whyrun.execution.backends.relay import BEAT, Channel
from whyrun.execution.backends.transport import Ended, Heard, PlaceLost

if TYPE_CHECKING:
    from e2b import Sandbox

_SEND = 2.0  # seconds for one try to bring a line there
_SENDING = 10.0  # seconds for all of them: what the worker says may still come through when nothing gets there
_PAUSE = 0.1
_STUCK = 3 * BEAT  # seconds without a beat, though the sandbox answers, after which the connection is made anew
_STDERR = 64  # pieces


class Stream:
    def __init__(self, sandbox: Sandbox, reach: Reach, tell: Callable[[Heard], None]) -> None:
        self._sandbox = sandbox
        self._reach = reach
        self._tell = tell
        self._pid = 0
        self._channel = Channel(self._write, self._told)
        self._stderr: deque[str] = deque(maxlen=_STDERR)
        self._turn = 0  # which connection counts; a thread that waits at an older one is forgotten
        self._beat = time.monotonic()
        self.ended = False
        self.send = self._channel.send
        self.signal = self._channel.signal

    def start(self, command: Callable[[], str]) -> None:
        """`command` is asked for every try: one that seems to have failed may run all the same, with nobody to speak
        to, until the sandbox ends."""
        handle = self._reach.call(
            # Unlimited: the SDK would end the process when its time is over.
            lambda: self._sandbox.commands.run(command(), background=True, stdin=True, timeout=0, retain_output=False)
        )
        self._pid = handle.pid
        self._beat = time.monotonic()
        self._listen(handle)

    def stderr(self) -> str:
        return "".join(self._stderr)

    def look(self) -> None:
        """The sandbox answers; does the stream still bring anything?"""
        if not self.ended and time.monotonic() - self._beat > _STUCK:
            self._beat = time.monotonic()
            self._listen(None)

    def close(self) -> None:
        self._turn += 1
        self.ended = True

    # --- giving ------------------------------------------------------------------------------------------------------

    def _write(self, data: bytes) -> None:
        """Again and again: the relay carries out only the first."""
        deadline = time.monotonic() + _SENDING
        while True:
            self._reach.check()
            try:
                self._sandbox.commands.send_stdin(self._pid, data, request_timeout=_SEND)
            except (*GONE, *BROKEN) as problem:
                self._reach.failed(problem)
                if time.monotonic() > deadline:
                    raise PlaceLost(f"the sandbox takes no input: {brief(problem)}") from None  # files may still come
                time.sleep(_PAUSE)
            except SDK_ERRORS as problem:  # its files are still there
                raise PlaceLost(f"the worker's process in the sandbox has ended: {brief(problem)}") from None
            else:
                self._reach.seen_alive()
                return

    # --- hearing -----------------------------------------------------------------------------------------------------

    def _listen(self, handle: Any) -> None:
        self._turn += 1
        threading.Thread(target=self._follow, args=(self._turn, handle), daemon=True).start()

    def _follow(self, turn: int, handle: Any) -> None:
        """Until the process ends, the place is lost, or another thread does this."""
        try:
            while turn == self._turn:
                ended = self._connected(turn) if handle is None else self._read(turn, handle)
                if ended is not None:
                    self._end(turn, ended)
                    return
                handle = None
        except PlaceLost as lost:
            self._end(turn, str(lost))

    def _connected(self, turn: int) -> str | None:
        """Connect again, and go on. What was said meanwhile is asked for."""
        try:
            handle = self._sandbox.commands.connect(self._pid, timeout=0, retain_output=False)
        except GONE as problem:
            self._reach.failed(problem)
        except e2b.NotFoundException:
            return "the worker's process in the sandbox has ended"
        except SDK_ERRORS as problem:
            self._reach.failed(problem)
            time.sleep(_PAUSE)
        else:
            if turn != self._turn:
                return None
            self._channel.reconnected()
            return self._read(turn, handle)
        return None

    def _read(self, turn: int, handle: Any) -> str | None:
        """How the process ended; None if the connection broke first."""

        def heard(text: str) -> None:
            if turn == self._turn:
                self._beat = time.monotonic()
                self._reach.seen_alive()
                self._channel.feed(text.encode())

        try:
            handle.wait(on_stdout=heard, on_stderr=self._stderr.append)
        except e2b.CommandExitException as ended:
            return f"the worker's process in the sandbox ended: {ended.error or f'exit status {ended.exit_code}'}"
        except PlaceLost:
            raise
        except Exception as problem:
            if not (isinstance(problem, SDK_ERRORS) or is_cut(problem)):
                raise PlaceLost(
                    f"the worker's process in the sandbox sent what is no line of ours: {problem}"
                ) from problem
            self._reach.failed(problem)
        else:
            return "the worker's process in the sandbox ended: exit status 0"
        return None

    def _end(self, turn: int, reason: str) -> None:
        if turn == self._turn:
            self._told(Ended(reason))

    def _told(self, heard: Heard) -> None:
        if not self.ended:
            self.ended = isinstance(heard, Ended)
            self._tell(heard)
