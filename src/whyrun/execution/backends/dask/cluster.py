"""The Dask cluster of a run: started or reached, given the bundle, asked and told things, and left again.

Every call to it has a limit of time, since a client whose scheduler is gone may wait for ever; whatever goes wrong is
`ClusterLost`.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

from whyrun import __version__
from whyrun.execution import unpack
from whyrun.execution.backends.dask_slurm import SlurmJobs
from whyrun.execution.bundle import bundle_project
from whyrun.execution.commands import PrepareFailed, Session
from whyrun.execution.leftovers import DASK_SITES

Client: TypeAlias = Any  # of `distributed`, whose types are half there; imported only where a cluster is used
Future: TypeAlias = Any

SLURM = "slurm"
ANSWER = 2.0  # seconds for the scheduler's answer
NANNY = 0.2  # seconds for a worker that hangs to end by itself
GATHER = 300.0  # seconds for results to come: they may be large
AGAIN = 10.0  # seconds in which a result is asked for again whose worker is there, and could not be reached
CONNECT = 10.0  # seconds for the scheduler to answer at all
START = 60.0  # seconds for a first worker
TEND = 5  # seconds between two looks at SLURM, which does not like to be asked often
END = 15.0  # seconds for a cluster of our own to end; a second attempt at the end of the process would wait longer

CONFIG = {
    "distributed.scheduler.allowed-failures": 0,  # else a task whose worker died is sent to another, only to be refused
    "distributed.worker.daemon": False,  # workers start processes
    "distributed.comm.timeouts.connect": "5s",
    "distributed.comm.retry.count": 0,
    "distributed.worker.memory.terminate": False,  # the step's memory is not the Dask worker's
}


class ClusterLost(Exception):
    """The cluster did not do what it was asked; the text says what it said instead."""


class DaskCluster:
    def __init__(self, session: Session, address: str | None, start: float = START) -> None:
        self.key = f"{session.run}-{os.getpid()}-{time.time_ns():x}"
        self.name = f"whyrun-{self.key}"  # that of tasks and data of the run begins so
        self.threads = 0
        self.offered: list[Mapping[str, float]] = []  # the resources of each worker
        self._session = session
        self._address = address
        self._start = start  # seconds for a first worker
        self._slurm: SlurmJobs | None = None
        self._client: Client | None = None
        self._cluster: Any = None
        self._folder = session.tmp / f"{session.run}-dask"  # of a cluster that is started here
        # Where its workers have their sites; Dask's own folders end with them. None: wherever a worker likes.
        self.sites = self._folder / DASK_SITES if address is None else None
        self.left = threading.Event()
        self._numbered = 0  # tasks

    # --- coming ----------------------------------------------------------------------------------------------------

    def connect(self) -> None:
        """By the main thread: signals are its own."""
        try:
            self._connect()
        except PrepareFailed:
            raise
        except Exception as problem:  # whatever it is: without the cluster no step can run
            raise _unready(problem) from problem

    def enter(self, heard: Callable[[tuple[float, Any]], None], stopped: Callable[[], bool]) -> None:
        try:
            self._load_boot()
            self.client.subscribe_topic(self.name, heard)
            workers = self._workers(stopped)
            self._install()
        except PrepareFailed:
            raise
        except Exception as problem:  # see `connect`
            raise _unready(problem) from problem
        self._count(workers)

    def _load_boot(self) -> None:
        import cloudpickle

        from whyrun.execution.backends import dask_boot

        cloudpickle.register_pickle_by_value(dask_boot)  # the cluster need not have Whyrun
        self._boot = dask_boot

    def _count(self, workers: Mapping[str, Any]) -> None:
        self.threads = sum(worker["nthreads"] for worker in workers.values())
        self.offered = [worker.get("resources", {}) for worker in workers.values()]

    def _connect(self) -> None:
        import dask
        import distributed

        made: Any = distributed
        dask.config.set(CONFIG)
        if self._address == SLURM:
            self._slurm = SlurmJobs(self._session)
            self._cluster = self._slurm.cluster
            self._slurm.submit()
        elif self._address is None:
            self._cluster = _deaf_to_ctrl_c(
                made.LocalCluster,
                n_workers=self._session.workers,
                threads_per_worker=1,
                processes=True,
                dashboard_address="127.0.0.1:0",  # any port: the usual one may be taken
                local_directory=str(self._folder),
                silence_logs=50,
            )
        self._client = made.Client(self._cluster or self._address, timeout=CONNECT, set_as_default=False)

    def _workers(self, stopped: Callable[[], bool]) -> dict[str, Any]:
        began = time.monotonic()
        look_at_jobs = began + TEND
        told = ""
        while True:
            workers: dict[str, Any] = self.client.scheduler_info(n_workers=-1)["workers"]
            if workers or stopped():
                return workers
            if self._slurm is not None and time.monotonic() > look_at_jobs:
                look_at_jobs = time.monotonic() + TEND
                states = self._slurm.states()
                if over := self._slurm.over(states):
                    raise PrepareFailed(f"the Dask cluster has no worker: {over}{self._slurm.printed()}")
                if (waiting := self._slurm.waiting(states)) != told and self._session.note is not None:
                    told = waiting
                    self._session.note(f"waiting for a worker, at most {self._start:g} s; {told}")
            if time.monotonic() > began + self._start:
                why = f": {self._slurm.waiting(self._slurm.states())}" if self._slurm is not None else ""
                raise PrepareFailed(f"the Dask cluster has no worker after {self._start:g} s{why}")
            time.sleep(LOOK)

    def _install(self) -> None:
        """On every worker that is there, and on each that joins later: the bundle, and an agent that uses it."""
        dask_boot = self._boot
        session = self._session
        bundle = session.bundle() if session.bundle is not None else bundle_project(session.project)
        facts = {
            "run": session.run,
            "prepare": session.prepare,
            "version": __version__,
            "sites": None if self.sites is None else str(self.sites),
        }
        source = Path(unpack.__file__).read_text(encoding="utf-8")
        self.client.register_plugin(dask_boot.WhyrunSite(self.key, bundle.data, bundle.sha256, source, facts))
        for problem in self.client.run(dask_boot.order, self.key, "problem").values():
            if problem:
                raise PrepareFailed(problem)

    # --- using it --------------------------------------------------------------------------------------------------

    @property
    def client(self) -> Client:
        if self._client is None:
            raise ClusterLost("there is no connection to it")
        return self._client

    def submit(self, number: int, payloads: list[dict[str, Any]], resources: Mapping[str, float]) -> Future:
        self._numbered = max(self._numbered, number)
        try:
            return self.client.submit(
                self._boot.run_batch, self.key, number, payloads, retries=0, pure=False,
                resources=dict(resources) or None, key=f"{self.name}-{number}",
            )  # fmt: skip
        except Exception as problem:
            raise _lost(problem) from problem

    def tell(self, name: str, *words: Any, workers: list[str] | None = None) -> dict[str, Any]:
        """To the agents of the workers, at once, whatever tasks they have. What each answered."""
        answers: dict[str, Any] = self._sync(
            lambda client: client._run, ANSWER, self._boot.order, self.key, name, *words, workers=workers,
            on_error="ignore",
        )  # fmt: skip
        return answers

    def is_refusal(self, problem: Exception) -> bool:
        """Of a worker that was given the task of another one that died."""
        return str(problem) == self._boot.REFUSAL

    def fetch(self, futures: Sequence[Future]) -> dict[str, Any]:
        """By key the results that the cluster has now, or the word why one does not come; one that died with its worker
        is not among them."""
        try:
            return self._gather([future.key for future in futures])
        except ClusterLost as lost:
            if self.is_closed():
                raise
            if len(futures) > 1:  # one of them may be at fault
                return {key: result for one in futures for key, result in self.fetch([one]).items()}
            return {future.key: f"its result did not come: {lost}" for future in futures}

    def _gather(self, keys: list[str]) -> dict[str, Any]:
        """The client's own `gather` waits for a result that is lost until it is computed again, which may be never, and
        lets the others wait, too. But what a worker still has is paid for: a connection that fails is tried again."""
        missed: dict[str, Any] = {}
        deadline = time.monotonic() + AGAIN
        while keys:
            answer: dict[str, Any] = self._sync(lambda client: client.scheduler.gather, GATHER, keys=keys)
            if answer["status"] == "OK":
                return {**missed, **answer["data"]}
            failed = set(keys).intersection(answer["keys"])
            if not failed:
                raise ClusterLost(f"the scheduler has no results, and does not say of what: {answer}")
            holders = self._sync(lambda client: client.scheduler.who_has, ANSWER, keys=list(failed))
            there = {key for key in failed if holders.get(key)}
            if there and time.monotonic() > deadline:
                word = f"its result did not come in {AGAIN:g} s from the Dask worker that has it"
                missed.update(dict.fromkeys(there, word))
                there = set()
            keys = [key for key in keys if key not in failed or key in there]
            if there:
                time.sleep(LOOK)
        return missed

    # --- looking at it ---------------------------------------------------------------------------------------------

    @property
    def is_own(self) -> bool:
        """Whether nobody else uses it."""
        return self._cluster is not None

    def is_closed(self) -> bool:
        return self._client is None or self._client.status in ("closed", "closing", "connecting")

    def answers(self) -> bool:
        if self.is_closed():
            return False
        try:
            self.workers()
        except ClusterLost:
            return False
        return True

    def workers(self) -> dict[str, Any]:
        """What the scheduler says of each, by its address."""
        found: dict[str, Any] = self._sync(lambda client: client.scheduler.identity, ANSWER, n_workers=-1)["workers"]
        if found:  # while there is none, there is room for as much as there was: another will come
            self._count(found)
        return found

    def tend_jobs(self, has_workers: bool) -> str | None:
        """Why no worker will ever come again, if so."""
        return self._slurm.tend(has_workers) if self._slurm is not None else None

    def keys_at(self, worker: str) -> tuple[bool, bool]:
        """Whether it has tasks or data of this run, and whether of others."""
        processing = self._sync(lambda client: client.scheduler.processing, ANSWER, workers=[worker])
        data = self._sync(lambda client: client.scheduler.has_what, ANSWER, workers=[worker])
        keys = [*processing[worker], *data[worker]]
        ours = [isinstance(key, str) and key.startswith(self.name) for key in keys]
        return any(ours), not all(ours)

    def remove_worker(self, worker: str, nanny: str | None) -> None:
        """The scheduler forgets it: what it had comes back as lost, and should it wake up, it ends. A nanny that can be
        reached ends it at once, and starts another."""
        why = f"whyrun-silent-{time.time()}"
        self._sync(lambda client: client.scheduler.unregister, ANSWER, address=worker, stimulus_id=why)
        if nanny is not None:
            order = {"op": "kill", "timeout": NANNY, "reason": why}
            threading.Thread(target=self._ask_nanny, args=(nanny, order), daemon=True, name="whyrun-nanny").start()

    def _ask_nanny(self, nanny: str, order: dict[str, Any]) -> None:
        with suppress(ClusterLost):  # cut off like its worker
            self._sync(lambda client: client.scheduler.proxy, ANSWER, msg=order, worker=nanny)

    def _sync(self, method: Callable[[Any], Any], limit: float, *words: Any, **more: Any) -> Any:
        try:
            client = self.client
            return client.sync(method(client), *words, callback_timeout=limit, **more)
        except Exception as problem:
            raise _lost(problem) from problem

    # --- going -----------------------------------------------------------------------------------------------------

    def leave(self, reachable: bool) -> list[str]:
        """Nothing of the run stays there. What could not be done is said, and cannot be helped."""
        self.left.set()
        client, self._client = self._client, None
        problems: list[str] = []
        if client is not None:
            if reachable:
                if self._numbered:
                    _attempt(lambda: _forget(client, self._boot, self.key, self._numbered), problems)
                _attempt(lambda: _unregister(client, self.name), problems)
            _attempt(lambda: client.close(timeout=ANSWER), problems)
        if self._slurm is not None:
            _attempt(self._slurm.close, problems)
        elif self._cluster is not None:
            _attempt(lambda: self._cluster.close(timeout=END), problems)
            shutil.rmtree(self._folder, ignore_errors=True)  # Dask leaves its locks there
        return problems


LOOK = 0.1  # seconds between two looks for a worker


def _forget(client: Any, boot: Any, key: str, numbers: int) -> None:
    client.sync(client._run_on_scheduler, boot.forget_claims, key, numbers, callback_timeout=END)


def _unregister(client: Any, name: str) -> None:
    client.sync(client._unregister_worker_plugin, name=name, nanny=None, callback_timeout=END)


def _unready(problem: Exception) -> PrepareFailed:
    return PrepareFailed(f"the Dask cluster: {type(problem).__name__}: {problem}")


def _deaf_to_ctrl_c(make: Callable[..., Any], **settings: Any) -> Any:
    """What is started here, also later, does not hear Ctrl-C, which a terminal sends to all processes: the host decides
    what becomes of steps. The thread that starts processes inherits the mask, and they from it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return make(**settings)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _lost(problem: Exception) -> ClusterLost:
    return problem if isinstance(problem, ClusterLost) else ClusterLost(f"{type(problem).__name__}: {problem}")


def _attempt(doing: Callable[[], Any], problems: list[str]) -> None:
    try:
        doing()
    except Exception as problem:
        problems.append(f"{type(problem).__name__}: {problem}")
