"""What the Dask backend tracks of its own: the tasks and steps that it has sent, the workers of the cluster, and the
messages for steps that were lost together with their worker."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from whyrun.connections.redact import Redactor
from whyrun.execution.backends.base import Session, StepNeeds
from whyrun.execution.backends.dask.cluster import Future
from whyrun.execution.backends.remote.remote_worker import RemoteJob
from whyrun.execution.files.scratch import Scratch, step_folder
from whyrun.execution.protocol.framing import timestamp
from whyrun.execution.protocol.messages import ExecStep, Message, StepBegan, StepLost
from whyrun.execution.worker.isolation import end_workers

# Seconds without new work after somebody else ended a step, unless its worker's end is reported earlier.
CAUTION = 3.0
_RUNNING_STATES = (b"R", b"S", b"D", b"I")  # of a process in /proc; all others are stopped or have ended


# --- tasks and their steps -------------------------------------------------------------------------------------


class SentStep:
    """A step that the cluster has."""

    def __init__(self, job: RemoteJob, number: int) -> None:
        self.job = job
        self.number = number  # of its task
        self.worker: str | None = None  # address, known from the step's first message
        self.task: Task | None = None
        self.expected = 0  # the number of its next message
        self.began = 0.0
        self.host_signalled = False  # the host told the step to end


class Task:
    """A task of the cluster: one step, or several short ones."""

    def __init__(self, future: Future, steps: list[SentStep]) -> None:
        self.future = future
        self.steps = steps
        self.over = False  # the host has released it
        self.missed = 0  # consecutive looks at the cluster that did not find its worker
        for step in steps:
            step.task = self

    @property
    def worker(self) -> str | None:
        """The worker that runs it, as far as any of its steps has sent a message."""
        return next((step.worker for step in self.steps if step.worker is not None), None)


def can_share_task(job: RemoteJob) -> bool:
    """Whether the step may be sent in one task with others: it needs neither secrets nor resources."""
    return not job.secrets and not job.needs.resources


def cluster_resources(needs: StepNeeds, offered: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The needed resources that workers of the cluster offer. Whyrun's own scheduler counts all others."""
    wanted = {name: amount for name, amount in needs.resources.items() if any(name in offer for offer in offered)}
    if wanted and not any(all(offer.get(name, 0) >= amount for name, amount in wanted.items()) for offer in offered):
        shown = ", ".join(f"{name}: {amount:g}" for name, amount in wanted.items())
        raise ValueError(f"no worker of the cluster has {shown}")
    return wanted


# --- workers ---------------------------------------------------------------------------------------------------


class DaskWorkers:
    """Which workers the cluster has or had. The watching thread writes it, the runner's thread reads it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: set[str] = set()  # all that the scheduler has or had
        self._present: frozenset[str] = frozenset()
        self._silent: dict[str, str] = {}  # worker that was given up → why
        self._ending: dict[str, float] = {}  # worker that may be about to end → no new work before this time

    def update(self, workers: Iterable[str]) -> None:
        with self._lock:
            self._present = frozenset(workers)
            self._known |= self._present
            self._ending = {worker: end for worker, end in self._ending.items() if worker in self._present}

    def is_gone(self, worker: str | None) -> bool:
        with self._lock:
            return worker in self._known and worker not in self._present

    def give_up(self, worker: str, reason: str) -> None:
        self._silent[worker] = reason

    def loss_reason(self, worker: str | None) -> str:
        died = f"the Dask worker{f' {worker}' if worker else ''} died while it had the step"
        return self._silent.get(worker or "", died)

    def note_possible_end(self, worker: str) -> None:
        """When SLURM ends a job, its steps may report that before the worker does. An attempt sent to the worker now
        would be lost with it."""
        with self._lock:
            self._ending[worker] = time.monotonic() + CAUTION

    def any_may_end(self) -> bool:
        now = time.monotonic()
        with self._lock:
            self._ending = {worker: end for worker, end in self._ending.items() if end > now}
            return bool(self._ending)


# --- lost steps ------------------------------------------------------------------------------------------------


def loss_messages(step: SentStep, reason: str, session: Session, sites: Path | None) -> list[Message]:
    """The messages that end a step whose worker is gone: `StepLost`, after a `StepBegan` if none had arrived.

    `sites`: where the workers of a cluster that this run started keep their files. They lie on this machine, so the
    files of the lost step become evidence, as after the death of any local worker.
    """
    command, redactor, stderr = step.job.command, Redactor(step.job.secrets), ""
    duration = time.monotonic() - step.began if step.began else 0.0
    if sites is not None:
        try:
            stderr = _keep_files(sites, session, command, redactor)
        except OSError as problem:  # the loss itself must be reported in any case
            reason += redactor.text(f" (and its files could not be kept: {problem})")
    lost = StepLost(command.step_id, command.attempt, timestamp(), reason, stderr, duration)
    return [lost] if step.expected else [StepBegan(command.step_id, command.attempt, timestamp()), lost]


def _keep_files(sites: Path, session: Session, command: ExecStep, redactor: Redactor) -> str:
    """Move the step's scratch files to the evidence. Returns the last lines of its stderr."""
    for folder in sorted(sites.glob(f"whyrun-*/tmp/{session.run}-*")):
        scratch = Scratch(folder)
        if scratch.marked() != (command.step_id, command.attempt) or _is_alive(folder.parents[1].name):
            continue
        end_workers([scratch.home])
        stderr = scratch.tail("stderr", redactor)
        scratch.keep_all(step_folder(session.run_dir, command.step_id), redactor)
        return stderr
    return ""


def _is_alive(site: str) -> bool:
    """Whether the Dask worker still runs: then it keeps the files itself. A site's name ends with the worker's pid."""
    try:
        stat = Path(f"/proc/{site.rpartition('-')[2]}/stat").read_bytes()
    except FileNotFoundError:
        return False
    return stat.rpartition(b")")[2].split()[0] in _RUNNING_STATES
