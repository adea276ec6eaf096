"""Calls of the E2B SDK that cannot hang: while one is under way, the sandbox is looked at.

A lost network answers nothing and refuses nothing, and the SDK waits as long as it is told to. So each call runs in a
thread of its own, which is left behind when the sandbox is out of reach.
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

from whyrun.execution.backends.transport import PlaceLost

if TYPE_CHECKING:
    from e2b import Sandbox

T = TypeVar("T")

QUIET = 1.3  # seconds without a sign of life after which the sandbox is asked for one
PROBE = 1.5  # seconds for its answer
SILENCE = 2.5  # seconds without a sign of life after which failing requests mean that it is lost
_LOOK = 0.5  # seconds between two looks at a call
_PAUSE = 0.1  # seconds before another try
_TRIES = 3

# `ServiceBusy` and `Authentication` stand beside the tree of the others. Some of what the transports below it raise the
# SDK hands on: `HTTPError` for files, and a bare `ConnectError` where a connection broke though the sandbox answers.
SDK_ERRORS = (
    e2b.SandboxException,
    e2b.AuthenticationException,
    e2b.exceptions.ServiceBusyException,
    httpx.HTTPError,
    ConnectError,
)
# The connection broke, nobody answered in time, or had no time. The request may have been carried out or not.
BROKEN = (
    e2b.TimeoutException,
    e2b.RateLimitException,
    e2b.exceptions.ServiceBusyException,
    httpx.TransportError,
    ConnectError,
)
GONE = (e2b.exceptions.SandboxNotRunningException, e2b.SandboxNotFoundException)


class Reach:
    """Whether a sandbox is there. Once lost, it stays lost: every later call says so at once."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._alive = time.monotonic()
        self._lost: str | None = None

    def seen_alive(self) -> None:
        """A sign of life was seen."""
        self._alive = time.monotonic()

    def silent_for(self) -> float:
        return time.monotonic() - self._alive

    def lose(self, reason: str) -> PlaceLost:
        self._lost = self._lost or reason
        return PlaceLost(self._lost)

    @property
    def is_lost(self) -> bool:
        return self._lost is not None

    def check(self) -> None:
        if self._lost is not None:
            raise PlaceLost(self._lost)

    def look(self) -> None:
        """Ask for a sign of life, unless there was one just now."""
        self.check()
        if self.silent_for() < QUIET:
            return
        try:
            # Not `is_running`: it waits twice as long as told, and takes a closed port for the end of the sandbox.
            _within(PROBE, lambda: self._sandbox.commands.list(request_timeout=PROBE))
        except SDK_ERRORS as problem:
            self.failed(problem)
        else:
            self.seen_alive()

    def failed(self, problem: Exception) -> None:
        """A request came to nothing. Raises `PlaceLost` if that is how it will stay."""
        self.check()
        if isinstance(problem, GONE):
            raise self.lose("the sandbox is gone")
        if not (isinstance(problem, BROKEN) or is_cut(problem)):
            raise self.lose(f"the sandbox refused a request: {brief(problem)}")
        if self.silent_for() > SILENCE:
            raise self.lose(f"the sandbox cannot be reached: {brief(problem)}")

    def call(self, function: Callable[[], T], limit: float | None = None) -> T:
        """The result of a call that may be made again, and is after `limit` seconds: its connection may hang though the
        sandbox answers others. Not found, and a command's exit status, are for the caller."""
        for tried in range(1, _TRIES + 1):
            try:
                return self._watched(function, limit)
            except GONE as problem:
                self.failed(problem)
            except (e2b.NotFoundException, e2b.CommandExitException):
                self.seen_alive()
                raise
            except Exception as problem:
                if not (isinstance(problem, SDK_ERRORS) or is_cut(problem)):
                    raise
                self.failed(problem)
                if tried == _TRIES:
                    raise self.lose(f"the sandbox cannot be used: {brief(problem)}") from None
                time.sleep(_PAUSE * tried)
        raise AssertionError("a call ends with its result or an exception")

    def _watched(self, function: Callable[[], T], limit: float | None) -> T:
        self.check()
        deadline = None if limit is None else time.monotonic() + limit
        done: queue.SimpleQueue[Callable[[], T]] = queue.SimpleQueue()
        threading.Thread(target=_perform, args=(function, done), daemon=True).start()
        while True:
            try:
                outcome = done.get(timeout=_LOOK)
            except queue.Empty:
                self.look()
                if deadline is not None and time.monotonic() > deadline:
                    raise e2b.TimeoutException(f"no answer within {limit:g} s") from None
                continue
            result = outcome()
            self.seen_alive()
            return result


def _within(limit: float, function: Callable[[], T]) -> T:
    """The SDK tries again by itself, also beyond the time that it is told."""
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


def is_cut(problem: Exception) -> bool:
    """The stream of a command ended without a word on the command, for which the SDK has no type."""
    return type(problem) is Exception and "without an end event" in str(problem)


def brief(problem: Exception) -> str:
    """The first sentence; the SDK goes on with advice to its own users."""
    text = str(problem) or type(problem).__name__
    return text.partition(": The sandbox")[0].partition(": This error")[0]
