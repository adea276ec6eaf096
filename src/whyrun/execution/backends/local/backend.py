"""The default backend: a pool of worker processes on this machine.

Single-threaded. Commands wait in the backend's queue, and each worker gets one at a time. Only while steps take a few
milliseconds does the backend send commands ahead, and it can take back those that no worker has begun.
"""

from __future__ import annotations

import os
import selectors
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from itertools import count, islice

from whyrun.execution.backends.base import NO_NEEDS, Session, StepNeeds, Wakeup, remove_queued
from whyrun.execution.backends.local.worker_process import Job, LocalWorker
from whyrun.execution.files.input_views import why_impossible
from whyrun.execution.protocol.framing import timestamp
from whyrun.execution.protocol.messages import ExecStep, Message, MetricReported, StepBegan, StepFinished, TaskReported

_SHORT = 0.005  # seconds: shorter steps are sent ahead
_AHEAD = 8  # how many, beyond the running one
_MOST_AHEAD, _AHEAD_SECONDS = 256, 0.04  # or as many as take this long: fewer, larger messages
_STALE = 0.01  # seconds that commands may wait behind a step that turned out long, before they are taken back
_SMOOTHING = 0.2
_GATHER = 0.002  # seconds at most to let messages of short steps gather while every worker has enough to do
# After this many messages in a row for which nobody waits, messages may gather for this many seconds, provided that
# every running step has been running for so long that a later notice of its end does not matter.
_CHATTER, _GATHER_CHATTER, _LONG = 16, 0.02, 1.0
_PATIENCE = 1.0  # seconds for idle workers to end by themselves


def local_backend() -> LocalBackend:
    return LocalBackend()


class LocalBackend:
    name = "local"

    def __init__(self) -> None:
        self._queue: deque[Job] = deque()
        self._workers: list[LocalWorker] = []
        self._ready: list[Message] = []
        self._mean: float | None = None  # recent mean duration of a step
        self._numbers = count(1)
        self._listened = 0.0  # when the workers' messages were last read
        self._chatter = 0  # task and metric messages in a row

    def open(self, session: Session) -> None:
        session.tmp.mkdir(parents=True, exist_ok=True)
        if session.views and (problem := why_impossible(session.tmp)) is not None:
            session.note(f"no read-only views of inputs on this machine ({problem}): large inputs are links")
            session = replace(session, views=False)
        self._session = session
        self._selector = selectors.DefaultSelector()
        self._wakeup = Wakeup()
        self._selector.register(self._wakeup.reader, selectors.EVENT_READ, None)

    def prepare(self, stopped: Callable[[], bool]) -> None:
        """Run the `prepare` command once, in the first worker: all workers share this machine."""
        if self._session.prepare is not None:
            self._hire().prepare(self._session.prepare, stopped)

    def submit(self, command: ExecStep, secrets: Mapping[str, str] | None = None, needs: StepNeeds = NO_NEEDS) -> None:
        host = self._session.host
        self._queue.append(Job(command, dict(secrets or {}), host.known_files(command) if host is not None else {}))

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
        return remove_queued(self._queue, steps)

    def acknowledge(self, step_id: str, key: str) -> None:
        worker = self._running(step_id)
        if worker is not None:
            worker.acknowledge(step_id, key)

    def signal(self, step_id: str, signum: int) -> None:
        worker = self._running(step_id)
        if worker is None:
            return
        # Without further commands the worker cannot begin another step, which the signal would then hit.
        self._queue.extendleft(reversed(worker.take_back()))
        if worker.jobs and worker.jobs[-1].command.step_id == step_id:
            worker.signal(signum)

    def messages(self, timeout: float) -> Sequence[Message]:
        # Send commands before waiting, not after: the runner must see the new messages first, because they may mean
        # that no further step may start.
        self._dispatch()
        if not self._ready:
            self._wait(timeout)
        ready, self._ready = self._ready, []
        return ready

    def wakeup_fd(self) -> int | None:
        return self._wakeup.fileno()

    def close(self) -> None:
        for worker in self._workers:
            worker.finish()
        deadline = time.monotonic() + _PATIENCE
        for worker in self._workers:
            self._unregister(worker)
            worker.end(max(0.0, deadline - time.monotonic()))
            worker.remove_scratch()
        self._workers.clear()
        self._queue.clear()
        self._selector.close()
        self._wakeup.close()

    # --- sending commands ---------------------------------------------------------------------------------------

    def _ahead(self) -> int:
        if self._mean is None or self._mean >= _SHORT:
            return 0
        return max(_AHEAD, min(_MOST_AHEAD, int(_AHEAD_SECONDS / max(self._mean, 1e-6))))

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
                # Not to a worker that is still starting or in a long step: the commands would soon be taken back.
                if worker.worked and not self._is_in_a_long_step(worker):
                    self._give(worker, min(share, 1 + ahead - len(worker.jobs)))

    def _give(self, worker: LocalWorker, number: int) -> None:
        while number > 0 and self._queue:
            sent = worker.give(list(islice(self._queue, number)))
            if not sent:
                return
            for _ in range(sent):
                self._queue.popleft()
            number -= sent

    def _rebalance(self) -> None:
        """Take back commands that wait behind a step that turned out long."""
        for worker in self._workers:
            if worker.waiting() and self._is_in_a_long_step(worker):
                self._queue.extendleft(reversed(worker.take_back()))

    def _is_in_a_long_step(self, worker: LocalWorker) -> bool:
        """Judged by when its messages were last read: what it did since then, while the host was busy, is not known."""
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

    # --- receiving messages -------------------------------------------------------------------------------------

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
                self._chatter = 0
            dead: list[LocalWorker] = []
            woken = False
            for key, _ in events:
                worker: LocalWorker | None = key.data
                if worker is None:
                    self._wakeup.clear()
                    woken = True
                elif key.fd == worker.pidfd:
                    dead.append(worker)
                else:
                    self._receive(worker)
            for worker in dead:
                self._remove_dead(worker)
            if self._ready or woken or time.monotonic() >= deadline:
                return
            self._dispatch()

    def _gather(self) -> None:
        """Sleep briefly while every worker has enough to do, so that messages gather: waking this process for a single
        message costs the worker as much as writing the message."""
        if self._chatter >= _CHATTER and all(self._listened - worker.last_turn > _LONG for worker in self._workers):
            time.sleep(_GATHER_CHATTER)
            return
        fewest = min((len(worker.jobs) for worker in self._workers), default=0)
        if self._mean is not None and self._mean < _SHORT and fewest > _AHEAD // 2:
            time.sleep(min(_GATHER, fewest * self._mean / 2))

    def _receive(self, worker: LocalWorker) -> None:
        for message in worker.receive():
            self._chatter = self._chatter + 1 if isinstance(message, TaskReported | MetricReported) else 0
            if isinstance(message, StepFinished):
                duration = message.duration
                self._mean = duration if self._mean is None else self._mean + _SMOOTHING * (duration - self._mean)
            self._ready.append(message)

    def _remove_dead(self, worker: LocalWorker) -> None:
        """A worker has died: read its last messages, report its step as lost, and requeue its other commands."""
        self._receive(worker)
        self._unregister(worker)
        self._workers.remove(worker)
        waiting = worker.take_back()
        taken = worker.end()
        if not taken and not worker.worked:
            # It died while starting. Report its first command as lost, or the next worker would die in the same way.
            taken = waiting[:1]
            waiting = waiting[1:]
        if taken:
            lost = taken.pop(0)
            if worker.current is not lost:  # taken, but it sent no `StepBegan`, which the log needs
                self._ready.append(StepBegan(lost.command.step_id, lost.command.attempt, timestamp()))
            self._ready.append(worker.lost(lost))
        worker.remove_scratch()
        self._queue.extendleft(reversed([*taken, *waiting]))

    def _unregister(self, worker: LocalWorker) -> None:
        self._selector.unregister(worker.messages_fd)
        self._selector.unregister(worker.pidfd)
