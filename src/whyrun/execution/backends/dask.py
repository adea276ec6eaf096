"""The same worker on a Dask cluster: started here (`LocalCluster`), reached by its address, or on SLURM.

One task of the cluster is one attempt of one step; only where steps take milliseconds are some sent together. Nothing
is retried by Dask itself: a worker's death is a failed attempt in the log, and whether there is another is the job's to
say. Steps share no folder with the host.
"""

from __future__ import annotations

import importlib.util
import os
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from whyrun import __version__
from whyrun.artifacts.store import Store
from whyrun.errors import error
from whyrun.execution import unpack
from whyrun.execution.backends.dask_parcel import Parcels, bring
from whyrun.execution.backends.remote import RemoteJob
from whyrun.execution.bundle import bundle_project
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
from whyrun.execution.wire import decode_message, timestamp

Client: TypeAlias = Any  # of `distributed`, whose types are half there; imported only where a cluster is used
Future: TypeAlias = Any

AHEAD = 2  # tasks for each thread of the cluster that are sent: one runs, one waits where it will run
SHORT = 0.02  # seconds: steps that take less are sent together
TOGETHER = 16  # of them, at most
ALIVE = 1.0  # seconds between two looks at the scheduler
ANSWER = 3.0  # seconds for its answer
GATHER = 300.0  # seconds for results to come: they may be large
CONNECT = 10.0  # seconds for the scheduler to answer at all
START = 60.0  # seconds for a first worker

CONFIG = {
    "distributed.scheduler.allowed-failures": 0,  # else a step whose worker died is executed again, and nobody told
    "distributed.worker.daemon": False,  # workers start processes
    "distributed.comm.timeouts.connect": "5s",
    "distributed.comm.retry.count": 0,
    "distributed.worker.memory.terminate": False,  # the step's memory is not the Dask worker's
    "distributed.admin.event-loop": "tornado",
}


def _plain(job: RemoteJob) -> bool:
    """Whether it may be sent together with others: it waits for no secrets and occupies nothing."""
    return not job.secrets and not job.needs.resources


# All with a limit of time: a client whose scheduler is gone may wait for ever.


def _ask_scheduler(client: Any) -> None:
    client.sync(client.scheduler.identity, n_workers=0, callback_timeout=ANSWER)


def _gathered(client: Any, futures: list[Future]) -> list[Any]:
    found: list[Any] = client.sync(client._gather, futures, callback_timeout=GATHER)
    return found


def _run(client: Any, function: Callable[..., Any], *words: Any, workers: list[str] | None = None) -> dict[str, Any]:
    """On the workers, at once, whatever tasks they have."""
    found: dict[str, Any] = client.sync(
        client._run, function, *words, workers=workers, on_error="ignore", callback_timeout=ANSWER
    )
    return found


class _Task:
    """A task of the cluster: one step, or some short ones."""

    def __init__(self, future: Future, steps: list[_Sent]) -> None:
        self.future = future
        self.steps = steps


class _Sent:
    """A step that the cluster has."""

    def __init__(self, job: RemoteJob) -> None:
        self.job = job
        self.worker: str | None = None
        self.expected = 0  # the number of its next message
        self.began = 0.0


class DaskBackend:
    name = "dask"

    def __init__(self, address: str | None = None) -> None:
        if importlib.util.find_spec("distributed") is None:
            hint = "pip install 'whyrun[dask]'"
            raise error("BACKEND_UNAVAILABLE", "the package `distributed` is not installed", hint=hint)
        self._address = address
        self._queue: deque[RemoteJob] = deque()
        self._sent: dict[str, _Sent] = {}
        self._ready: list[Message] = []
        self._numbered = 0
        self._tasks = 0  # that the cluster has
        self._done: list[_Task] = []  # those that have ended, and whose results are to be fetched
        self._mean: float | None = None  # recent duration of a step
        self._lock = threading.RLock()
        self._gone: str | None = None  # why nothing more can be heard of the cluster
        self._threads = 0
        self._client: Client | None = None
        self._cluster: Any = None
        self._closed = threading.Event()

    # --- coming and going ----------------------------------------------------------------------------------------

    def open(self, session: Session) -> None:
        self._session = session
        self._store = Store(session.store)
        self._parcels = Parcels(session, self._store)
        self._key = f"{session.run}-{os.getpid()}-{time.time_ns():x}"
        session.tmp.mkdir(parents=True, exist_ok=True)
        self._wakeup, self._wakeup_end = socket.socketpair()
        for end in (self._wakeup, self._wakeup_end):
            end.setblocking(False)

    def prepare(self, stopped: Callable[[], bool]) -> None:
        try:
            self._connect()
            client = self._there()
            client.subscribe_topic(f"whyrun-{self._key}", self._heard)
            self._install(client, stopped)
        except PrepareFailed:
            raise
        except Exception as problem:  # whatever the cluster says: without it no step can run
            raise PrepareFailed(f"the Dask cluster: {type(problem).__name__}: {problem}") from problem
        threading.Thread(target=self._watch, daemon=True, name="whyrun-dask").start()

    def _connect(self) -> None:
        import dask
        import distributed

        cluster: Any = distributed
        dask.config.set(CONFIG)
        if self._address == "slurm":
            import dask_jobqueue

            jobqueue: Any = dask_jobqueue
            self._cluster = jobqueue.SLURMCluster(n_workers=self._session.workers)
        elif self._address is None:
            self._cluster = cluster.LocalCluster(
                n_workers=self._session.workers,
                threads_per_worker=1,
                processes=True,
                dashboard_address=None,
                local_directory=str(self._session.tmp / f"{self._session.run}-dask"),
                silence_logs=50,
            )
        self._client = cluster.Client(self._cluster or self._address, timeout=CONNECT, set_as_default=False)

    def _install(self, client: Client, stopped: Callable[[], bool]) -> None:
        import cloudpickle

        from whyrun.execution.backends import dask_boot

        cloudpickle.register_pickle_by_value(dask_boot)
        self._boot = dask_boot
        deadline = time.monotonic() + START
        while not (workers := client.scheduler_info(n_workers=-1)["workers"]) and not stopped():
            if time.monotonic() > deadline:
                raise PrepareFailed(f"the Dask cluster has no worker after {START:g} s")
            time.sleep(0.1)
        bundle = (self._session.bundle or (lambda: bundle_project(self._session.project)))()
        facts = {"run": self._session.run, "prepare": self._session.prepare, "version": __version__}
        source = Path(unpack.__file__).read_text(encoding="utf-8")
        client.register_plugin(dask_boot.WhyrunSite(self._key, bundle.data, bundle.sha256, source, facts))
        problems = client.run(dask_boot.order, self._key, "problem")
        for problem in problems.values():
            if problem:
                raise PrepareFailed(problem)
        self._threads = sum(worker["nthreads"] for worker in workers.values())
        self._offered = [worker.get("resources", {}) for worker in workers.values()]

    def close(self) -> None:
        self._closed.set()
        client, self._client = self._client, None
        if client is not None:
            with suppress(Exception):  # a cluster that is gone cannot be left in good order
                if self._gone is None:
                    client.unregister_worker_plugin(f"whyrun-{self._key}")
            with suppress(Exception):
                client.close(timeout=ANSWER)
        if self._cluster is not None:
            with suppress(Exception):
                self._cluster.close(timeout=ANSWER)
        self._wakeup.close()
        self._wakeup_end.close()

    # --- giving --------------------------------------------------------------------------------------------------

    def submit(self, command: ExecStep, secrets: Mapping[str, str] | None = None, needs: StepNeeds = NO_NEEDS) -> None:
        self._queue.append(RemoteJob(command, dict(secrets or {}), needs))

    def room(self) -> int:
        return max(0, self._threads * AHEAD * self._together() * 2 - len(self._queue) - len(self._sent))

    def _together(self) -> int:
        return TOGETHER if self._mean is not None and self._mean < SHORT else 1

    def _dispatch(self) -> None:
        while self._queue and self._gone is not None:
            self._lost(self._queue.popleft(), self._gone)
        while self._queue and self._tasks < max(1, self._threads) * AHEAD:
            jobs = [self._queue.popleft()]
            while self._queue and len(jobs) < self._together() and _plain(jobs[0]) and _plain(self._queue[0]):
                jobs.append(self._queue.popleft())
            try:
                payloads = [self._parcels.pack(self._there(), job) for job in jobs]
                wanted = self._resources(jobs[0].needs)
            except (OSError, ValueError, msgspec.DecodeError) as problem:
                for job in jobs:
                    self._lost(job, f"{type(problem).__name__}: {problem}")
                continue
            self._send(jobs, payloads, wanted)

    def _send(self, jobs: list[RemoteJob], payloads: list[dict[str, Any]], wanted: dict[str, float]) -> None:
        with self._lock:  # a step may speak before `submit` returns
            sent = [_Sent(job) for job in jobs]
            self._sent.update((one.job.command.step_id, one) for one in sent)
            self._tasks += 1
        self._numbered += 1
        future = self._there().submit(
            self._boot.run_batch, self._key, payloads, retries=0, pure=False, resources=wanted or None,
            key=f"whyrun-{self._key}-{self._numbered}",
        )  # fmt: skip
        task = _Task(future, sent)
        future.add_done_callback(lambda _: self._ended(task))

    def _resources(self, needs: StepNeeds) -> dict[str, float]:
        """Those that the cluster's workers offer; the others are Whyrun's own to count."""
        wanted = {
            name: amount for name, amount in needs.resources.items() if any(name in offer for offer in self._offered)
        }
        if wanted and not any(
            all(offer.get(name, 0) >= amount for name, amount in wanted.items()) for offer in self._offered
        ):
            told = ", ".join(f"{name}: {amount:g}" for name, amount in wanted.items())
            raise ValueError(f"no worker of the cluster has {told}")
        return wanted

    def withdraw(self) -> list[ExecStep]:
        """Those that wait here, and of those that were sent the ones that no worker has begun."""
        taken_back = [job.command for job in self._queue]
        self._queue.clear()
        steps = [step for step, sent in self._sent.items() if sent.worker is None]
        if steps and self._gone is None:
            try:
                answers = _run(self._there(), self._boot.order, self._key, "withdraw", steps)
            except Exception:  # the cluster is being lost; then that is what their end will be
                return taken_back
            begun = {step for answer in answers.values() for step in answer or ()}
            with self._lock:
                for step in steps:
                    if step not in begun and step in self._sent and self._sent[step].worker is None:
                        taken_back.append(self._sent.pop(step).job.command)
        return taken_back

    def acknowledge(self, step_id: str, key: str) -> None:
        self._order(step_id, "acknowledge", step_id, key)

    def signal(self, step_id: str, signum: int) -> None:
        self._order(step_id, "signal", step_id, signum)

    def _order(self, step_id: str, name: str, *words: Any) -> None:
        sent = self._sent.get(step_id)
        if sent is None or self._gone is not None:
            return
        workers = [sent.worker] if sent.worker is not None else None
        with suppress(Exception):  # a worker that is gone hears nothing; its death is told on its own way
            _run(self._there(), self._boot.order, self._key, name, *words, workers=workers)

    # --- hearing -------------------------------------------------------------------------------------------------

    def messages(self, timeout: float) -> Sequence[Message]:
        self._dispatch()
        if not self._ready and not self._done:
            select.select([self._wakeup], [], [], timeout)
        with suppress(BlockingIOError):
            self._wakeup.recv(1 << 16)
        self._collect()
        with self._lock:
            ready, self._ready = self._ready, []
        return ready

    def wakeup_fd(self) -> int | None:
        return self._wakeup_end.fileno()

    def _wake(self) -> None:
        with suppress(BlockingIOError, OSError):  # full of wake-ups already, or closed
            self._wakeup_end.send(b"\0")

    def _heard(self, event: tuple[float, dict[str, Any]]) -> None:
        """In the client's own thread: what steps say while they run."""
        said = event[1]
        with self._lock:
            for line in bytes(said["lines"]).split(b"\n"):
                if line.startswith(b'{"wants"'):
                    step = msgspec.json.decode(line)["wants"]
                    if step in self._sent:
                        self._sent[step].worker = said["worker"]
                        threading.Thread(target=self._give_secrets, args=(step,), daemon=True).start()
                else:
                    self._told(line, said["worker"])
        self._wake()

    def _told(self, line: bytes, worker: str | None) -> None:
        message = decode_message(line)
        step = getattr(message, "step_id", "")
        sent = self._sent.get(step)
        if sent is None:
            return
        sent.worker = worker or sent.worker
        if isinstance(message, StepBegan):
            sent.began = time.monotonic()
        number = getattr(message, "n", -1)
        if number == -1 and worker is not None:
            self._ready.append(message)  # type: ignore[arg-type]
        elif number == sent.expected:
            sent.expected += 1
            self._ready.append(message)  # type: ignore[arg-type]

    def _give_secrets(self, step: str) -> None:
        sent = self._sent.get(step)
        if sent is not None:
            self._order(step, "secrets", step, sent.job.secrets)

    def _ended(self, task: _Task) -> None:
        with self._lock:
            self._done.append(task)
        self._wake()

    def _collect(self) -> None:
        with self._lock:
            done, self._done = self._done, []
        if not done or self._gone is not None:
            return
        whole = [task for task in done if task.future.status == "finished"]
        try:
            results = _gathered(self._there(), [task.future for task in whole]) if whole else []
        except Exception:  # a worker died with its result: they are looked at one by one
            results = [self._result(task) for task in whole]
        for task in done:
            found = results[whole.index(task)] if task in whole else self._result(task)
            self._tasks -= 1
            task.future.release()
            if isinstance(found, str):
                self._task_lost(task, found)
            else:
                for sent in task.steps:
                    self._end(sent, found.get(sent.job.command.step_id))

    def _end(self, sent: _Sent, result: dict[str, Any] | None) -> None:
        step = sent.job.command.step_id
        with self._lock:
            if self._sent.get(step) is not sent:
                return  # it was taken back, or given up
            for line in result["said"].split(b"\n") if result is not None and result["said"] else ():
                self._told(line, None)
            del self._sent[step]
        if result is None:
            return
        end = decode_message(result["end"])
        assert isinstance(end, StepFinished | StepLost)
        self._mean = end.duration if self._mean is None else self._mean + 0.2 * (end.duration - self._mean)
        message = bring(end, result, self._session, self._store)
        with self._lock:
            self._ready.append(message)

    def _result(self, task: _Task) -> dict[str, Any] | str:
        """The results, or why there are none."""
        try:
            found = task.future.result(timeout=ANSWER)
        except Exception as problem:
            name = type(problem).__name__
            if name == "KilledWorker":
                worker = next((sent.worker for sent in task.steps if sent.worker), None)
                return f"the Dask worker{f' {worker}' if worker else ''} died while the step ran"
            if name in ("FutureCancelledError", "CancelledError"):  # nobody here cancels: the connection is gone
                self._lose("the Dask scheduler is gone: the connection to it was lost")
            return f"the Dask task ended with {name}: {problem}"
        assert isinstance(found, dict)
        return found

    def _task_lost(self, task: _Task, reason: str) -> None:
        """What had begun is lost. What waited behind it never was an attempt: it is given out again."""
        with self._lock:
            open_ = [sent for sent in task.steps if self._sent.pop(sent.job.command.step_id, None) is sent]
        begun = [sent for sent in open_ if sent.expected] or open_[:1]
        for sent in begun:
            self._say_lost(sent, reason)
        self._queue.extendleft(sent.job for sent in reversed(open_) if sent not in begun)

    # --- loss ----------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """A scheduler that no longer answers is noticed here; steps would wait for it for ever."""
        while not self._closed.wait(ALIVE):
            client = self._client
            if client is None:
                return
            try:
                _ask_scheduler(client)
            except Exception as problem:
                if self._closed.is_set():
                    return
                self._lose(f"the Dask scheduler is gone: {type(problem).__name__}")
                return

    def _lose(self, reason: str) -> None:
        with self._lock:
            self._gone = self._gone or reason
            sent, self._sent = self._sent, {}
        for one in sent.values():
            self._say_lost(one, reason)
        self._wake()

    def _lost(self, job: RemoteJob, reason: str) -> None:
        command = job.command
        with self._lock:
            self._ready.append(StepBegan(command.step_id, command.attempt, timestamp()))
            self._ready.append(StepLost(command.step_id, command.attempt, timestamp(), reason))

    def _say_lost(self, sent: _Sent, reason: str) -> None:
        command = sent.job.command
        duration = time.monotonic() - sent.began if sent.began else 0.0
        with self._lock:
            if not sent.expected:
                self._ready.append(StepBegan(command.step_id, command.attempt, timestamp()))
            self._ready.append(StepLost(command.step_id, command.attempt, timestamp(), reason, "", duration))

    def _there(self) -> Client:
        assert self._client is not None
        return self._client
