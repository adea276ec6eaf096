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
from whyrun.errors import error, to_install
from whyrun.execution.backends.base import NO_NEEDS, Session, StepNeeds, Wakeup, remove_queued
from whyrun.execution.backends.dask.cluster import ANSWER, START, ClusterLost, DaskCluster
from whyrun.execution.backends.dask.payload import Payloads, fetch_results
from whyrun.execution.backends.dask.slurm import SLURM, check_certificates, check_slurm
from whyrun.execution.backends.dask.tasks import (
    DaskWorkers,
    SentStep,
    SentSteps,
    Task,
    can_share_task,
    cluster_resources,
    loss_messages,
)
from whyrun.execution.backends.dask.watch import Watch
from whyrun.execution.backends.remote.remote_worker import RemoteJob
from whyrun.execution.protocol.messages import ExecStep, Message, StepFinished
from whyrun.execution.worker.context import StepCancelled

AHEAD = 2  # tasks for each thread of the cluster: one runs, one waits at the worker
SHORT = 0.02  # seconds: shorter steps share a task
TOGETHER = 16  # steps in one task, at most
LONG = 0.5  # seconds after which steps that wait behind another may go to an idle worker
POLL = 0.1  # seconds between two checks whether the run was stopped


def dask_backend(dask_address: str | None = None) -> DaskBackend:
    return DaskBackend(dask_address)


class DaskBackend:
    name = "dask"

    def __init__(self, address: str | None = None) -> None:
        if importlib.util.find_spec("distributed") is None:
            hint = to_install("dask")
            raise error("BACKEND_UNAVAILABLE", "the package `distributed` is not installed", hint=hint)
        check_certificates(address or "")
        self._start = check_slurm() if address == SLURM else START
        self._address = address
        self._queue: deque[RemoteJob] = deque()
        self._sent = SentSteps()
        self._workers = DaskWorkers()
        self.at_work: set[str] = set()
        self._spread_at = 0.0  # when `_spread` last looked for steps that wait behind others
        self._mean: float | None = None  # recent duration of a step
        self._stopping = False
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
        while self._queue and (free := max(1, self._cluster.threads) * self._ahead() - self._sent.tasks) > 0:
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
        sent = self._sent.add(jobs)
        try:
            future = self._cluster.submit(sent[0].number, payloads, wanted)
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
        steps = self._sent.not_begun()
        if steps and self._gone is None:
            try:
                answers = self._cluster.send_order("withdraw", steps)
            except ClusterLost:  # the watching thread will report it
                return taken_back
            begun = {step for answer in answers.values() for step in answer or ()}
            taken_back += self._sent.take_back(step for step in steps if step not in begun)
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
        if not self._sent.has_news():
            self._wakeup.wait(timeout)
        self._wakeup.clear()
        self._collect_steps()
        self._collect_tasks()
        return self._sent.take_messages()

    def wakeup_fd(self) -> int | None:
        return self._wakeup.fileno()

    def _receive(self, event: tuple[float, dict[str, Any]]) -> None:
        """Called in the client's thread: messages of running steps."""
        report = event[1]
        self.at_work.add(report["worker"])
        for step in self._sent.receive(bytes(report["lines"]), report["task"], report["worker"]):
            threading.Thread(target=self._give_secrets, args=(step,), daemon=True).start()
        self._wakeup.wake()

    def _give_secrets(self, step: str) -> None:
        sent = self._sent.get(step)
        if sent is not None:
            self._order(step, "secrets", step, sent.job.secrets)

    def _ended(self, task: Task) -> None:
        self._sent.add_ended_task(task)
        self._wakeup.wake()

    def _collect_tasks(self) -> None:
        self._check_early()
        done = self._sent.take_ended_tasks()
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
            elif self._sent.release(task):
                for sent in task.steps:
                    self._end(sent, result.get(sent.job.command.step_id))

    def _check_early(self) -> None:
        for sent, result in self._sent.take_early_ends():
            if time.monotonic() < sent.late_at:
                self._end(sent, {**result, "said": b""})
            elif self._sent.remove(sent):
                self._report_lost(sent, f"its message {sent.expected} did not arrive")

    def _collect_steps(self) -> None:
        """Fetch results of ended steps from their workers, instead of waiting for a long step of the same task."""
        for worker, steps in self._sent.take_ended_steps().items():
            for step, result in (self._ask(worker, "results", steps) or {}).items():
                sent = self._sent.get(step)
                if sent is not None:
                    self._end(sent, result)

    def _spread(self) -> None:
        """Take back steps that wait behind a long one, if other workers are idle."""
        now = time.monotonic()
        idle = not self._queue and self._sent.tasks < self._cluster.threads
        if not idle or self._stopping or now < self._spread_at + LONG:
            return
        self._spread_at = now
        for worker, steps in self._sent.behind_others(began_before=now - LONG).items():
            for step in self._ask(worker, "give_back", steps) or ():
                if (sent := self._sent.pop(step)) is not None:
                    self._queue.append(sent.job)

    def _ask(self, worker: str, name: str, *arguments: Any) -> Any:
        """Ask the agent on a worker. Returns None if it does not answer; the watching thread reports that."""
        if self._gone is None:
            with suppress(ClusterLost):
                return self._cluster.send_order(name, *arguments, workers=[worker]).get(worker)
        return None

    def _end(self, sent: SentStep, result: dict[str, Any] | None) -> None:
        if result is None:  # the worker gave it back, but that message was lost
            if not self._sent.remove(sent):
                return
            if self._stopping:
                self._report_lost(sent, "the step was ended before it began")
            else:
                self._queue.append(sent.job)
            return
        end = self._sent.end(sent, result, time.monotonic())
        if end is None:
            return
        cancelled = isinstance(end, StepFinished) and end.error_type == StepCancelled.__name__
        if cancelled and sent.worker is not None and not sent.host_signalled:
            self._workers.note_possible_end(sent.worker)
        self._mean = end.duration if self._mean is None else self._mean + 0.2 * (end.duration - self._mean)
        ask = partial(self._ask, sent.worker or "")
        self._sent.report([fetch_results(end, result, self._session, self._store, ask)])

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

    def _task_lost(self, task: Task, reason: str) -> None:
        """Report all open steps of a lost task as lost attempts. What the worker did just before it died is unknown,
        and a step that is executed twice must appear in the log twice."""
        for sent in self._sent.lose(task):
            self._report_lost(sent, reason)

    # --- losses: called by the watching thread -----------------------------------------------------

    def cluster_lost(self, reason: str) -> None:
        self._gone = self._gone or reason
        for sent in self._sent.remove_all():
            self._report_lost(sent, reason)
        self._wakeup.wake()

    def worker_silent(self, worker: str, reason: str) -> None:
        self._workers.give_up(worker, reason)

    def workers_present(self, workers: Mapping[str, Any]) -> None:
        """Dask reports the loss of a worker itself, unless its tasks wait for another worker and there is none."""
        self._workers.update(workers)
        for task in self._sent.begun_tasks():
            is_gone = self._workers.is_gone(task.worker) and task.future.status == "pending"
            task.missed = task.missed + 1 if is_gone else 0
            if task.missed > 1:
                self._task_lost(task, self._workers.loss_reason(task.worker))
                self._wakeup.wake()

    def _report_unsent(self, job: RemoteJob, reason: str) -> None:
        self._report_lost(SentStep(job, 0), reason)

    def _report_lost(self, sent: SentStep, reason: str) -> None:
        self._sent.report(loss_messages(sent, reason, self._session, self._cluster.sites))
