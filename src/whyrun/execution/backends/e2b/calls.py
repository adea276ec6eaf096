"""Calls the E2B SDK without hanging: checks during each call whether the sandbox is alive.

A broken network neither answers nor refuses, and the SDK waits as long as its timeout. So each call runs in a thread of
its own, which is abandoned when the sandbox cannot be reached.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import e2b
import httpx
from connectrpc.errors import ConnectError

from whyrun.execution.backends.base import WorkerLost

if TYPE_CHECKING:
    from e2b import Sandbox

T = TypeVar("T")

QUIET = 1.3  # seconds without a sign of life after which the sandbox is probed
PROBE = 1.5  # seconds for the answer to a probe
# Seconds without a sign of life after which the sandbox counts as lost. Networks come back, and until then the relay
# keeps all messages. The lifetime of a sandbox is much longer.
OUTAGE = 60.0
_POLL = 0.5  # seconds between two checks during a call
_PAUSE = 0.1  # seconds before another try
_TRIES = 3  # of one call while the sandbox answers others

# `ServiceBusy` and `Authentication` have no base class in common with the others. The SDK passes on some errors of its
# own transports: `HTTPError` for files, and `ConnectError` if a connection broke though the sandbox answers.
SDK_ERRORS = (
    e2b.SandboxException,
    e2b.AuthenticationException,
    e2b.exceptions.ServiceBusyException,
    httpx.HTTPError,
    ConnectError,
)
# The connection broke, the answer came too late, or the service was busy. The request may have been executed or not.
BROKEN = (
    e2b.TimeoutException,
    e2b.RateLimitException,
    e2b.exceptions.ServiceBusyException,
    httpx.TransportError,
    ConnectError,
)
BUSY = (e2b.RateLimitException, e2b.exceptions.ServiceBusyException)
GONE = (e2b.exceptions.SandboxNotRunningException, e2b.SandboxNotFoundException)


class SandboxConnection:
    """Tracks whether a sandbox can be reached. Once lost, it stays lost: every later call raises at once.

    A sandbox that is gone is lost at once; one that does not answer, after an outage of `outage` seconds.
    """

    def __init__(self, sandbox: Sandbox, outage: float = OUTAGE, clock: Callable[[], float] = time.monotonic) -> None:
        self._sandbox = sandbox
        self._outage = outage
        self._clock = clock
        self._alive = clock()
        self._lost: str | None = None
        self.end_of_life = ""  # why the service ends it, once that is known

    def seen_alive(self) -> None:
        """Record a sign of life."""
        self._alive = self._clock()

    def silent_for(self) -> float:
        return self._clock() - self._alive

    @property
    def is_silent(self) -> bool:
        return self.silent_for() >= QUIET

    def lose(self, reason: str) -> WorkerLost:
        self._lost = self._lost or reason
        return WorkerLost(self._lost)

    def gone(self) -> WorkerLost:
        return self.lose(f"the sandbox is gone{self.end_of_life}")

    @property
    def is_lost(self) -> bool:
        return self._lost is not None

    def check(self) -> None:
        if self._lost is not None:
            raise WorkerLost(self._lost)

    def check_alive(self) -> None:
        """Probe the sandbox, unless there was a sign of life just now. Raises `WorkerLost`."""
        self.check()
        if self.is_silent:
            self._answers()

    def _answers(self) -> bool:
        """Whether the sandbox answers a probe. Raises `WorkerLost` if it is lost."""
        try:
            # Not `is_running`: it waits twice its timeout, and takes a closed port for the end of the sandbox.
            _within(PROBE, lambda: self._sandbox.commands.list(request_timeout=PROBE))
        except SDK_ERRORS as problem:
            self.failed(problem)
            return False
        self.seen_alive()
        return True

    def failed(self, problem: Exception) -> None:
        """Handle a failed request. Raises `WorkerLost` unless it may be repeated."""
        self.check()
        if isinstance(problem, GONE):
            raise self.gone()
        if not (isinstance(problem, BROKEN) or is_stream_cut(problem)):
            raise self.lose(f"the sandbox refused a request: {short_message(problem)}")
        if self.silent_for() > self._outage:
            raise self.lose(f"the sandbox cannot be reached: {short_message(problem)}")

    def call(self, function: Callable[[], T], limit: float | None = None) -> T:
        """The result of a call that may be repeated. It is repeated after `limit` seconds, because its connection may
        hang though the sandbox answers others. The caller handles "not found" and a command's exit status.

        While the sandbox does not answer at all, the call waits until it does: see `OUTAGE`."""
        tried = 0
        while True:
            try:
                return self._watched(function, limit)
            except GONE as problem:
                self.failed(problem)
            except (e2b.NotFoundException, e2b.CommandExitException):
                self.seen_alive()
                raise
            except Exception as problem:
                if not (isinstance(problem, SDK_ERRORS) or is_stream_cut(problem)):
                    raise
                self.failed(problem)
                tried += self._answers()
                if tried == _TRIES:
                    raise self.lose(f"the sandbox cannot be used: {short_message(problem)}") from None
                time.sleep(_PAUSE * (tried or 1))

    def _watched(self, function: Callable[[], T], limit: float | None) -> T:
        self.check()
        deadline = None if limit is None else time.monotonic() + limit
        done: queue.SimpleQueue[Callable[[], T]] = queue.SimpleQueue()
        threading.Thread(target=_perform, args=(function, done), daemon=True).start()
        interrupted = False
        while True:
            try:
                outcome = done.get(timeout=_POLL)
            except queue.Empty:
                self.check_alive()
                if interrupted and not self.is_silent:
                    # The sandbox is back. A connection from before may be dead without anybody telling.
                    raise e2b.TimeoutException("the connection was interrupted") from None
                interrupted = self.is_silent
                if deadline is not None and time.monotonic() > deadline:
                    raise e2b.TimeoutException(f"no answer within {limit:g} s") from None
                continue
            result = outcome()
            self.seen_alive()
            return result


def _within(limit: float, function: Callable[[], T]) -> T:
    """Limit a call in time. The SDK itself repeats calls beyond its timeout."""
    done: queue.SimpleQueue[Callable[[], T]] = queue.SimpleQueue()
    threading.Thread(target=_perform, args=(function, done), daemon=True).start()
    try:
        outcome = done.get(timeout=limit)
    except queue.Empty:
        raise e2b.TimeoutException(f"no answer within {limit:g} s") from None
    return outcome()


def _perform(function: Callable[[], T], done: queue.SimpleQueue[Callable[[], T]]) -> None:
    try:
        result = function()
    except Exception as problem:
        caught = problem

        def fail() -> T:
            raise caught

        done.put(fail)
    else:
        done.put(lambda: result)


def is_stream_cut(problem: Exception) -> bool:
    """Whether the stream of a command ended before the command. The SDK has no exception type for that."""
    return type(problem) is Exception and "without an end event" in str(problem)


def short_message(problem: Exception) -> str:
    """The first sentence of an SDK error. The rest is advice for users of the SDK."""
    text = str(problem) or type(problem).__name__
    return text.partition(": The sandbox")[0].partition(": This error")[0]
