"""The messages that a worker sends to its host, their limits, and the acknowledgements that come back."""

from __future__ import annotations

import math
import mmap
import os
from _queue import SimpleQueue
from _thread import RLock
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from whyrun.artifacts.durable import write_all
from whyrun.execution.protocol.framing import decode_acknowledged, encode, timestamp
from whyrun.execution.protocol.messages import ExecStep, Message, StepBegan
from whyrun.execution.worker.failure import utf8
from whyrun.json_values import limit_problem, plain_json

# --- limits on messages ------------------------------------------------------------------------------------------
#
# Limits on the messages of a step: their length, and which values they may contain. A violation fails only the
# step.


_NAME_LIMIT = 256  # characters of a key, a status, the name or unit of a metric
_MESSAGE_LIMIT = 4_000  # characters of a task's message
_VALUE_LIMIT = 64_000  # bytes of a task's details, or of a remembered value
_BINARY = (bytes, bytearray, memoryview)
_SHALLOW = 8  # levels that the quick check looks at


class _NotJson(Exception):
    """The text says which value is not JSON."""


def check_name(what: str, name: str) -> None:
    if len(name) > _NAME_LIMIT:
        raise ValueError(f"{what} may have at most {_NAME_LIMIT} characters, this has {len(name)}")
    _check_text(what, name)


def check_size(what: str, value: Any) -> None:
    size = len(msgspec.json.encode(value))
    if size > _VALUE_LIMIT:
        raise ValueError(f"{what} may have at most {_VALUE_LIMIT} bytes, this has {size}")


def shortened(message: str) -> str:
    if len(message) <= _MESSAGE_LIMIT:
        return message
    return f"{message[:_MESSAGE_LIMIT]} … ({len(message) - _MESSAGE_LIMIT} characters left out)"


def as_json(what: str, value: Any, exact: bool) -> Any:
    """The value as plain JSON. `exact`: raise ValueError unless it already is; else convert it for display."""
    problem = (limit_problem(value) or limit_problem(value := plain_json(value))) if exact else None
    if problem is not None:
        raise ValueError(f"{what} cannot be kept: it {problem}")
    try:
        if not exact:
            if _is_plain(value):
                return value
            value = msgspec.to_builtins(value, builtin_types=_BINARY, str_keys=True, enc_hook=_plain)
        return _json(what, value, exact)
    except _NotJson as part:
        raise ValueError(f"{what} must be JSON, this has {part}") from None
    except RecursionError:
        raise ValueError(f"{what} must be JSON, this is nested too deeply") from None
    except TypeError as problem:  # a key that is not a string
        raise ValueError(f"{what} must be JSON: {problem}") from None


def _is_plain(value: Any, depth: int = _SHALLOW) -> bool:
    """Whether the value already is JSON, as nearly all are: a third of the cost of converting it. Compares exact types,
    so that no method of a user's own class is called."""
    kind = type(value)
    if kind is str:
        return bool(value.isascii())
    if kind is float:
        return math.isfinite(value)
    if kind is list:
        return depth > 0 and all(_is_plain(member, depth - 1) for member in value)
    if kind is dict:
        return depth > 0 and all(type(k) is str and k.isascii() and _is_plain(v, depth - 1) for k, v in value.items())
    return value is None or kind is bool or kind is int


def _json(what: str, value: Any, exact: bool) -> Any:
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        if exact:
            raise _NotJson(str(value))
        return str(value)
    if isinstance(value, str):
        if exact:
            _check_text(what, value)
        return utf8(value)
    if isinstance(value, (list, tuple)):
        return [_json(what, member, exact) for member in value]
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise _NotJson(f"the key {key!r:.100}")
        return {_json(what, key, exact): _json(what, member, exact) for key, member in value.items()}
    raise _NotJson(f"a {type(value).__name__}")


def _plain(value: Any) -> Any:
    if isinstance(value, str):  # a user's own subclass
        return str.__str__(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return value.tolist()
    raise _NotJson(f"a {type(value).__name__}")


def _check_text(what: str, text: str) -> None:
    if utf8(text) != text:
        raise ValueError(f"{what} cannot be written as UTF-8: {text!r:.100}")


# --- messages ----------------------------------------------------------------------------------------------------


UNNUMBERED = -1  # a message from a process that the step forked, which does not know its parent's count


class Outbox:
    """Writes messages: one JSON line each, numbered within their step, without buffering.

    A message is in the pipe even if the worker dies the next moment, so the host knows which step was running.
    """

    def __init__(self, descriptor: int, said: str | None = None) -> None:
        """`said`: a file that keeps the messages of the current step, for a host whose connection broke."""
        self._descriptor = descriptor
        self._said = os.open(said, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644) if said else None
        self._lock = RLock()  # reentrant: a signal handler of the step may send during a write
        self._writing = False
        self._queued: deque[Callable[[int], Message]] = deque()  # messages of such a handler
        self._sender: object = None  # the context of the running step, which alone may send; None between steps
        # Shared with the process of the step, which may die at any moment: the number of its last message, and whether
        # it is writing one.
        self._shared = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("Q")
        self._process = os.getpid()

    @property
    def numbered(self) -> int:
        return self._shared[0]

    @property
    def cut_off(self) -> bool:
        """Whether a process died while it wrote a message: half a line may be in the pipe."""
        return self._shared[1] != 0

    def began(self, command: ExecStep, before: bytes) -> None:
        """`before`: the last message of the previous step. Both go out in one write."""
        self._shared[0] = 0
        began = encode(StepBegan(command.step_id, command.attempt, timestamp(), 0))
        if self._said is not None:
            os.ftruncate(self._said, 0)
        self._write(before + began + b"\n")

    def set_sender(self, context: object) -> None:
        """Only this context may send from here on. Drop messages from earlier steps' threads."""
        with self._lock:
            self._sender = context
            self._queued.clear()

    def send(self, context: object, make: Callable[[int], Message], awaited: bool = False) -> bool:
        """Returns False if the step of this context has ended: nothing is sent. `awaited`: the step waits for an
        answer."""
        with self._lock:
            if context is not self._sender:
                return False
            if self._writing:  # called by a signal handler that interrupted this same thread in here
                if awaited:
                    raise RuntimeError("a signal handler cannot wait here: it interrupted another message")
                self._queued.append(make)
                return True
            self._queued.append(make)
            while self._queued:  # again, because a handler may have queued a message just before `_writing = False`
                self._writing = True
                try:
                    while self._queued:
                        self._write_message(self._queued.popleft())
                finally:
                    self._writing = False
            return True

    def _write_message(self, make: Callable[[int], Message]) -> None:
        if os.getpid() != self._process:
            self._write(encode(make(UNNUMBERED)) + b"\n")
            return
        line = encode(make(self.numbered + 1)) + b"\n"
        self._shared[0] += 1
        self._write(line)

    def after_fork(self) -> None:
        """In a process that the worker forked: messages have numbers here, too."""
        self._process = os.getpid()

    def write(self, line: bytes) -> None:
        if line:
            self._write(line)

    def _write(self, data: bytes) -> None:
        self._shared[1] = 1
        if self._said is not None:
            write_all(self._said, data)
        write_all(self._descriptor, data)
        self._shared[1] = 0


class Acknowledgements:
    """Lets a step wait until its remembered request is in the log. There is one queue for each remembered key, so that
    several threads of a step may wait at once.

    A thread of the step's process reads the acknowledgements, from the worker or, if the worker runs the step itself,
    from the host.
    """

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, str], SimpleQueue[bool]] = {}
        self._source: int | None = None

    def begin(self) -> None:
        """A step begins: release all threads that still wait for an earlier one."""
        waiting, self._waiting = self._waiting, {}
        for queue_ in waiting.values():
            queue_.put(False)

    def expect(self, step_id: str, key: str) -> SimpleQueue[bool]:
        """Call this before sending the request. The queue yields True when the request is in the log."""
        if self._source is not None:
            source, self._source = self._source, None
            from threading import Thread  # not before the forks of a worker, see decision 0055

            Thread(target=self._read, args=(source,), daemon=True).start()
        return self._waiting.setdefault((step_id, key), SimpleQueue())

    def read_from(self, relay: int) -> None:
        """In the process of a step: from here on acknowledgements come from the worker, through this pipe."""
        self._source = relay

    def _read(self, source: int) -> None:
        rest = b""
        while data := os.read(source, 1 << 16):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self.put(line)

    def put(self, line: bytes) -> None:
        acknowledged = decode_acknowledged(line)
        queue_ = self._waiting.get((acknowledged.step_id, acknowledged.key))
        if queue_ is not None:  # else the step was cancelled while it waited
            queue_.put(True)
