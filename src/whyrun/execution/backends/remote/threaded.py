"""A backend with one thread for each worker, so that waiting for a network or a process delays no other worker."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence, Set

from whyrun.execution.backends.base import (
    NO_NEEDS,
    PrepareFailed,
    Session,
    StepNeeds,
    Wakeup,
    WorkerLost,
    remove_queued,
)
from whyrun.execution.backends.remote.remote_worker import RemoteJob, RemoteWorker
from whyrun.execution.protocol.framing import timestamp
from whyrun.execution.protocol.messages import ExecStep, Message, StepBegan, StepFinished, StepLost

_PATIENCE = 15.0  # seconds for all workers to end
MakeWorker = Callable[[Session], RemoteWorker]


class ThreadedBackend:
    """`make_worker` is called whenever another worker is needed, up to `Session.workers` times."""

    def __init__(self, name: str, make_worker: MakeWorker) -> None:
        self.name = name
        self._make_worker = make_worker
        self._changed = threading.Condition()
        self._queue: deque[RemoteJob] = deque()
        self._running: dict[str, RemoteWorker] = {}
        self._ready: list[Message] = []
        self._idle: list[RemoteWorker] = []  # started and prepared, but without a thread
        self._workers: list[RemoteWorker] = []
        self._threads: list[threading.Thread] = []
        self._closing = False

    def open(self, session: Session) -> None:
        self._session = session
        session.tmp.mkdir(parents=True, exist_ok=True)
        self._wakeup = Wakeup()

    def prepare(self, stopped: Callable[[], bool]) -> None:
        """Start one worker and wait for its answer, so that a backend that does not work is noticed before the first
        step."""
        worker = self._new_worker()
        self._idle.append(worker)
        try:
            worker.open(stopped=stopped)
            if self._session.prepare is not None:
                worker.prepare(self._session.prepare, stopped)
        except WorkerLost as lost:
            raise PrepareFailed(str(lost)) from lost

    def submit(self, command: ExecStep, secrets: Mapping[str, str] | None = None, needs: StepNeeds = NO_NEEDS) -> None:
        with self._changed:
            self._queue.append(RemoteJob(command, dict(secrets or {}), needs))
            # A thread whose step has ended counts as free, even if it is still cleaning up.
            free = len(self._threads) - len(self._running)
            if free < len(self._queue) and len(self._threads) < self._session.workers:
                worker = self._idle.pop() if self._idle else self._new_worker()
                thread = threading.Thread(
                    target=self._run_worker, args=(worker,), daemon=True, name=f"whyrun-{self.name}"
                )
                self._threads.append(thread)
                thread.start()
            self._changed.notify()

    def room(self) -> int:
        with self._changed:
            return max(0, 2 * self._session.workers - len(self._queue) - len(self._running))

    def withdraw(self) -> list[ExecStep]:
        with self._changed:
            taken_back = [job.command for job in self._queue]
            self._queue.clear()
            return taken_back

    def unqueue(self, steps: Set[str]) -> list[ExecStep]:
        with self._changed:
            return remove_queued(self._queue, steps)

    def acknowledge(self, step_id: str, key: str) -> None:
        worker = self._running.get(step_id)
        if worker is not None:
            worker.acknowledge(step_id, key)

    def signal(self, step_id: str, signum: int) -> None:
        with self._changed:
            worker = self._running.get(step_id)
            if worker is not None:
                worker.signal(step_id, signum)
                return
            # Queued: the step never begins. Report it as lost, because the runner waits for its end.
            waiting = [job for job in self._queue if job.command.step_id == step_id]
            for job in waiting:
                self._queue.remove(job)
        for job in waiting:
            self._emit(StepLost(step_id, job.command.attempt, timestamp(), "the step was ended before it began"))

    def messages(self, timeout: float) -> Sequence[Message]:
        if not self._ready:
            self._wakeup.wait(timeout)
        return self.take()

    def take(self) -> Sequence[Message]:
        """The messages that have arrived, without waiting."""
        self._wakeup.clear()
        with self._changed:
            ready, self._ready = self._ready, []
        return ready

    def wakeup_fd(self) -> int | None:
        return self._wakeup.fileno()

    def close(self) -> None:
        with self._changed:
            self._closing = True
            self._queue.clear()
            self._changed.notify_all()
            running = list(self._running.values())
        for worker in running:
            worker.stop()
        for worker in self._idle:
            worker.clean_up()
        deadline = time.monotonic() + _PATIENCE
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._wakeup.close()

    # --- in the threads -----------------------------------------------------------------------------------------

    def _new_worker(self) -> RemoteWorker:
        worker = self._make_worker(self._session)
        self._workers.append(worker)
        return worker

    def _run_worker(self, worker: RemoteWorker) -> None:
        while (job := self._next(worker)) is not None:
            self._perform(worker, job)
        worker.clean_up()

    def _next(self, worker: RemoteWorker) -> RemoteJob | None:
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closing)
            if self._closing:
                return None
            job = self._queue.popleft()
            self._running[job.command.step_id] = worker
            return job

    def _perform(self, worker: RemoteWorker, job: RemoteJob) -> None:
        command = job.command
        began = False

        def emit(message: Message) -> None:
            nonlocal began
            began = began or isinstance(message, StepBegan)
            self._emit(message)

        try:
            worker.perform(job, emit)
        except Exception as problem:  # an error of Whyrun in this thread must not leave the runner waiting forever
            if not began:
                self._emit(StepBegan(command.step_id, command.attempt, timestamp()))
            reason = f"the host failed to run it: {type(problem).__name__}: {problem}"
            self._emit(StepLost(command.step_id, command.attempt, timestamp(), reason))
            worker.close()

    def _emit(self, message: Message) -> None:
        with self._changed:
            if isinstance(message, StepFinished | StepLost):
                self._running.pop(message.step_id, None)
            self._ready.append(message)
        self._wakeup.wake()
