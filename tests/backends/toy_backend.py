"""A complete backend in one module, written only against the extension contract: one worker process for each step.

It is the worked example for a new backend. It works on the host's own folders, so it moves no files.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from whyrun.connections.redact import Redactor
from whyrun.execution.backends.base import (
    NO_NEEDS,
    BackendOption,
    Capabilities,
    LineBuffer,
    PrepareFailed,
    Session,
    StepNeeds,
    Wakeup,
    remove_queued,
    step_environment,
    worker_command,
)
from whyrun.execution.backends.registry import BackendEntry
from whyrun.execution.files.scratch import Scratch, step_folder
from whyrun.execution.protocol.framing import (
    Acknowledged,
    CommandFile,
    WorkerStart,
    decode_message,
    describe_exit,
    encode,
    secret_bytes,
    timestamp,
)
from whyrun.execution.protocol.messages import (
    Command,
    ExecStep,
    Message,
    Pong,
    Prepare,
    Prepared,
    StepBegan,
    StepFinished,
    StepLost,
    WorkerMessage,
)

ENTRY = BackendEntry(
    name="toy",
    factory="toy_backend:toy_backend",
    capabilities=Capabilities(shares_files=True, isolated=False, remote=False, enforces_limits=False),
    options=(BackendOption("toy_niceness", "--toy-niceness", "N", "With `--backend toy`: nice value of the workers."),),
)


def toy_backend(toy_niceness: str = "0") -> ToyBackend:
    return ToyBackend(int(toy_niceness))


@dataclass(frozen=True)
class Job:
    command: ExecStep
    secrets: Mapping[str, str]


class Worker:
    """One worker process. Commands are files; lines of its stdin name them. Its stdout has its messages."""

    def __init__(self, session: Session, folder: Path, niceness: int) -> None:
        self.began = False
        self.scratch = Scratch(folder / "scratch")
        self._commands, self._numbers = folder / "commands", count(1)
        self._lines = LineBuffer()
        self._commands.mkdir(parents=True)
        self.scratch.make()
        project, store = str(session.project), str(session.store)
        start = WorkerStart(
            run_dir=str(session.run_dir),
            project=project,
            inputs=project,
            sources=store,
            store=store,
            scratch=str(self.scratch.root),
            commands=str(self._commands),
            live=True,
        )
        self.process = subprocess.Popen(
            ["nice", "-n", str(niceness), *worker_command(start)],
            env=step_environment(str(self.scratch.home), str(self.scratch.tmp)),
            cwd=self.scratch.work,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._stdin, self.stdout = self.process.stdin, self.process.stdout

    def give(self, command: Command, secrets: Mapping[str, str]) -> None:
        name = f"{next(self._numbers)}.json"
        (self._commands / name).write_bytes(encode(command))
        self.send(encode(CommandFile(name, secret_bytes(secrets))))

    def send(self, line: bytes) -> None:
        self._stdin.write(line + b"\n")
        self._stdin.flush()

    def receive(self) -> list[WorkerMessage] | None:
        """None when the worker has ended."""
        data = os.read(self.stdout.fileno(), 1 << 16)
        return [decode_message(line) for line in self._lines.add(data)] if data else None

    def signal(self, signum: int) -> None:
        os.killpg(self.process.pid, signum)

    def close(self) -> int:
        self.signal(signal.SIGKILL)
        status = self.process.wait()
        self._stdin.close()
        self.stdout.close()
        return status


class ToyBackend:
    name = "toy"

    def __init__(self, niceness: int) -> None:
        self._niceness = niceness
        self._queue: deque[Job] = deque()
        self._running: dict[str, tuple[Job, Worker]] = {}
        self._numbers = count(1)

    def open(self, session: Session) -> None:
        self._session = session
        self._wakeup = Wakeup()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wakeup.reader, selectors.EVENT_READ)

    def prepare(self, stopped: Callable[[], bool]) -> None:
        if self._session.prepare is None:
            return
        worker = self._start_worker()
        worker.give(Prepare(self._session.prepare), {})
        answers = worker.receive() or []
        worker.close()
        worker.scratch.remove()
        if not answers or not isinstance(answers[0], Prepared) or answers[0].error:
            raise PrepareFailed(answers[0].error if answers and isinstance(answers[0], Prepared) else "no answer")

    def submit(self, command: ExecStep, secrets: Mapping[str, str] | None = None, needs: StepNeeds = NO_NEEDS) -> None:
        self._queue.append(Job(command, secrets or {}))

    def room(self) -> int:
        return max(0, 2 * self._session.workers - len(self._queue) - len(self._running))

    def withdraw(self) -> list[ExecStep]:
        return self.unqueue({job.command.step_id for job in self._queue})

    def unqueue(self, steps: Set[str]) -> list[ExecStep]:
        return remove_queued(self._queue, steps)

    def acknowledge(self, step_id: str, key: str) -> None:
        if step_id in self._running:
            self._running[step_id][1].send(encode(Acknowledged(step_id, key)))

    def signal(self, step_id: str, signum: int) -> None:
        if step_id in self._running:
            self._running[step_id][1].signal(signum)

    def messages(self, timeout: float) -> Sequence[Message]:
        while self._queue and len(self._running) < self._session.workers:
            self._begin(self._queue.popleft())
        messages: list[Message] = []
        for key, _ in self._selector.select(timeout):
            if key.data is None:
                self._wakeup.clear()
            else:
                messages += self._receive(key.data)
        return messages

    def wakeup_fd(self) -> int | None:
        return self._wakeup.fileno()

    def close(self) -> None:
        for job, worker in list(self._running.values()):
            self._end(job, worker)
        self._selector.close()
        self._wakeup.close()

    # --- one step ----------------------------------------------------------------------------------------------------

    def _start_worker(self) -> Worker:
        folder = self._session.tmp / f"{self._session.run}-toy-{os.getpid()}-{next(self._numbers)}"
        return Worker(self._session, folder, self._niceness)

    def _begin(self, job: Job) -> None:
        worker = self._start_worker()
        self._running[job.command.step_id] = (job, worker)
        self._selector.register(worker.stdout, selectors.EVENT_READ, job.command.step_id)
        worker.give(job.command, job.secrets)

    def _receive(self, step_id: str) -> list[Message]:
        job, worker = self._running[step_id]
        received = worker.receive()
        if received is None:
            return self._lost(job, worker)
        messages = [message for message in received if not isinstance(message, Pong | Prepared)]
        worker.began = worker.began or bool(messages)
        if any(isinstance(message, StepFinished | StepLost) for message in messages):  # lost: only its process has died
            self._end(job, worker)
            worker.scratch.remove()
        return messages

    def _lost(self, job: Job, worker: Worker) -> list[Message]:
        step, attempt, redactor = job.command.step_id, job.command.attempt, Redactor(job.secrets)
        reason, stderr = describe_exit(self._end(job, worker)), worker.scratch.tail("stderr", redactor)
        worker.scratch.keep_all(step_folder(self._session.run_dir, step), redactor)
        worker.scratch.remove()
        lost = StepLost(step, attempt, timestamp(), reason, stderr)
        return [lost] if worker.began else [StepBegan(step, attempt, timestamp()), lost]

    def _end(self, job: Job, worker: Worker) -> int:
        del self._running[job.command.step_id]
        self._selector.unregister(worker.stdout)
        return worker.close()
