"""Questions to somebody who may not answer: asked in threads of their own, waited for only as long as words come."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Generic, TypeVar

Answer = TypeVar("Answer")
Alive = Callable[[], None]
Call = Callable[[Alive], Answer]  # is handed whom to tell that the other side is still there


class Errand(Generic[Answer]):
    def __init__(self, call: Call[Answer], then: Callable[[], None] | None = None) -> None:
        self.call, self.then = call, then
        self.done = False
        self.problem: Exception | None = None
        self._answer: Answer | None = None

    def run(self, alive: Alive) -> None:
        try:
            self._answer = self.call(alive)
        except Exception as problem:
            self.problem = problem  # raised for whoever asks for the answer

    def answer(self) -> Answer:
        if self.problem is not None:
            raise self.problem
        assert self.done, "an answer is asked for once it is there"
        return self._answer  # type: ignore[return-value]  # None only where the call gives None


class Errands:
    """A few threads that end with the process, whatever they wait for."""

    def __init__(self, threads: int, name: str) -> None:
        self._most, self._name = threads, name
        self._queue: SimpleQueue[Errand[object] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._condition = threading.Condition()
        self._heard = time.monotonic()
        self._going = 0
        self._open = True

    def send(self, call: Call[Answer], then: Callable[[], None] | None = None) -> Errand[Answer]:
        """`then` is called when it is done, by the thread that did it, before anybody hears of it."""
        errand = Errand(call, then)
        with self._condition:
            if not self._going:
                self._heard = time.monotonic()
            self._going += 1
        self._queue.put(errand)  # type: ignore[arg-type]  # what it gives is its own affair
        if len(self._threads) < self._most:
            thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._threads.append(thread)
            thread.start()
        return errand

    def wait(self, errands: Sequence[Errand[Answer]], patience: float, at_most: float = math.inf) -> bool:
        """Until all are done. False: nothing was heard for so many seconds, or `at_most` have passed."""
        until = time.monotonic() + at_most
        with self._condition:
            for errand in errands:  # each word wakes us: those that were done before are not looked at again
                while not errand.done:
                    left = min(self._heard + patience, until) - time.monotonic()
                    if left <= 0:
                        return False
                    self._condition.wait(left)
        return True

    def is_silent(self, patience: float) -> bool:
        """Has nothing been heard for so many seconds, although something was asked?"""
        with self._condition:
            return bool(self._going) and time.monotonic() > self._heard + patience

    def close(self) -> None:
        """What has not begun is not begun any more; what goes on is left alone."""
        self._open = False
        for _ in self._threads:
            self._queue.put(None)

    def _alive(self) -> None:
        with self._condition:
            self._heard = time.monotonic()
            self._condition.notify_all()

    def _work(self) -> None:
        while (errand := self._queue.get()) is not None:
            if self._open:
                errand.run(self._alive)
            with self._condition:
                errand.done = True
                self._going -= 1
                if errand.then is not None:
                    errand.then()
            self._alive()
