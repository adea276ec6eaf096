"""A backend whose places are kept by one thread each: waiting for a network or a process holds up nobody else."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence, Set

from whyrun.execution.backends.remote import RemoteJob, RemotePost
from whyrun.execution.backends.transport import PlaceLost
from whyrun.execution.backends.waiting import unqueued
from whyrun.execution.backends.wakeup import Wakeup
from whyrun.execution.commands import (
    NO_NEEDS,
    ExecStep,
    Message,
    PrepareFailed,
    Session,
    StepBegan,
    StepFinished,
    StepLost,
    StepNeeds,
)
from whyrun.execution.wire import timestamp

_PATIENCE = 15.0  # seconds for posts to be left
MakePost = Callable[[Session], RemotePost]


class ThreadedBackend:
    """`make_post` makes one post after the other, as they are needed, up to the session's number of workers."""

    def __init__(self, name: str, make_post: MakePost) -> None:
        self.name = name
        self._make_post = make_post
        self._changed = threading.Condition()
        self._queue: deque[RemoteJob] = deque()
        self._running: dict[str, RemotePost] = {}
        self._ready: list[Message] = []
        self._idle: list[RemotePost] = []  # made and prepared, but not yet kept by a thread
        self._posts: list[RemotePost] = []
        self._threads: list[threading.Thread] = []
        self._closing = False

    def open(self, session: Session) -> None:
        self._session = session
        session.tmp.mkdir(parents=True, exist_ok=True)
        self._wakeup = Wakeup()

    def prepare(self, stopped: Callable[[], bool]) -> None:
        """One worker answers before anything starts; a place that cannot work is seen here and not step by step."""
        post = self._new_post()
        self._idle.append(post)
        try:
            post.open(stopped=stopped)
            if self._session.prepare is not None:
                post.prepare(self._session.prepare, stopped)
        except PlaceLost as lost:
            raise PrepareFailed(str(lost)) from lost

    def submit(self, command: ExecStep, secrets: Mapping[str, str] | None = None, needs: StepNeeds = NO_NEEDS) -> None:
        with self._changed:
            self._queue.append(RemoteJob(command, dict(secrets or {}), needs))
            # A thread whose step has been told as ended is as good as free, also where it does not wait yet.
            free = len(self._threads) - len(self._running)
            if free < len(self._queue) and len(self._threads) < self._session.workers:
                post = self._idle.pop() if self._idle else self._new_post()
                thread = threading.Thread(target=self._keep, args=(post,), daemon=True, name=f"whyrun-{self.name}")
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
            return unqueued(self._queue, steps)

    def acknowledge(self, step_id: str, key: str) -> None:
        post = self._running.get(step_id)
        if post is not None:
            post.acknowledge(step_id, key)

    def signal(self, step_id: str, signum: int) -> None:
        with self._changed:
            post = self._running.get(step_id)
            if post is not None:
                post.signal(step_id, signum)
                return
            # Submitted, and not yet with any post: it never begins. Its loss is told, so that the runner hears an end.
            waiting = [job for job in self._queue if job.command.step_id == step_id]
            for job in waiting:
                self._queue.remove(job)
        for job in waiting:
            self._say(StepLost(step_id, job.command.attempt, timestamp(), "the step was ended before it began"))

    def messages(self, timeout: float) -> Sequence[Message]:
        if not self._ready:
            self._wakeup.wait(timeout)
        return self.take()

    def take(self) -> Sequence[Message]:
        """What is there, without waiting."""
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
        for post in running:
            post.stop()
        for post in self._idle:
            post.part()
        deadline = time.monotonic() + _PATIENCE
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._wakeup.close()

    # --- in the threads ------------------------------------------------------------------------------------------

    def _new_post(self) -> RemotePost:
        post = self._make_post(self._session)
        self._posts.append(post)
        return post

    def _keep(self, post: RemotePost) -> None:
        while (job := self._next(post)) is not None:
            self._perform(post, job)
        post.part()

    def _next(self, post: RemotePost) -> RemoteJob | None:
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closing)
            if self._closing:
                return None
            job = self._queue.popleft()
            self._running[job.command.step_id] = post
            return job

    def _perform(self, post: RemotePost, job: RemoteJob) -> None:
        command = job.command
        began = False

        def say(message: Message) -> None:
            nonlocal began
            began = began or isinstance(message, StepBegan)
            self._say(message)

        try:
            post.perform(job, say)
        except Exception as problem:  # a fault of ours in a thread must not leave the runner waiting for ever
            if not began:
                self._say(StepBegan(command.step_id, command.attempt, timestamp()))
            reason = f"the host failed to run it: {type(problem).__name__}: {problem}"
            self._say(StepLost(command.step_id, command.attempt, timestamp(), reason))
            post.close()

    def _say(self, message: Message) -> None:
        with self._changed:
            if isinstance(message, StepFinished | StepLost):
                self._running.pop(message.step_id, None)
            self._ready.append(message)
        self._wakeup.wake()
