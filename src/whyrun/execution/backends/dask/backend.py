"""Runs the worker on a Dask cluster: a `LocalCluster` started here, a cluster with an address, or SLURM jobs.

One task of the cluster is one attempt of one step. Only steps that take milliseconds share a task. Dask itself retries
nothing: the death of a worker is a failed attempt in the log, and the job's `retries` decide about another one. Steps
share no folder with the host.
"""

from __future__ import annotations

import importlib.util
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from whyrun.artifacts.store import Store
from whyrun.errors import error
from whyrun.execution.backends.base import NO_NEEDS, Session, StepNeeds, Wakeup, remove_queued
from whyrun.execution.backends.dask.cluster import ANSWER, SLURM, START, ClusterLost, DaskCluster
from whyrun.execution.backends.dask.payload import Payloads, fetch_results
from whyrun.execution.backends.dask.slurm import check_slurm
from whyrun.execution.backends.dask.tasks import (
    DaskWorkers,
    SentStep,
    Task,
    can_share_task,
    cluster_resources,
    loss_messages,
)
from whyrun.execution.backends.dask.watch import Watch
from whyrun.execution.backends.remote.remote_worker import RemoteJob
from whyrun.execution.protocol.framing import decode_message
from whyrun.execution.protocol.messages import ExecStep, Message, Pong, Prepared, StepBegan, StepFinished, StepLost
from whyrun.execution.worker.context import StepCancelled
from whyrun.execution.worker.outbox import UNNUMBERED

AHEAD = 2  # tasks for each thread of the cluster: one runs, one waits at the worker
SHORT = 0.02  # seconds: shorter steps share a task
TOGETHER = 16  # steps in one task, at most
LONG = 0.5  # seconds after which steps that wait behind another may go to an idle worker
POLL = 0.1  # seconds between two checks whether the run was stopped
LATE = 60.0  # seconds that a message may arrive after the end of its step


def dask_backend(dask_address: str | None = None) -> DaskBackend:
    return DaskBackend(dask_address)


class DaskBackend:
    name = "dask"

    def __init__(self, address: str | None = None) -> None:
        if importlib.util.find_spec("distributed") is None:
            hint = "pip install 'whyrun[dask]'"
            raise error("BACKEND_UNAVAILABLE", "the package `distributed` is not installed", hint=hint)
        self._start = check_slurm() if address == SLURM else START
        self._address = address
        self._queue: deque[RemoteJob] = deque()
        self._sent: dict[str, SentStep] = {}
        self._ready: list[Message] = []
        self._numbered = 0
        self._tasks = 0  # unfinished tasks of the cluster
        self._done: list[Task] = []  # ended tasks whose results must be fetched
        self._over: dict[str, list[str]] = {}  # worker → steps that ended before the other steps of their task
        self._spread_at = 0.0  # when `_spread` last looked for steps that wait behind others
        self._stopping = False
        self._mean: float | None = None  # recent duration of a step
        self._early: list[tuple[float, SentStep, dict[str, Any]]] = []  # results that arrived before all messages
        self._lock = threading.RLock()
        self.at_work: set[str] = set()
        self._workers = DaskWorkers()
        self._gone: str | None = None  # why the cluster is lost

    # --- opening and closing ------------------------------------------------------------------------------------

    def open(self, session: Session) -> None:
        self._session = session
        self._store = Store(session.store)
        self._cluster = DaskCluster(session, self._address, self._start)
        self._payloads = Payloads(session, self._store, self._cluster.name)
        session.tmp.mkdir(parents=True, exist_ok=True)
        self._wakeup = Wakeup()

    def prepare(self, stopped: Callable[[], bool]) -> None:
        """Enter the cluster in a thread, because it cannot be interrupted: stopping the run must not wait for it."""
        self._cluster.connect()
        problems: list[BaseException] = []

        def enter() -> None:
            try:
                self._cluster.enter(self._receive, stopped)
            except BaseException as problem:
                problems.append(problem)

        entering = threading.Thread(target=enter, daemon=True, name="whyrun-dask-enter")
        entering.start()
        while entering.is_alive() and not stopped():
            entering.join(POLL)
        if problems:
            raise problems[0]
        if not entering.is_alive():
            Watch(self._cluster, self).start()

    def close(self) -> None:
        self._cluster.leave(reachable=self._gone is None)
        self._wakeup.close()

    # --- sending ------------------------------------------------------------------------------------------------

    def submit(self, command: ExecStep, secrets: Mapping[str, str] | None = None, needs: StepNeeds = NO_NEEDS) -> None:
        self._queue.append(RemoteJob(command, dict(secrets or {}), needs))

    def room(self) -> int:
        return max(0, self._cluster.threads * self._ahead() * self._together() * 2 - len(self._queue) - len(self._sent))

    def _ahead(self) -> int:
        """Long steps do not wait at a worker: if it died, nobody could tell whether they had begun."""
        return AHEAD if self._together() > 1 else 1

    def _together(self) -> int:
        return TOGETHER if self._mean is not None and self._mean < SHORT else 1

    def _dispatch(self) -> None:
        while self._queue and self._gone is not None:
            self._report_unsent(self._queue.popleft(), self._gone)
        if self._workers.any_may_end():
            return
        while self._queue and (free := max(1, self._cluster.threads) * self._ahead() - self._tasks) > 0:
            # No more than the share of each thread, so that few steps are spread over all workers.
            together = min(self._together(), -(-len(self._queue) // free))
            jobs = [self._queue.popleft()]
            while self._queue and len(jobs) < together and can_share_task(jobs[0]) and can_share_task(self._queue[0]):
                jobs.append(self._queue.popleft())
            try:
                payloads = [self._payloads.pack(self._cluster.client, job) for job in jobs]
                wanted = cluster_resources(jobs[0].needs, self._cluster.offered)
            except (OSError, ValueError, msgspec.DecodeError) as problem:
                for job in jobs:
                    self._report_unsent(job, f"{type(problem).__name__}: {problem}")
                continue
            self._send(jobs, payloads, wanted)

    def _send(self, jobs: list[RemoteJob], payloads: list[dict[str, Any]], wanted: dict[str, float]) -> None:
        with self._lock:  # a message of the step may arrive before `submit` returns
            self._numbered += 1
            sent = [SentStep(job, self._numbered) for job in jobs]
            self._sent.update((one.job.command.step_id, one) for one in sent)
            self._tasks += 1
        try:
            future = self._cluster.submit(self._numbered, payloads, wanted)
        except ClusterLost as lost:
            self.cluster_lost(f"the Dask scheduler is gone: {lost}")
            return
        task = Task(future, sent)
        future.add_done_callback(lambda _: self._ended(task))

    def withdraw(self) -> list[ExecStep]:
        """Take back the queued commands, and those of the sent ones that no worker has begun."""
        self._stopping = True
        taken_back = [job.command for job in self._queue]
        self._queue.clear()
        steps = [step for step, sent in self._sent.items() if sent.worker is None]
        if steps and self._gone is None:
            try:
                answers = self._cluster.send_order("withdraw", steps)
            except ClusterLost:  # the watching thread will report it
                return taken_back
            begun = {step for answer in answers.values() for step in answer or ()}
            with self._lock:
                for step in steps:
                    if step not in begun and step in self._sent and self._sent[step].worker is None:
                        taken_back.append(self._sent.pop(step).job.command)
        return taken_back

    def unqueue(self, steps: Set[str]) -> list[ExecStep]:
        return remove_queued(self._queue, steps)

    def acknowledge(self, step_id: str, key: str) -> None:
        self._order(step_id, "acknowledge", step_id, key)

    def signal(self, step_id: str, signum: int) -> None:
        sent = self._sent.get(step_id)
        if sent is not None:
            sent.host_signalled = True
        self._order(step_id, "signal", step_id, signum)

    def _order(self, step_id: str, name: str, *arguments: Any) -> None:
        sent = self._sent.get(step_id)
        if sent is None or self._gone is not None:
            return
        workers = [sent.worker] if sent.worker is not None else None
        for _ in range(2):
            try:
                self._cluster.send_order(name, *arguments, workers=workers)
                return
            except ClusterLost:  # slow, or gone: the watching thread will report it
                continue

    # --- receiving ----------------------------------------------------------------------------------------------

    def messages(self, timeout: float) -> Sequence[Message]:
        self._spread()
        self._dispatch()
        if not self._ready and not self._done and not self._over:
            self._wakeup.wait(timeout)
        self._wakeup.clear()
        self._collect_over()
        self._collect()
        with self._lock:
            ready, self._ready = self._ready, []
        return ready

    def wakeup_fd(self) -> int | None:
        return self._wakeup.fileno()

    def _receive(self, event: tuple[float, dict[str, Any]]) -> None:
        """Called in the client's thread: messages of running steps."""
        report = event[1]
        self.at_work.add(report["worker"])
        with self._lock:
            for line in bytes(report["lines"]).split(b"\n"):
                if line.startswith(b'{"wants"'):
                    step = msgspec.json.decode(line)["wants"]
                    if self._is_from(step, report["task"]):
                        self._sent[step].worker = report["worker"]
                        threading.Thread(target=self._give_secrets, args=(step,), daemon=True).start()
                elif line.startswith(b'{"ended"'):
                    ended = [step for step in msgspec.json.decode(line)["ended"] if self._is_from(step, report["task"])]
                    self._over.setdefault(report["worker"], []).extend(ended)
                else:
                    self._take(line, report["task"], report["worker"])
        self._wakeup.wake()

    def _is_from(self, step: str, task: int) -> bool:
        """Whether this task has the step now. A worker that was given up may still send messages of it."""
        return step in self._sent and self._sent[step].number == task

    def _take(self, line: bytes, task: int, worker: str | None) -> None:
        message = decode_message(line)
        if isinstance(message, Pong | Prepared) or not self._is_from(message.step_id, task):
            return
        sent = self._sent[message.step_id]
        sent.worker = worker or sent.worker
        if isinstance(message, StepBegan):
            sent.began = time.monotonic()
        if message.n == UNNUMBERED and worker is not None:
            self._ready.append(message)
        elif message.n == sent.expected:
            sent.expected += 1
            self._ready.append(message)

    def _give_secrets(self, step: str) -> None:
        sent = self._sent.get(step)
        if sent is not None:
            self._order(step, "secrets", step, sent.job.secrets)

    def _ended(self, task: Task) -> None:
        with self._lock:
            self._done.append(task)
        self._wakeup.wake()

    def _collect(self) -> None:
        self._check_early()
        with self._lock:
            done = [task for task in self._done if not task.over]
            self._done = []
        if not done or self._gone is not None:
            return
        try:
            results = self._cluster.fetch([task.future for task in done if task.future.status == "finished"])
        except ClusterLost as lost:
            self.cluster_lost(f"the Dask scheduler is gone: {lost}")
            return
        for task in done:
            result = results[task.future.key] if task.future.key in results else self._result(task)
            if isinstance(result, str):
                self._task_lost(task, result)
            elif self._release(task):
                for sent in task.steps:
                    self._end(sent, result.get(sent.job.command.step_id))

    def _check_early(self) -> None:
        early, self._early = self._early, []
        for deadline, sent, result in early:
            if time.monotonic() < deadline:
                self._end(sent, {**result, "said": b""})
            elif self._sent.pop(sent.job.command.step_id, None) is sent:
                self._report_lost(sent, f"its message {sent.expected} did not arrive")

    def _collect_over(self) -> None:
        """Fetch results of ended steps from their workers, instead of waiting for a long step of the same task."""
        with self._lock:
            over, self._over = self._over, {}
        for worker, steps in over.items():
            for step, result in (self._ask(worker, "results", steps) or {}).items():
                sent = self._sent.get(step)
                if sent is not None:
                    self._end(sent, result)

    def _spread(self) -> None:
        """Take back steps that wait behind a long one, if other workers are idle."""
        now = time.monotonic()
        idle = not self._queue and self._tasks < self._cluster.threads
        if not idle or self._stopping or now < self._spread_at + LONG:
            return
        self._spread_at = now
        waiting: dict[str, list[str]] = {}
        with self._lock:
            for sent in self._sent.values():
                if sent.worker is not None and sent.task is not None and sent.began < now - LONG:
                    behind = [one.job.command.step_id for one in sent.task.steps if one.worker is None]
                    if behind:
                        waiting[sent.worker] = behind
        for worker, steps in waiting.items():
            for step in self._ask(worker, "give_back", steps) or ():
                self._requeue(step)

    def _ask(self, worker: str, name: str, *arguments: Any) -> Any:
        """Ask the agent on a worker. Returns None if it does not answer; the watching thread reports that."""
        if self._gone is None:
            with suppress(ClusterLost):
                return self._cluster.send_order(name, *arguments, workers=[worker]).get(worker)
        return None

    def _requeue(self, step: str) -> None:
        with self._lock:
            sent = self._sent.pop(step, None)
        if sent is not None:
            self._queue.append(sent.job)

    def _end(self, sent: SentStep, result: dict[str, Any] | None) -> None:
        step = sent.job.command.step_id
        with self._lock:
            if self._sent.get(step) is not sent:
                return  # taken back, given up, or ended before
            if result is None and not self._stopping:  # the worker gave it back, but that message was lost
                self._requeue(step)
                return
            for line in result["said"].split(b"\n") if result is not None and result["said"] else ():
                self._take(line, sent.number, None)
            if result is None:
                del self._sent[step]
                self._report_lost(sent, "the step was ended before it began")
                return
            end = decode_message(result["end"])
            assert isinstance(end, StepFinished | StepLost)
            if end.n > sent.expected:  # earlier messages have not arrived yet
                self._early.append((time.monotonic() + LATE, sent, result))
                return
            del self._sent[step]
            cancelled = isinstance(end, StepFinished) and end.error_type == StepCancelled.__name__
            if cancelled and sent.worker is not None and not sent.host_signalled:
                self._workers.note_possible_end(sent.worker)
        self._mean = end.duration if self._mean is None else self._mean + 0.2 * (end.duration - self._mean)
        message = fetch_results(end, result, self._session, self._store, partial(self._ask, sent.worker or ""))
        with self._lock:
            self._ready.append(message)

    def _result(self, task: Task) -> dict[str, Any] | str:
        """The result of a task that `fetch` did not return, or the reason why there is none."""
        if task.future.status not in ("error", "cancelled"):  # it had finished, and its result was lost with its worker
            return self._workers.loss_reason(task.worker)
        try:
            result = task.future.result(timeout=ANSWER)
        except Exception as problem:
            name = type(problem).__name__
            if name == "KilledWorker" or self._cluster.is_refusal(problem):
                last = getattr(problem, "last_worker", None)
                return self._workers.loss_reason(task.worker or getattr(last, "address", None))
            if name in ("FutureCancelledError", "CancelledError"):
                return self._dropped(task, problem)
            return f"the Dask task ended with {name}: {problem}"
        assert isinstance(result, dict)
        return result

    def _dropped(self, task: Task, problem: Exception) -> str:
        """Why Dask cancelled a task, which this backend never does: the connection or needed data is lost, or somebody
        else cancelled it. Kills its steps, should they still run."""
        if not self._cluster.answers():
            self.cluster_lost("the Dask scheduler is gone: the connection to it was lost")
        for sent in task.steps if self._gone is None else ():
            self._order(sent.job.command.step_id, "signal", sent.job.command.step_id, signal.SIGKILL)
        return f"Dask has dropped the task: {problem}"

    def _release(self, task: Task) -> bool:
        """Release the task; False if it was released before."""
        with self._lock:
            if task.over:
                return False
            task.over = True
            self._tasks -= 1
        task.future.release()
        return True

    def _task_lost(self, task: Task, reason: str) -> None:
        """Report all open steps of a lost task as lost attempts. What the worker did just before it died is unknown,
        and a step that is executed twice must appear in the log twice."""
        if not self._release(task):
            return
        with self._lock:
            open_ = [sent for sent in task.steps if self._sent.pop(sent.job.command.step_id, None) is sent]
        for sent in open_:
            self._report_lost(sent, reason)

    # --- losses: called by the watching thread -----------------------------------------------------

    def cluster_lost(self, reason: str) -> None:
        with self._lock:
            self._gone = self._gone or reason
            sent, self._sent = self._sent, {}
        for one in sent.values():
            self._report_lost(one, reason)
        self._wakeup.wake()

    def worker_silent(self, worker: str, reason: str) -> None:
        self._workers.give_up(worker, reason)

    def workers_present(self, workers: Mapping[str, Any]) -> None:
        """Dask reports the loss of a worker itself, unless its tasks wait for another worker and there is none."""
        self._workers.update(workers)
        with self._lock:
            tasks = {sent.task for sent in self._sent.values() if sent.task is not None and sent.worker is not None}
        for task in tasks:
            is_gone = self._workers.is_gone(task.worker) and task.future.status == "pending"
            task.missed = task.missed + 1 if is_gone else 0
            if task.missed > 1:
                self._task_lost(task, self._workers.loss_reason(task.worker))
                self._wakeup.wake()

    def _report_unsent(self, job: RemoteJob, reason: str) -> None:
        self._report_lost(SentStep(job, 0), reason)

    def _report_lost(self, sent: SentStep, reason: str) -> None:
        messages = loss_messages(sent, reason, self._session, self._cluster.sites)
        with self._lock:
            self._ready += messages
