"""The connection to the Dask cluster of a run: starts or joins it, installs the bundle, makes calls, and leaves it.

Every call has a timeout, because a client whose scheduler is gone may wait forever. Any failure is `ClusterLost`.
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
from whyrun.execution.backends.base import PrepareFailed, Session
from whyrun.execution.backends.dask.slurm import SLURM, SlurmJobs, own_security, unprotected
from whyrun.execution.bundle import unpack
from whyrun.execution.files.scratch import NESTED_SITES

Client: TypeAlias = Any  # of `distributed`, whose types are half there; imported only where a cluster is used
Future: TypeAlias = Any

ANSWER = 2.0  # seconds for the scheduler's answer
NANNY = 0.2  # seconds for a hanging worker to end by itself
GATHER = 300.0  # seconds to transfer results, which may be large
AGAIN = 10.0  # seconds for which a result is requested again from a worker that could not be reached
CONNECT = 10.0  # seconds for the first answer of the scheduler
START = 60.0  # seconds for the first worker to join
TEND = 5  # seconds between two requests to SLURM, which must not be asked often
END = 15.0  # seconds for a cluster that this run started to end

CONFIG = {
    "distributed.scheduler.allowed-failures": 0,  # else the task of a dead worker goes to another, which refuses it
    "distributed.worker.daemon": False,  # workers start processes
    "distributed.comm.timeouts.connect": "5s",
    "distributed.comm.retry.count": 0,
    "distributed.worker.memory.terminate": False,  # the step's memory is not the Dask worker's
    # The HTTP servers have no encryption and no password, and show logs and call stacks to everybody.
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}


class ClusterLost(Exception):
    """A call to the cluster failed. The text says how."""


class DaskCluster:
    def __init__(self, session: Session, address: str | None, start: float = START) -> None:
        self.key = f"{session.run}-{os.getpid()}-{time.time_ns():x}"
        self.name = f"whyrun-{self.key}"  # prefix of the run's tasks and data on the cluster
        self.threads = 0
        self.offered: list[Mapping[str, float]] = []  # resources that each worker offers
        self._session = session
        self._address = address
        self._start = start  # seconds for the first worker to join
        self._slurm: SlurmJobs | None = None
        self._client: Client | None = None
        self._cluster: Any = None
        self._folder = session.tmp / f"{session.run}-dask"  # of a cluster that this run starts
        # Where its workers keep their sites. Not in Dask's own folders, which are removed with the worker. None: each
        # worker of a foreign cluster chooses.
        self.sites = self._folder / NESTED_SITES if address is None else None
        self.left = threading.Event()
        self._numbered = 0  # tasks

    # --- joining ------------------------------------------------------------------------------------------------

    def connect(self) -> None:
        """Called by the main thread, which alone may change signal handlers."""
        try:
            self._connect()
        except PrepareFailed:
            raise
        except Exception as problem:  # whatever the problem is, no step can run without the cluster
            raise _unready(problem) from problem

    def enter(self, receive: Callable[[tuple[float, Any]], None], stopped: Callable[[], bool]) -> None:
        try:
            self._load_boot()
            self.client.subscribe_topic(self.name, receive)
            workers = self._workers(stopped)
            self._install()
        except PrepareFailed:
            raise
        except Exception as problem:  # see `connect`
            raise _unready(problem) from problem
        self._count(workers)

    def _load_boot(self) -> None:
        import cloudpickle

        from whyrun.execution.backends.dask import boot as dask_boot

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
        if (note := unprotected(self._address)) is not None:
            self._session.note(note)
        if self._address == SLURM:
            self._slurm = SlurmJobs(self._session)
            self._cluster = self._slurm.cluster
            self._slurm.submit()
        elif self._address is None:
            self._cluster = _without_ctrl_c(
                made.LocalCluster,
                n_workers=self._session.workers,
                threads_per_worker=1,
                processes=True,
                dashboard_address="127.0.0.1:0",  # any free port; no address would mean a fixed port, for everybody
                scheduler_kwargs={"dashboard": False},
                local_directory=str(self._folder),
                silence_logs=50,
                security=own_security(),
            )
        self._client = made.Client(self._cluster or self._address, timeout=CONNECT, set_as_default=False)

    def _workers(self, stopped: Callable[[], bool]) -> dict[str, Any]:
        began = time.monotonic()
        next_look = began + TEND
        shown = ""
        while True:
            workers: dict[str, Any] = self.client.scheduler_info(n_workers=-1)["workers"]
            if workers or stopped():
                return workers
            if self._slurm is not None and time.monotonic() > next_look:
                next_look = time.monotonic() + TEND
                states = self._slurm.states()
                if over := self._slurm.over(states):
                    raise PrepareFailed(f"the Dask cluster has no worker: {over}{self._slurm.printed()}")
                if (waiting := self._slurm.waiting(states)) != shown:
                    shown = waiting
                    self._session.note(f"waiting for a worker, at most {self._start:g} s; {shown}")
            if time.monotonic() > began + self._start:
                why = f": {self._slurm.waiting(self._slurm.states())}" if self._slurm is not None else ""
                raise PrepareFailed(f"the Dask cluster has no worker after {self._start:g} s{why}")
            time.sleep(LOOK)

    def _install(self) -> None:
        """Install the bundle and an agent on every worker, including workers that join later."""
        dask_boot = self._boot
        session = self._session
        bundle = session.bundle()
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

    # --- calls -----------------------------------------------------------------------------------------------

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

    def send_order(self, name: str, *arguments: Any, workers: list[str] | None = None) -> dict[str, Any]:
        """Send an order to the agents on workers, even while they run tasks. Returns the answer of each."""
        answers: dict[str, Any] = self._sync(
            lambda client: client._run, ANSWER, self._boot.order, self.key, name, *arguments, workers=workers,
            on_error="ignore",
        )  # fmt: skip
        return answers

    def is_refusal(self, problem: Exception) -> bool:
        """Whether a worker refused a task because another worker, which died, had it before."""
        return str(problem) == self._boot.REFUSAL

    def fetch(self, futures: Sequence[Future]) -> dict[str, Any]:
        """The available results by key, or a text that says why one did not arrive. A result that was lost with its
        worker is missing."""
        try:
            return self._gather([future.key for future in futures])
        except ClusterLost as lost:
            if self.is_closed():
                raise
            if len(futures) > 1:  # fetch one by one: a single one may be the problem
                return {key: result for one in futures for key, result in self.fetch([one]).items()}
            return {future.key: f"its result did not arrive: {lost}" for future in futures}

    def _gather(self, keys: list[str]) -> dict[str, Any]:
        """Get results from the scheduler. The client's own `gather` waits for a lost result until it is computed again,
        which may never happen, and delays all others. A result that a worker still has was paid for, so a failed
        connection is tried again."""
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
                reason = f"its result did not arrive in {AGAIN:g} s from the Dask worker that has it"
                missed.update(dict.fromkeys(there, reason))
                there = set()
            keys = [key for key in keys if key not in failed or key in there]
            if there:
                time.sleep(LOOK)
        return missed

    # --- state of the cluster -----------------------------------------------------------------------------------

    @property
    def is_own(self) -> bool:
        """Whether this run started the cluster, so that nobody else uses it."""
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
        """The scheduler's information about each worker, by address."""
        workers: dict[str, Any] = self._sync(lambda client: client.scheduler.identity, ANSWER, n_workers=-1)["workers"]
        if workers:  # while there is none, keep the last count: another worker will come
            self._count(workers)
        return workers

    def tend_jobs(self, has_workers: bool) -> str | None:
        """Replace ended SLURM jobs. Returns why no worker will ever join again, else None."""
        return self._slurm.tend(has_workers) if self._slurm is not None else None

    def keys_at(self, worker: str) -> tuple[bool, bool]:
        """Whether a worker has tasks or data of this run, and whether it has some of others."""
        processing = self._sync(lambda client: client.scheduler.processing, ANSWER, workers=[worker])
        data = self._sync(lambda client: client.scheduler.has_what, ANSWER, workers=[worker])
        keys = [*processing[worker], *data[worker]]
        ours = [isinstance(key, str) and key.startswith(self.name) for key in keys]
        return any(ours), not all(ours)

    def remove_worker(self, worker: str, nanny: str | None) -> None:
        """Let the scheduler forget a worker: its tasks are reported as lost, and it ends should it wake up. A reachable
        nanny kills it at once and starts another."""
        why = f"whyrun-silent-{time.time()}"
        self._sync(lambda client: client.scheduler.unregister, ANSWER, address=worker, stimulus_id=why)
        if nanny is not None:
            order = {"op": "kill", "timeout": NANNY, "reason": why}
            threading.Thread(target=self._ask_nanny, args=(nanny, order), daemon=True, name="whyrun-nanny").start()

    def _ask_nanny(self, nanny: str, order: dict[str, Any]) -> None:
        with suppress(ClusterLost):  # the nanny is cut off too
            self._sync(lambda client: client.scheduler.proxy, ANSWER, msg=order, worker=nanny)

    def _sync(self, method: Callable[[Any], Any], limit: float, *arguments: Any, **more: Any) -> Any:
        try:
            client = self.client
            return client.sync(method(client), *arguments, callback_timeout=limit, **more)
        except Exception as problem:
            raise _lost(problem) from problem

    # --- leaving ------------------------------------------------------------------------------------------------

    def leave(self, reachable: bool) -> list[str]:
        """Remove everything of this run from the cluster. Returns the problems; nothing more can be done about them."""
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


def _without_ctrl_c(make: Callable[..., Any], **settings: Any) -> Any:
    """Start a cluster whose processes, including later ones, ignore Ctrl-C, which a terminal sends to all processes:
    the host decides about steps. The thread that starts the processes inherits the signal mask and passes it on."""
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
