"""What the Dask backend tracks of its own: the tasks and steps that it has sent, the workers of the cluster, and the
messages for steps that were lost together with their worker."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from whyrun.connections.redact import Redactor
from whyrun.execution.backends.base import Session, StepNeeds
from whyrun.execution.backends.dask.cluster import Future
from whyrun.execution.backends.remote.remote_worker import RemoteJob
from whyrun.execution.files.scratch import Scratch, step_folder
from whyrun.execution.protocol.framing import decode_message, timestamp
from whyrun.execution.protocol.messages import ExecStep, Message, Pong, Prepared, StepBegan, StepFinished, StepLost
from whyrun.execution.worker.outbox import UNNUMBERED
from whyrun.execution.worker.processes import end_workers

# Seconds without new work after somebody else ended a step, unless its worker's end is reported earlier.
CAUTION = 3.0
LATE = 60.0  # seconds that a message may arrive after the end of its step
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
        self.late_at = math.inf  # from then on its end does not wait for messages that are missing


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


EarlyEnd: TypeAlias = tuple[SentStep, dict[str, Any]]  # a step, and its result that arrived before all of its messages


class SentSteps:
    """The steps that the cluster has, their tasks, and what came back and was not handled yet.

    The client's and the watching thread add to it, the runner's thread takes from it.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._steps: dict[str, SentStep] = {}
        self._numbered = 0
        self.tasks = 0  # unfinished tasks of the cluster
        self._messages: list[Message] = []
        self._ended_tasks: list[Task] = []  # their results must be fetched
        self._ended_steps: dict[str, list[str]] = {}  # worker → steps that ended before the other steps of their task
        self._early: list[EarlyEnd] = []

    def __len__(self) -> int:
        return len(self._steps)

    def get(self, step: str) -> SentStep | None:
        return self._steps.get(step)

    # -- sent and taken back --

    def add(self, jobs: Sequence[RemoteJob]) -> list[SentStep]:
        """The steps of a new task. Called before it is sent: a message may arrive before `submit` returns."""
        with self._lock:
            self._numbered += 1
            sent = [SentStep(job, self._numbered) for job in jobs]
            self._steps.update((one.job.command.step_id, one) for one in sent)
            self.tasks += 1
        return sent

    def not_begun(self) -> list[str]:
        """The steps that no worker has begun, as far as their messages have arrived."""
        with self._lock:
            return [step for step, sent in self._steps.items() if sent.worker is None]

    def take_back(self, steps: Iterable[str]) -> list[ExecStep]:
        """The commands of those of these steps that no worker has begun."""
        with self._lock:
            idle = [step for step in steps if step in self._steps and self._steps[step].worker is None]
            return [self._steps.pop(step).job.command for step in idle]

    def pop(self, step: str) -> SentStep | None:
        with self._lock:
            return self._steps.pop(step, None)

    def remove(self, sent: SentStep) -> bool:
        """False if the step was taken back, given up, or has ended before."""
        with self._lock:
            is_open = self._steps.get(sent.job.command.step_id) is sent
            if is_open:
                del self._steps[sent.job.command.step_id]
            return is_open

    def remove_all(self) -> list[SentStep]:
        with self._lock:
            sent, self._steps = self._steps, {}
        return list(sent.values())

    def behind_others(self, began_before: float) -> dict[str, list[str]]:
        """Worker → the steps that wait there behind one that began before this time."""
        waiting: dict[str, list[str]] = {}
        with self._lock:
            for sent in self._steps.values():
                if sent.worker is not None and sent.task is not None and sent.began < began_before:
                    behind = [one.job.command.step_id for one in sent.task.steps if one.worker is None]
                    if behind:
                        waiting[sent.worker] = behind
        return waiting

    # -- messages --

    def receive(self, lines: bytes, task: int, worker: str) -> list[str]:
        """Take the messages of a running task. Returns the steps that wait for their secrets."""
        without_secrets = []
        with self._lock:
            for line in lines.split(b"\n"):
                if line.startswith(b'{"wants"'):
                    step = msgspec.json.decode(line)["wants"]
                    if self._is_from(step, task):
                        self._steps[step].worker = worker
                        without_secrets.append(step)
                elif line.startswith(b'{"ended"'):
                    ended = [step for step in msgspec.json.decode(line)["ended"] if self._is_from(step, task)]
                    self._ended_steps.setdefault(worker, []).extend(ended)
                else:
                    self._take(line, task, worker)
        return without_secrets

    def report(self, messages: Sequence[Message]) -> None:
        """Add messages of the host's own."""
        with self._lock:
            self._messages += messages

    def has_news(self) -> bool:
        return bool(self._messages or self._ended_tasks or self._ended_steps)

    def take_messages(self) -> list[Message]:
        with self._lock:
            messages, self._messages = self._messages, []
        return messages

    def _is_from(self, step: str, task: int) -> bool:
        """Whether this task has the step now. A worker that was given up may still send messages of it."""
        return step in self._steps and self._steps[step].number == task

    def _take(self, line: bytes, task: int, worker: str | None) -> None:
        message = decode_message(line)
        if isinstance(message, Pong | Prepared) or not self._is_from(message.step_id, task):
            return
        sent = self._steps[message.step_id]
        sent.worker = worker or sent.worker
        if isinstance(message, StepBegan):
            sent.began = time.monotonic()
        if message.n == UNNUMBERED and worker is not None:
            self._messages.append(message)
        elif message.n == sent.expected:
            sent.expected += 1
            self._messages.append(message)

    # -- ends --

    def take_ended_steps(self) -> dict[str, list[str]]:
        with self._lock:
            ended, self._ended_steps = self._ended_steps, {}
        return ended

    def add_ended_task(self, task: Task) -> None:
        with self._lock:
            self._ended_tasks.append(task)

    def take_ended_tasks(self) -> list[Task]:
        with self._lock:
            ended, self._ended_tasks = self._ended_tasks, []
        return [task for task in ended if not task.over]

    def take_early_ends(self) -> list[EarlyEnd]:
        early, self._early = self._early, []
        return early

    def end(self, sent: SentStep, result: dict[str, Any], now: float) -> StepFinished | StepLost | None:
        """End the step, and return its last message. None if it is not open any more, or if messages before the last
        one are missing: then it is an early end."""
        with self._lock:
            if self._steps.get(sent.job.command.step_id) is not sent:
                return None
            for line in result["said"].split(b"\n") if result["said"] else ():
                self._take(line, sent.number, None)
            end = decode_message(result["end"])
            assert isinstance(end, StepFinished | StepLost)
            if end.n > sent.expected:
                sent.late_at = min(sent.late_at, now + LATE)  # the first time counts: the host looks again and again
                self._early.append((sent, result))
                return None
            del self._steps[sent.job.command.step_id]
            return end

    def release(self, task: Task) -> bool:
        """Release the task; False if it was released before."""
        with self._lock:
            if task.over:
                return False
            task.over = True
            self.tasks -= 1
        task.future.release()
        return True

    def lose(self, task: Task) -> list[SentStep]:
        """Release a lost task, and return its open steps."""
        return [sent for sent in task.steps if self.remove(sent)] if self.release(task) else []

    def begun_tasks(self) -> set[Task]:
        with self._lock:
            return {sent.task for sent in self._steps.values() if sent.task is not None and sent.worker is not None}


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
