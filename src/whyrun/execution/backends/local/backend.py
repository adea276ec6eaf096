"""The default backend: a pool of worker processes on this machine.

Single-threaded. Commands wait here and go to workers one at a time; only while steps take a few milliseconds are some
sent ahead, and even those can be taken back as long as no worker has taken them.
"""

from __future__ import annotations

import os
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence, Set
from itertools import count, islice

from whyrun.execution.backends.local_worker import Job, LocalWorker
from whyrun.execution.backends.waiting import unqueued
from whyrun.execution.commands import (
    NO_NEEDS,
    ExecStep,
    Message,
    MetricReported,
    Session,
    StepBegan,
    StepFinished,
    StepNeeds,
    TaskReported,
)
from whyrun.execution.wire import timestamp

_SHORT = 0.005  # seconds: steps that take less are sent ahead
_AHEAD = 8  # how many, beyond the one that runs
_MOST_AHEAD, _AHEAD_FOR = 256, 0.04  # as many as take so many seconds, where that is more: fewer, fuller turns
_STALE = 0.01  # seconds that commands may wait behind a step that turned out long, before they are taken back
_SMOOTHING = 0.2
_GATHER = 0.002  # seconds at most to let short messages gather while every worker has enough to do
# After so many words in a row that nobody waits for, they may gather for so many seconds, where all that runs has been
# running for so long that its end may be heard of that much later.
_TALK, _LISTEN, _LONG = 16, 0.02, 1.0
_PATIENCE = 1.0  # seconds for idle workers to end by themselves


class LocalBackend:
    name = "local"

    def __init__(self) -> None:
        self._queue: deque[Job] = deque()
        self._workers: list[LocalWorker] = []
        self._ready: list[Message] = []
        self._mean: float | None = None  # recent duration of a step, from its taking to its end
        self._numbers = count(1)
        self._listened = 0.0  # to the workers, the last time
        self._talk = 0  # words since one that somebody may wait for

    def open(self, session: Session) -> None:
        self._session = session
        session.tmp.mkdir(parents=True, exist_ok=True)
        self._selector = selectors.DefaultSelector()
        self._wakeup, self._wakeup_end = socket.socketpair()
        for end in (self._wakeup, self._wakeup_end):
            end.setblocking(False)
        self._selector.register(self._wakeup, selectors.EVENT_READ, None)

    def prepare(self, stopped: Callable[[], bool]) -> None:
        """Once, by the first worker: they are all at the same place."""
        if self._session.prepare is not None:
            self._hire().prepare(self._session.prepare, stopped)

    def submit(self, command: ExecStep, secrets: Mapping[str, str] | None = None, needs: StepNeeds = NO_NEEDS) -> None:
        """`secrets`: the values that this step refers to; they travel through a pipe and stand in no file."""
        known = self._session.known_files
        self._queue.append(Job(command, dict(secrets or {}), known(command) if known is not None else {}))

    def room(self) -> int:
        outstanding = len(self._queue) + sum(len(worker.jobs) for worker in self._workers)
        return max(0, self._session.workers * (1 + self._ahead()) * 2 - outstanding)

    def withdraw(self) -> list[ExecStep]:
        taken_back = [job for worker in self._workers for job in worker.take_back()]
        taken_back += self._queue
        self._queue.clear()
        return [job.command for job in taken_back]

    def unqueue(self, steps: Set[str]) -> list[ExecStep]:
        for worker in self._workers:
            self._queue.extendleft(reversed(worker.take_back()))
        return unqueued(self._queue, steps)

    def acknowledge(self, step_id: str, key: str) -> None:
        worker = self._running(step_id)
        if worker is not None:
            worker.acknowledge(step_id, key)

    def signal(self, step_id: str, signum: int) -> None:
        worker = self._running(step_id)
        if worker is None:
            return
        # With nothing left to take, the worker cannot begin another step that the signal would hit instead.
        self._queue.extendleft(reversed(worker.take_back()))
        if worker.jobs and worker.jobs[-1].command.step_id == step_id:
            worker.signal(signum)

    def messages(self, timeout: float) -> Sequence[Message]:
        # Given out before waiting and not after: what has just ended may mean that nothing more is to start.
        self._dispatch()
        if not self._ready:
            self._wait(timeout)
        ready, self._ready = self._ready, []
        return ready

    def wakeup_fd(self) -> int | None:
        return self._wakeup_end.fileno()

    def close(self) -> None:
        for worker in self._workers:
            worker.let_go()
        deadline = time.monotonic() + _PATIENCE
        for worker in self._workers:
            self._unregister(worker)
            worker.end(max(0.0, deadline - time.monotonic()))
            worker.remove_scratch()
        self._workers.clear()
        self._queue.clear()
        self._selector.close()
        self._wakeup.close()
        self._wakeup_end.close()

    # --- giving out ----------------------------------------------------------------------------------------------

    def _ahead(self) -> int:
        if self._mean is None or self._mean >= _SHORT:
            return 0
        return max(_AHEAD, min(_MOST_AHEAD, int(_AHEAD_FOR / max(self._mean, 1e-6))))

    def _dispatch(self) -> None:
        self._rebalance()
        if not self._queue:
            return
        for worker in self._workers:
            if not worker.jobs:
                self._give(worker, 1)
        while self._queue and len(self._workers) < self._session.workers:
            self._give(self._hire(), 1)
        ahead = self._ahead()
        if ahead:
            share = -(-len(self._queue) // len(self._workers))
            for worker in self._workers:
                # Not to one that is still starting, or in a long step: it would all be taken back in a moment.
                if worker.worked and not self._is_in_a_long_step(worker):
                    self._give(worker, min(share, 1 + ahead - len(worker.jobs)))

    def _give(self, worker: LocalWorker, number: int) -> None:
        while number > 0 and self._queue:
            given = worker.give(list(islice(self._queue, number)))
            if not given:
                return
            for _ in range(given):
                self._queue.popleft()
            number -= given

    def _rebalance(self) -> None:
        """Take back what waits behind a step that turned out long."""
        for worker in self._workers:
            if worker.waiting() and self._is_in_a_long_step(worker):
                self._queue.extendleft(reversed(worker.take_back()))

    def _is_in_a_long_step(self, worker: LocalWorker) -> bool:
        """By when it was last listened to: what it has done since then, while this process was busy, is not known."""
        return worker.last_turn < self._listened - _STALE

    def _hire(self) -> LocalWorker:
        scratch = self._session.tmp / f"{self._session.run}-{os.getpid()}-{next(self._numbers)}"
        worker = LocalWorker(self._session, scratch)
        self._workers.append(worker)
        self._selector.register(worker.messages_fd, selectors.EVENT_READ, worker)
        self._selector.register(worker.pidfd, selectors.EVENT_READ, worker)
        return worker

    def _running(self, step_id: str) -> LocalWorker | None:
        for worker in self._workers:
            if worker.current is not None and worker.current.command.step_id == step_id:
                return worker
        return None

    # --- hearing -------------------------------------------------------------------------------------------------

    def _wait(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not self._ready:
            rest = max(0.0, deadline - time.monotonic())
            if any(worker.waiting() for worker in self._workers):
                rest = min(rest, _STALE)
            if rest > _GATHER:
                self._gather()
            events = self._selector.select(rest)
            self._listened = time.monotonic()
            if not events:
                self._talk = 0
            dead: list[LocalWorker] = []
            woken = False
            for key, _ in events:
                worker: LocalWorker | None = key.data
                if worker is None:
                    woken = bool(self._wakeup.recv(4096))
                elif key.fd == worker.pidfd:
                    dead.append(worker)
                else:
                    self._hear(worker)
            for worker in dead:
                self._bury(worker)
            if self._ready or woken or time.monotonic() >= deadline:
                return
            self._dispatch()

    def _gather(self) -> None:
        """Let words gather while every worker has enough to do: each one that is waited for wakes this process, which
        costs the one who speaks as much as the word itself."""
        if self._talk >= _TALK and all(self._listened - worker.last_turn > _LONG for worker in self._workers):
            time.sleep(_LISTEN)
            return
        fewest = min((len(worker.jobs) for worker in self._workers), default=0)
        if self._mean is not None and self._mean < _SHORT and fewest > _AHEAD // 2:
            time.sleep(min(_GATHER, fewest * self._mean / 2))

    def _hear(self, worker: LocalWorker) -> None:
        for message in worker.hear():
            self._talk = self._talk + 1 if isinstance(message, TaskReported | MetricReported) else 0
            if isinstance(message, StepFinished):
                duration = message.duration
                self._mean = duration if self._mean is None else self._mean + _SMOOTHING * (duration - self._mean)
            self._ready.append(message)

    def _bury(self, worker: LocalWorker) -> None:
        """A worker is gone: its last messages, a word on the step that it ran, and the rest of its queue back."""
        self._hear(worker)
        self._unregister(worker)
        self._workers.remove(worker)
        waiting = worker.take_back()
        taken = worker.end()
        if not taken and not worker.worked:
            # It did not even start. Its first command is reported, or the next worker would die in the same way.
            taken = waiting[:1]
            waiting = waiting[1:]
        if taken:
            lost = taken.pop(0)
            if worker.current is not lost:  # taken, but its beginning was not told: the log wants one all the same
                self._ready.append(StepBegan(lost.command.step_id, lost.command.attempt, timestamp()))
            self._ready.append(worker.lost(lost))
        worker.remove_scratch()
        self._queue.extendleft(reversed([*taken, *waiting]))

    def _unregister(self, worker: LocalWorker) -> None:
        self._selector.unregister(worker.messages_fd)
        self._selector.unregister(worker.pidfd)
