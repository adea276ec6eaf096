"""Calls to a store that may be slow or never answer, made by a few daemon threads."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Generic, TypeVar

Answer = TypeVar("Answer")
Alive = Callable[[], None]  # reports that the other side still answers
Call = Callable[[Alive], Answer]


class BackgroundCall(Generic[Answer]):
    def __init__(self, call: Call[Answer], then: Callable[[], None] | None = None) -> None:
        self.call, self.then = call, then
        self.done = False
        self.problem: Exception | None = None
        self._answer: Answer | None = None

    def run(self, alive: Alive) -> None:
        try:
            self._answer = self.call(alive)
        except Exception as problem:
            self.problem = problem  # raised by `answer`

    def answer(self) -> Answer:
        if self.problem is not None:
            raise self.problem
        assert self.done, "an answer is read once the call is done"
        return self._answer  # type: ignore[return-value]  # None only where the call returns None


class BackgroundCalls:
    """A few threads that end with the process, even in the middle of a call."""

    def __init__(self, threads: int, name: str) -> None:
        self._most, self._name = threads, name
        self._queue: SimpleQueue[BackgroundCall[object] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._condition = threading.Condition()
        self._last_sign = time.monotonic()  # when the other side last answered
        self._unfinished = 0
        self._open = True

    def start(self, call: Call[Answer], then: Callable[[], None] | None = None) -> BackgroundCall[Answer]:
        """`then` is called in the thread of the call, before anybody is notified that the call is done."""
        started = BackgroundCall(call, then)
        with self._condition:
            if not self._unfinished:
                self._last_sign = time.monotonic()
            self._unfinished += 1
        self._queue.put(started)  # type: ignore[arg-type]  # the queue does not care about the type of the answer
        if len(self._threads) < self._most:
            thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._threads.append(thread)
            thread.start()
        return started

    def wait(self, calls: Sequence[BackgroundCall[Answer]], patience: float, at_most: float = math.inf) -> bool:
        """Wait until all are done. False: `patience` seconds passed without a sign of life, or `at_most` in all."""
        until = time.monotonic() + at_most
        with self._condition:
            for call in calls:  # every sign of life wakes us; calls that were done before are not checked again
                while not call.done:
                    left = min(self._last_sign + patience, until) - time.monotonic()
                    if left <= 0:
                        return False
                    self._condition.wait(left)
        return True

    def is_silent(self, patience: float) -> bool:
        """Whether calls are open and the other side has been silent for `patience` seconds."""
        with self._condition:
            return bool(self._unfinished) and time.monotonic() > self._last_sign + patience

    def close(self) -> None:
        """Queued calls do not start any more; running ones are left alone."""
        self._open = False
        for _ in self._threads:
            self._queue.put(None)

    def _alive(self) -> None:
        with self._condition:
            self._last_sign = time.monotonic()
            self._condition.notify_all()

    def _work(self) -> None:
        while (call := self._queue.get()) is not None:
            if self._open:
                call.run(self._alive)
            with self._condition:
                call.done = True
                self._unfinished -= 1
                if call.then is not None:
                    call.then()
            self._alive()
