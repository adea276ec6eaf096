"""What a worker says to its host, and how a step hears that it was heard."""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from whyrun.artifacts.durable import write_all
from whyrun.execution.commands import ExecStep, Message, StepBegan
from whyrun.execution.wire import Acknowledged, decode_acknowledged, encode, timestamp

UNNUMBERED = -1  # a word of a process that a step forked: it cannot know the numbers of its parent


class Outbox:
    """The worker's messages: one JSON line each, numbered within their step, written at once.

    What a worker said is in the pipe even if it dies the next moment, so the host knows which step was running.
    """

    def __init__(self, descriptor: int, said: str | None = None) -> None:
        """`said` is a file that keeps what was said of the present step, for a host that a connection has cut off."""
        self._descriptor = descriptor
        self._said = os.open(said, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644) if said else None
        self._lock = threading.RLock()  # a signal handler of the step may speak in the middle of a message
        self._speaking = False
        self._later: deque[Callable[[int], Message]] = deque()  # what such a handler said
        self._speaks: object = None  # whoever may send now: the context of the step that runs, nobody between steps
        self.numbered = 0
        self._process = os.getpid()

    def began(self, command: ExecStep, before: bytes) -> None:
        """`before` is the previous step's last word: both go out in one write."""
        self.numbered = 0
        began = encode(StepBegan(command.step_id, command.attempt, timestamp(), 0))
        if self._said is not None:
            os.ftruncate(self._said, 0)
        self._write(before + began + b"\n")

    def let_speak(self, context: object) -> None:
        """From here on only this one is heard. Threads that earlier steps left running have lost their word."""
        with self._lock:
            self._speaks = context
            self._later.clear()

    def send(self, context: object, make: Callable[[int], Message], awaited: bool = False) -> bool:
        """False: this context's step has ended, and nothing was said. `awaited`: the step will wait for an answer."""
        with self._lock:
            if context is not self._speaks:
                return False
            if self._speaking:  # we are in a signal handler, and below us this thread is in here as well
                if awaited:
                    raise RuntimeError("a signal handler cannot wait here: it came in the middle of another message")
                self._later.append(make)
                return True
            self._later.append(make)
            while self._later:  # looked at once more when nobody speaks: a handler may have come just before
                self._speaking = True
                try:
                    while self._later:
                        self._say(self._later.popleft())
                finally:
                    self._speaking = False
            return True

    def _say(self, make: Callable[[int], Message]) -> None:
        if os.getpid() != self._process:
            self._write(encode(make(UNNUMBERED)) + b"\n")
            return
        line = encode(make(self.numbered + 1)) + b"\n"
        self.numbered += 1
        self._write(line)

    def after_fork(self) -> None:
        """In a fresh process: a thread that does not exist here may have held the lock."""
        self._lock = threading.RLock()
        self._speaking = False
        self._later.clear()
        self._process = os.getpid()

    def write(self, line: bytes) -> None:
        if line:
            self._write(line)

    def _write(self, data: bytes) -> None:
        if self._said is not None:
            write_all(self._said, data)
        write_all(self._descriptor, data)


class Acknowledgements:
    """Where a step hears that what it remembered is in the log: from the worker's thread, or through a relay.

    One queue per remembered key, so that several threads of a step may wait at once.
    """

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, str], queue.SimpleQueue[bool]] = {}
        self._relay: int | None = None
        self._relay_lock = threading.Lock()
        self._source: int | None = None

    # --- the side that waits ---

    def begin(self) -> None:
        """A step begins: whoever still waits for another is let go."""
        waiting, self._waiting = self._waiting, {}
        for queue_ in waiting.values():
            queue_.put(False)

    def expect(self, step_id: str, key: str) -> queue.SimpleQueue[bool]:
        """To be called before the request is sent. The queue yields whether it is in the log."""
        if self._source is not None:
            source, self._source = self._source, None
            threading.Thread(target=self._read, args=(source,), daemon=True).start()
        return self._waiting.setdefault((step_id, key), queue.SimpleQueue())

    def _read(self, source: int) -> None:
        rest = b""
        while data := os.read(source, 1 << 16):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._told(decode_acknowledged(line))

    # --- the side that tells ---

    def put(self, line: bytes) -> None:
        """Called by the thread that listens to the host."""
        with self._relay_lock:
            if self._relay is None:
                self._told(decode_acknowledged(line))
                return
            with suppress(BrokenPipeError):  # the step's process has just died; nobody waits any more
                write_all(self._relay, line + b"\n")

    def _told(self, word: Acknowledged) -> None:
        queue_ = self._waiting.get((word.step_id, word.key))
        if queue_ is not None:  # else for a step that was cancelled while it waited
            queue_.put(True)

    # --- a step in a process of its own ---

    def relay_to(self, descriptor: int | None) -> None:
        with self._relay_lock:
            self._relay = descriptor

    def read_from(self, descriptor: int) -> None:
        """In the fresh process: only what comes through here, and nothing of what the threads of the worker held."""
        self._waiting = {}
        self._relay_lock = threading.Lock()
        self._relay = None
        self._source = descriptor
