"""The same worker on a Dask cluster: started here (`LocalCluster`), reached by its address, or on SLURM.

One task of the cluster is one attempt of one step; only where steps take milliseconds are some sent together. Nothing
is retried by Dask itself: a worker's death is a failed attempt in the log, and whether there is another is the job's to
say. Steps share no folder with the host.
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
from whyrun.execution.backends.dask_cluster import ANSWER, SLURM, START, ClusterLost, DaskCluster
from whyrun.execution.backends.dask_left import words_on_loss
from whyrun.execution.backends.dask_parcel import Parcels, bring
from whyrun.execution.backends.dask_sent import Sent, Task, asked_of_cluster, is_plain
from whyrun.execution.backends.dask_slurm import check_slurm
from whyrun.execution.backends.dask_watch import Watch
from whyrun.execution.backends.dask_workers import DaskWorkers
from whyrun.execution.backends.remote import RemoteJob
from whyrun.execution.backends.waiting import unqueued
from whyrun.execution.backends.wakeup import Wakeup
from whyrun.execution.commands import (
    NO_NEEDS,
    ExecStep,
    Message,
    Pong,
    Prepared,
    Session,
    StepBegan,
    StepFinished,
    StepLost,
    StepNeeds,
)
from whyrun.execution.context import StepCancelled
from whyrun.execution.outbox import UNNUMBERED
from whyrun.execution.wire import decode_message

AHEAD = 2  # tasks for each thread of the cluster that are sent: one runs, one waits where it will run
SHORT = 0.02  # seconds: steps that take less are sent together
TOGETHER = 16  # of them, at most
LONG = 0.5  # seconds after which steps that wait behind another are given to whoever has nothing to do
LOOK = 0.1  # seconds between two looks at whether to go on
LATE = 60.0  # seconds that a message may come after the end of its step


class DaskBackend:
    name = "dask"

    def __init__(self, address: str | None = None) -> None:
        if importlib.util.find_spec("distributed") is None:
            hint = "pip install 'whyrun[dask]'"
            raise error("BACKEND_UNAVAILABLE", "the package `distributed` is not installed", hint=hint)
        self._start = check_slurm() if address == SLURM else START
        self._address = address
        self._queue: deque[RemoteJob] = deque()
        self._sent: dict[str, Sent] = {}
        self._ready: list[Message] = []
        self._numbered = 0
        self._tasks = 0  # that the cluster has
        self._done: list[Task] = []  # those that have ended, and whose results are to be fetched
        self._over: dict[str, list[str]] = {}  # by worker: steps that have ended before those that were sent with them
        self._looked = 0.0  # when it was last looked for steps that wait behind others
        self._stopping = False
        self._mean: float | None = None  # recent duration of a step
        self._early: list[tuple[float, Sent, dict[str, Any]]] = []  # ends that came before all that was said
        self._lock = threading.RLock()
        self.at_work: set[str] = set()
        self._workers = DaskWorkers()
        self._gone: str | None = None  # why nothing more can be heard of the cluster

    # --- coming and going ----------------------------------------------------------------------------------------

    def open(self, session: Session) -> None:
        self._session = session
        self._store = Store(session.store)
        self._cluster = DaskCluster(session, self._address, self._start)
        self._parcels = Parcels(session, self._store, self._cluster.name)
        session.tmp.mkdir(parents=True, exist_ok=True)
        self._wakeup = Wakeup()

    def prepare(self, stopped: Callable[[], bool]) -> None:
        """In a thread, since it cannot be interrupted: whoever stops the run is not made to wait for a cluster."""
        self._cluster.connect()
        problems: list[BaseException] = []

        def enter() -> None:
            try:
                self._cluster.enter(self._heard, stopped)
            except BaseException as problem:
                problems.append(problem)

        entering = threading.Thread(target=enter, daemon=True, name="whyrun-dask-enter")
        entering.start()
        while entering.is_alive() and not stopped():
            entering.join(LOOK)
        if problems:
            raise problems[0]
        if not entering.is_alive():
            Watch(self._cluster, self).start()

    def close(self) -> None:
        self._cluster.leave(reachable=self._gone is None)
        self._wakeup.close()

    # --- giving --------------------------------------------------------------------------------------------------

    def submit(self, command: ExecStep, secrets: Mapping[str, str] | None = None, needs: StepNeeds = NO_NEEDS) -> None:
        self._queue.append(RemoteJob(command, dict(secrets or {}), needs))

    def room(self) -> int:
        return max(0, self._cluster.threads * self._ahead() * self._together() * 2 - len(self._queue) - len(self._sent))

    def _ahead(self) -> int:
        """Of what takes long nothing waits at a worker: should that die, nobody could tell whether it had begun."""
        return AHEAD if self._together() > 1 else 1

    def _together(self) -> int:
        return TOGETHER if self._mean is not None and self._mean < SHORT else 1

    def _dispatch(self) -> None:
        while self._queue and self._gone is not None:
            self._lost(self._queue.popleft(), self._gone)
        if self._workers.one_may_end():
            return
        while self._queue and (free := max(1, self._cluster.threads) * self._ahead() - self._tasks) > 0:
            # No more together than everyone's share: what is few is not made to wait on one worker for one another.
            together = min(self._together(), -(-len(self._queue) // free))
            jobs = [self._queue.popleft()]
            while self._queue and len(jobs) < together and is_plain(jobs[0]) and is_plain(self._queue[0]):
                jobs.append(self._queue.popleft())
            try:
                payloads = [self._parcels.pack(self._cluster.client, job) for job in jobs]
                wanted = asked_of_cluster(jobs[0].needs, self._cluster.offered)
            except (OSError, ValueError, msgspec.DecodeError) as problem:
                for job in jobs:
                    self._lost(job, f"{type(problem).__name__}: {problem}")
                continue
            self._send(jobs, payloads, wanted)

    def _send(self, jobs: list[RemoteJob], payloads: list[dict[str, Any]], wanted: dict[str, float]) -> None:
        with self._lock:  # a step may speak before `submit` returns
            self._numbered += 1
            sent = [Sent(job, self._numbered) for job in jobs]
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
        """Those that wait here, and of those that were sent the ones that no worker has begun."""
        self._stopping = True
        taken_back = [job.command for job in self._queue]
        self._queue.clear()
        steps = [step for step, sent in self._sent.items() if sent.worker is None]
        if steps and self._gone is None:
            try:
                answers = self._cluster.tell("withdraw", steps)
            except ClusterLost:  # who watches the scheduler will tell what that means
                return taken_back
            begun = {step for answer in answers.values() for step in answer or ()}
            with self._lock:
                for step in steps:
                    if step not in begun and step in self._sent and self._sent[step].worker is None:
                        taken_back.append(self._sent.pop(step).job.command)
        return taken_back

    def unqueue(self, steps: Set[str]) -> list[ExecStep]:
        return unqueued(self._queue, steps)

    def acknowledge(self, step_id: str, key: str) -> None:
        self._order(step_id, "acknowledge", step_id, key)

    def signal(self, step_id: str, signum: int) -> None:
        sent = self._sent.get(step_id)
        if sent is not None:
            sent.told_to_end = True
        self._order(step_id, "signal", step_id, signum)

    def _order(self, step_id: str, name: str, *words: Any) -> None:
        sent = self._sent.get(step_id)
        if sent is None or self._gone is not None:
            return
        workers = [sent.worker] if sent.worker is not None else None
        for _ in range(2):
            try:
                self._cluster.tell(name, *words, workers=workers)
                return
            except ClusterLost:  # slow, or gone; who watches the scheduler will tell
                continue

    # --- hearing -------------------------------------------------------------------------------------------------

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

    def _heard(self, event: tuple[float, dict[str, Any]]) -> None:
        """In the client's own thread: what steps say while they run."""
        said = event[1]
        self.at_work.add(said["worker"])
        with self._lock:
            for line in bytes(said["lines"]).split(b"\n"):
                if line.startswith(b'{"wants"'):
                    step = msgspec.json.decode(line)["wants"]
                    if self._is_from(step, said["task"]):
                        self._sent[step].worker = said["worker"]
                        threading.Thread(target=self._give_secrets, args=(step,), daemon=True).start()
                elif line.startswith(b'{"ended"'):
                    ended = [step for step in msgspec.json.decode(line)["ended"] if self._is_from(step, said["task"])]
                    self._over.setdefault(said["worker"], []).extend(ended)
                else:
                    self._told(line, said["task"], said["worker"])
        self._wakeup.wake()

    def _is_from(self, step: str, task: int) -> bool:
        """Whether it is this task that has the step now. A worker that was given up may speak of it later on."""
        return step in self._sent and self._sent[step].number == task

    def _told(self, line: bytes, task: int, worker: str | None) -> None:
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
        self._look_at_early()
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
            found = results[task.future.key] if task.future.key in results else self._result(task)
            if isinstance(found, str):
                self._task_lost(task, found)
            elif self._let_go(task):
                for sent in task.steps:
                    self._end(sent, found.get(sent.job.command.step_id))

    def _look_at_early(self) -> None:
        early, self._early = self._early, []
        for deadline, sent, result in early:
            if time.monotonic() < deadline:
                self._end(sent, {**result, "said": b""})
            elif self._sent.pop(sent.job.command.step_id, None) is sent:
                self._say_lost(sent, f"its message {sent.expected} did not come")

    def _collect_over(self) -> None:
        """Results that would have to wait for a step that takes long: their workers are asked for them."""
        with self._lock:
            over, self._over = self._over, {}
        for worker, steps in over.items():
            for step, result in (self._ask(worker, "results", steps) or {}).items():
                sent = self._sent.get(step)
                if sent is not None:
                    self._end(sent, result)

    def _spread(self) -> None:
        """What waits behind a step that takes long is taken back, where others have nothing to do."""
        now = time.monotonic()
        idle = not self._queue and self._tasks < self._cluster.threads
        if not idle or self._stopping or now < self._looked + LONG:
            return
        self._looked = now
        waiting: dict[str, list[str]] = {}
        with self._lock:
            for sent in self._sent.values():
                if sent.worker is not None and sent.task is not None and sent.began < now - LONG:
                    behind = [one.job.command.step_id for one in sent.task.steps if one.worker is None]
                    if behind:
                        waiting[sent.worker] = behind
        for worker, steps in waiting.items():
            for step in self._ask(worker, "give_back", steps) or ():
                self._again(step)

    def _ask(self, worker: str, name: str, *words: Any) -> Any:
        """What the worker answers. If it does not, that is told otherwise."""
        with suppress(ClusterLost):
            return self._cluster.tell(name, *words, workers=[worker]).get(worker) if self._gone is None else None
        return None

    def _again(self, step: str) -> None:
        with self._lock:
            sent = self._sent.pop(step, None)
        if sent is not None:
            self._queue.append(sent.job)

    def _end(self, sent: Sent, result: dict[str, Any] | None) -> None:
        step = sent.job.command.step_id
        with self._lock:
            if self._sent.get(step) is not sent:
                return  # it was taken back, given up, or has ended before
            if result is None and not self._stopping:  # it was given back, and nobody heard of it
                self._again(step)
                return
            for line in result["said"].split(b"\n") if result is not None and result["said"] else ():
                self._told(line, sent.number, None)
            if result is None:
                del self._sent[step]
                self._say_lost(sent, "the step was ended before it began")
                return
            end = decode_message(result["end"])
            assert isinstance(end, StepFinished | StepLost)
            if end.n > sent.expected:  # what it said before is still on its way
                self._early.append((time.monotonic() + LATE, sent, result))
                return
            del self._sent[step]
            cancelled = isinstance(end, StepFinished) and end.error_type == StepCancelled.__name__
            if cancelled and sent.worker is not None and not sent.told_to_end:
                self._workers.may_end(sent.worker)
        self._mean = end.duration if self._mean is None else self._mean + 0.2 * (end.duration - self._mean)
        message = bring(end, result, self._session, self._store, partial(self._ask, sent.worker or ""))
        with self._lock:
            self._ready.append(message)

    def _result(self, task: Task) -> dict[str, Any] | str:
        """Of one whose result was not there: mostly why."""
        if task.future.status not in ("error", "cancelled"):  # it was finished, and its result died with its worker
            return self._workers.death(task.worker)
        try:
            found = task.future.result(timeout=ANSWER)
        except Exception as problem:
            name = type(problem).__name__
            if name == "KilledWorker" or self._cluster.is_refusal(problem):
                last = getattr(problem, "last_worker", None)
                return self._workers.death(task.worker or getattr(last, "address", None))
            if name in ("FutureCancelledError", "CancelledError"):
                return self._dropped(task, problem)
            return f"the Dask task ended with {name}: {problem}"
        assert isinstance(found, dict)
        return found

    def _dropped(self, task: Task, problem: Exception) -> str:
        """Nobody here cancels: the connection is gone, or data that the task needed, or somebody else has cancelled it.
        Should it run all the same, it ends."""
        if not self._cluster.answers():
            self.cluster_lost("the Dask scheduler is gone: the connection to it was lost")
        for sent in task.steps if self._gone is None else ():
            self._order(sent.job.command.step_id, "signal", sent.job.command.step_id, signal.SIGKILL)
        return f"Dask has dropped the task: {problem}"

    def _let_go(self, task: Task) -> bool:
        """Nothing more is wanted of it; False if that was said before."""
        with self._lock:
            if task.over:
                return False
            task.over = True
            self._tasks -= 1
        task.future.release()
        return True

    def _task_lost(self, task: Task, reason: str) -> None:
        """All that is open of it counts as an attempt: what a worker did just before it died, nobody has heard, and a
        step that is executed twice must stand in the log twice."""
        if not self._let_go(task):
            return
        with self._lock:
            open_ = [sent for sent in task.steps if self._sent.pop(sent.job.command.step_id, None) is sent]
        for sent in open_:
            self._say_lost(sent, reason)

    # --- loss: told by the thread that looks at the cluster ---------------------------------------------------------

    def cluster_lost(self, reason: str) -> None:
        with self._lock:
            self._gone = self._gone or reason
            sent, self._sent = self._sent, {}
        for one in sent.values():
            self._say_lost(one, reason)
        self._wakeup.wake()

    def worker_silent(self, worker: str, reason: str) -> None:
        self._workers.give_up(worker, reason)

    def workers_present(self, workers: Mapping[str, Any]) -> None:
        """Dask tells by itself of a worker that is gone, but not where its tasks are for another, and none is there."""
        self._workers.are(workers)
        with self._lock:
            tasks = {sent.task for sent in self._sent.values() if sent.task is not None and sent.worker is not None}
        for task in tasks:
            is_gone = self._workers.is_gone(task.worker) and task.future.status == "pending"
            task.missed = task.missed + 1 if is_gone else 0
            if task.missed > 1:
                self._task_lost(task, self._workers.death(task.worker))
                self._wakeup.wake()

    def _lost(self, job: RemoteJob, reason: str) -> None:
        """One that was not sent."""
        self._say_lost(Sent(job, 0), reason)

    def _say_lost(self, sent: Sent, reason: str) -> None:
        words = words_on_loss(sent, reason, self._session, self._cluster.sites)
        with self._lock:
            self._ready += words
