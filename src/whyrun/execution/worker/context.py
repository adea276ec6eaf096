"""What a running step can ask of its worker, and how it is told to stop."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from whyrun.actions.base import plain
from whyrun.console.lines import TaskStatus, task_status
from whyrun.console.paths import described_files
from whyrun.execution.cfg import OutputSpec
from whyrun.execution.commands import ExecStep, Message, MetricReported, RequestRemembered, TaskReported
from whyrun.execution.failure import StepError, utf8
from whyrun.execution.outbox import Acknowledgements, Outbox
from whyrun.execution.scratch import Scratch
from whyrun.execution.secrets import Redactor
from whyrun.execution.wire import timestamp
from whyrun.execution.words import as_json, check_name, check_size, shortened

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
        acknowledgements: Acknowledgements,
        redactor: Redactor,
    ) -> None:
        self.project = project
        self.work_dir = scratch.work
        self.script_path = scratch.script
        self.output_names = tuple(outputs)
        self.also_known: Collection[str] = ()  # outputs that the action has beyond what the job declares
        self._step_id = command.step_id
        self._outputs = outputs
        self._parameters = parameters
        self._scratch = scratch
        self._outbox = outbox
        self._cancellation = cancellation
        self._acknowledgements = acknowledgements
        self._redactor = redactor
        self._recalled = dict(command.recalled)
        self._recalled_elsewhere = dict(command.recalled_elsewhere)
        self._progress_due = 0.0
        self._noted: set[str] = set()
        outbox.let_speak(self)

    def close(self) -> None:
        """The step has ended: a thread that it left running is not heard any more."""
        self._outbox.let_speak(None)

    @property
    def inputs(self) -> Mapping[str, Any]:
        return {name: plain(value) for name, value in self._parameters.items()}

    @property
    def cancelled(self) -> bool:
        """Whether the step should stop. Whoever looks at it is trusted to stop by himself."""
        self._cancellation.cooperative = True
        return self._cancellation.requested

    def output(self, name: str) -> Path:
        """Where to write the output `name`; for a folder, the path at which to make it.

        An output that the action has and the job does not declare may be written too; it is not kept.
        """
        if name not in self._outputs and name in self.also_known:
            return self._scratch.out / name
        return output_path(self._scratch, self._outputs, name)

    def task(self, status: str, message: str, details: Any = None) -> None:
        """A status that does not exist is no reason to lose what the step has done: it goes on, and is told once."""
        try:
            name = task_status(status).value
        except ValueError as unknown:
            if str(unknown) not in self._noted:
                self._noted.add(str(unknown))
                print(f"whyrun: a task was not recorded: {unknown}", file=sys.stderr, flush=True)
            return
        shown = None
        if details is not None:
            shown = self._redactor.json(as_json("the details of a task", details, exact=False))
            check_size("the details of a task", shown)
        text = shortened(utf8(self._redactor.text(str(message))))
        self._send(lambda n: TaskReported(self._step_id, timestamp(), name, text, shown, n))

    def metric(self, name: str, value: float, unit: str = "") -> None:
        number = float(value)
        shown, unit = self._named("the name of a metric", name), self._named("the unit of a metric", unit)
        if not math.isfinite(number):
            raise ValueError(f"the metric {shown!r} is {number}: only finite numbers can be recorded")
        self._send(lambda n: MetricReported(self._step_id, timestamp(), shown, number, unit, n))

    def progress(self, done: float, total: float) -> None:
        now = time.monotonic()
        if now < self._progress_due and done < total:
            return
        ratio = done / total if total else 1.0
        if math.isfinite(ratio):  # it is only shown: no reason to fail a step for it
            self._progress_due = now + _PROGRESS_EVERY
            self.metric("progress", ratio)

    def remember(self, key: str, value: Any) -> None:
        """Put an outside request id into the log; when this returns, it is there, synced."""
        # Not altered in any way, unlike what is only shown: a retry must find exactly what was remembered.
        if not isinstance(key, str):
            raise ValueError(f"the key of a remembered value is a string, not {key!r:.100}")
        check_name("the key of a remembered value", key)
        if self._redactor.text(key) != key:
            raise ValueError("the key of a remembered value contains a secret")
        value = as_json("a remembered value", value, exact=True)
        check_size("a remembered value", value)
        if self._redactor.json(value) != value:
            raise ValueError(f"the value remembered as {key!r} contains a secret")
        acknowledged = self._acknowledgements.expect(self._step_id, key)
        sent = self._send(lambda n: RequestRemembered(self._step_id, timestamp(), key, value, n), awaited=True)
        if not sent or not acknowledged.get():
            raise RuntimeError("the step has ended: nothing more can be remembered")
        self._recalled[key] = value
        self._recalled_elsewhere.pop(key, None)

    def recall(self, key: str, any_parameters: bool = False) -> Any:
        """What this step, or an earlier attempt of it, remembered under `key`; None if nothing.

        Attempts with other parameters or inputs count only if `any_parameters`: then the latest of all. Whoever asks
        so makes a key that names what was asked for, since these attempts may have asked for something else.
        """
        if any_parameters and key in self._recalled_elsewhere:
            return self._recalled_elsewhere[key]
        return self._recalled.get(key)

    def without_secrets(self, value: Any) -> Any:
        """The same JSON with every secret of the step masked."""
        return self._redactor.json(value)

    def stderr_tail(self, lines: int = 10) -> str:
        return "\n".join(self._scratch.tail("stderr", self._redactor).splitlines()[-lines:])

    def _named(self, what: str, name: object) -> str:
        text = utf8(self._redactor.text(str(name)))
        check_name(what, text)
        return text

    def _send(self, make: Callable[[int], Message], awaited: bool = False) -> bool:
        # A cancellation in the middle of a write would leave half a line.
        was_armed = self._cancellation.disarm()
        try:
            return self._outbox.send(self, make, awaited)
        finally:
            if was_armed:
                self._cancellation.arm()


class StepLogger:
    """The `logger` of an action inside a worker: a `WorkflowLogger` whose lines become tasks of the step."""

    def __init__(self, context: StepContext) -> None:
        self._context = context
        self._total = 0

    def log_task(
        self,
        action_name: str,
        status: TaskStatus | str,
        message: str,
        runtime: float | None = None,
        inputs: Any = None,
        outputs: Any = None,
        job_info: Any = None,
    ) -> None:
        given = {
            "runtime": runtime,
            "inputs": self._files(inputs),
            "outputs": self._files(outputs),
            "job_info": job_info,
        }
        details = {"action": action_name} | {name: value for name, value in given.items() if value is not None}
        self._context.task(status, message, details)

    def start_progress(self, total_jobs: int, estimated_runtime: float | None = None) -> None:
        del estimated_runtime  # the host knows from its log how long the step takes
        self._total = total_jobs
        self._context.progress(0, total_jobs)

    def update_progress(self, completed: int, current_job: str = "") -> None:
        del current_job  # the host shows the step itself
        self._context.progress(completed, self._total)

    def finish_progress(self) -> None:
        self._context.progress(self._total, self._total)

    def _files(self, given: Any) -> list[str] | None:
        """With their sizes now, while they are there; without the folder of this machine that they lie in."""
        if given is None:
            return None
        scratch, project = self._roots
        return [text.replace(scratch, "").replace(project, "") for text in described_files(given)]

    @cached_property
    def _roots(self) -> tuple[str, str]:
        return f"{self._context.work_dir.parent}/", f"{self._context.project}/"


def output_path(scratch: Scratch, outputs: Mapping[str, OutputSpec], name: str) -> Path:
    spec = outputs.get(name)
    if spec is None:
        known = ", ".join(f"`{known}`" for known in outputs) or "none"
        raise StepError("UnknownOutput", f"the job declares no output `{name}` (declared: {known})")
    return scratch.out / f"{name}{spec.suffix}"
