"""What a running step can ask of its worker, and how it is told to stop."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from whyrun.actions.base import plain
from whyrun.artifacts.durable import write_all
from whyrun.execution.cfg import OutputSpec
from whyrun.execution.commands import (
    ExecStep,
    Message,
    MetricReported,
    RequestRemembered,
    StepBegan,
    TaskReported,
)
from whyrun.execution.failure import StepError
from whyrun.execution.scratch import Scratch
from whyrun.execution.secrets import Redactor
from whyrun.execution.wire import Acknowledged, encode, timestamp

_MESSAGE_LIMIT = 4_000  # characters of a task's message
_DETAILS_LIMIT = 64_000  # bytes of a task's details, or of a remembered value
_PROGRESS_EVERY = 0.5  # seconds


class StepCancelled(BaseException):
    """Raised inside a step that was told to stop (SIGTERM) and does not look at `context.cancelled` itself."""


class Cancellation:
    """SIGTERM, made into a flag for steps that look at it and into an exception for all others."""

    def __init__(self) -> None:
        self.requested = False
        self.cooperative = False
        self._armed = False
        self._running = False
        self._main = threading.get_ident()

    def handle(self, signum: int, frame: object) -> None:
        del signum, frame
        if not self._running:
            return  # the step ended before the signal came; the next one has nothing to do with it
        self.requested = True
        self._raise_if_due()

    def begin(self) -> None:
        self.requested = self.cooperative = self._armed = False
        self._running = True

    def end(self) -> None:
        self._running = self._armed = False

    def arm(self) -> None:
        """From here on the user's code runs and may be interrupted; our own code never is."""
        self._armed = True
        self._raise_if_due()

    def disarm(self) -> bool:
        """No exception from here on; whether one was possible before. Other threads are never interrupted."""
        if threading.get_ident() != self._main:
            return False
        was, self._armed = self._armed, False
        return was

    def adopt_thread(self) -> None:
        """After a fork: the thread that goes on is the main one."""
        self._main = threading.get_ident()

    def _raise_if_due(self) -> None:
        if self.requested and self._armed and not self.cooperative:
            self._armed = False
            raise StepCancelled("the step was told to stop (SIGTERM)")


class Outbox:
    """The worker's messages: one JSON line each, numbered within their step, written at once.

    What a worker said is in the pipe even if it dies the next moment, so the host knows which step was running.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self.numbered = 0

    def began(self, command: ExecStep, before: bytes) -> None:
        """`before` is the previous step's last word: both go out in one write."""
        self.numbered = 0
        began = encode(StepBegan(command.step_id, command.attempt, timestamp(), 0))
        write_all(self._descriptor, before + began + b"\n")

    def send(self, make: Callable[[int], Message]) -> None:
        with self._lock:
            line = encode(make(self.numbered + 1)) + b"\n"
            self.numbered += 1
            write_all(self._descriptor, line)

    def write(self, line: bytes) -> None:
        if line:
            write_all(self._descriptor, line)


class StepContext:
    """See `whyrun.actions.base.Context`."""

    def __init__(
        self,
        command: ExecStep,
        outputs: Mapping[str, OutputSpec],
        parameters: Mapping[str, Any],
        project: Path,
        scratch: Scratch,
        outbox: Outbox,
        cancellation: Cancellation,
        next_acknowledged: Callable[[], Acknowledged],
        redactor: Redactor,
    ) -> None:
        self.project = project
        self.work_dir = scratch.work
        self.script_path = scratch.script
        self.output_names = tuple(outputs)
        self._step_id = command.step_id
        self._outputs = outputs
        self._parameters = parameters
        self._scratch = scratch
        self._outbox = outbox
        self._cancellation = cancellation
        self._next_acknowledged = next_acknowledged
        self._redactor = redactor
        self._recalled = dict(command.recalled)
        self._progress_due = 0.0

    @property
    def inputs(self) -> Mapping[str, Any]:
        return {name: plain(value) for name, value in self._parameters.items()}

    @property
    def cancelled(self) -> bool:
        """Whether the step should stop. Whoever looks at it is trusted to stop by himself."""
        self._cancellation.cooperative = True
        return self._cancellation.requested

    def output(self, name: str) -> Path:
        """Where to write the output `name`; for a folder, the path at which to make it."""
        return output_path(self._scratch, self._outputs, name)

    def task(self, status: str, message: str, details: Any = None) -> None:
        details = self._redactor.json(details)
        _check_size("the details of a task", details)
        text = self._redactor.text(str(message))[:_MESSAGE_LIMIT]
        self._send(lambda n: TaskReported(self._step_id, timestamp(), str(status), text, details, n))

    def metric(self, name: str, value: float, unit: str = "") -> None:
        number = float(value)
        self._send(lambda n: MetricReported(self._step_id, timestamp(), str(name), number, str(unit), n))

    def progress(self, done: float, total: float) -> None:
        now = time.monotonic()
        if now < self._progress_due and done < total:
            return
        self._progress_due = now + _PROGRESS_EVERY
        self.task("PROGRESS", f"{done:g} of {total:g}", {"done": done, "total": total})

    def remember(self, key: str, value: Any) -> None:
        """Put an outside request id into the log; when this returns, it is there, synced."""
        _check_size("a remembered value", value)
        if self._redactor.json(value) != value:
            raise ValueError(f"the value remembered as {key!r} contains a secret")
        self._send(lambda n: RequestRemembered(self._step_id, timestamp(), key, value, n))
        while (word := self._next_acknowledged()).step_id != self._step_id or word.key != key:
            pass  # an acknowledgement for a step that was cancelled while it waited
        self._recalled[key] = value

    def recall(self, key: str) -> Any:
        """What this step, or an earlier attempt of it, remembered under `key`; None if nothing."""
        return self._recalled.get(key)

    def stderr_tail(self, lines: int = 10) -> str:
        return "\n".join(self._scratch.tail("stderr").splitlines()[-lines:])

    def _send(self, make: Callable[[int], Message]) -> None:
        # A cancellation in the middle of a write would leave half a line.
        was_armed = self._cancellation.disarm()
        try:
            self._outbox.send(make)
        finally:
            if was_armed:
                self._cancellation.arm()


class StepLogger:
    """The `logger` of an action inside a worker: its lines become tasks of the step."""

    def __init__(self, context: StepContext) -> None:
        self._context = context

    def log_task(
        self,
        action_name: str,
        status: str,
        message: str,
        runtime: float | None = None,
        inputs: Any = None,
        outputs: Any = None,
        job_info: Any = None,
    ) -> None:
        given = {"runtime": runtime, "inputs": inputs, "outputs": outputs, "job_info": job_info}
        details = {"action": action_name} | {name: value for name, value in given.items() if value is not None}
        self._context.task(status, message, details)


def output_path(scratch: Scratch, outputs: Mapping[str, OutputSpec], name: str) -> Path:
    spec = outputs.get(name)
    if spec is None:
        known = ", ".join(f"`{known}`" for known in outputs) or "none"
        raise StepError("UnknownOutput", f"the job declares no output `{name}` (declared: {known})")
    scratch.out_used = True
    return scratch.out / f"{name}{spec.suffix}"


def _check_size(what: str, value: Any) -> None:
    size = len(msgspec.json.encode(value, enc_hook=os.fspath))
    if size > _DETAILS_LIMIT:
        raise ValueError(f"{what} may have at most {_DETAILS_LIMIT} bytes, this has {size}")
