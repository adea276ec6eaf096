"""The `context` and `logger` that an action receives, the cancellation of a step, and the link to the host."""

from __future__ import annotations

import itertools
import math
import mmap
import os
import signal
import sys
import time
from _thread import get_ident
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whyrun.actions.base import plain
from whyrun.connections.redact import Redactor
from whyrun.console.files import described_files
from whyrun.console.lines import TaskStatus, task_status
from whyrun.execution.files.scratch import Scratch
from whyrun.execution.protocol.framing import timestamp
from whyrun.execution.protocol.messages import (
    THROTTLED,
    ContainerSpec,
    CostReported,
    ExecStep,
    Message,
    MetricReported,
    OutputSpec,
    RequestRemembered,
    TaskReported,
)
from whyrun.execution.worker.command_source import Control
from whyrun.execution.worker.failure import StepError, utf8
from whyrun.execution.worker.outbox import Acknowledgements, Outbox, as_json, check_name, check_size, shortened
from whyrun.execution.worker.processes import opened_pidfd
from whyrun.money import DEFAULT_CURRENCY, Number, check_currency, decimal, written
from whyrun.workflow.arrays import is_array

if TYPE_CHECKING:
    import subprocess

_PROGRESS_EVERY = 0.5  # seconds
_COST_KEY = "$cost "  # by this and a number, the host acknowledges a cost


class StepCancelled(BaseException):
    """Raised inside a step that was asked to stop (SIGTERM) and does not read `context.cancelled`."""


class Cancellation:
    """Turns SIGTERM into a flag for steps that read it, and into an exception for all others.

    Python only notes a signal, and calls its handler a moment later. If a step begins to sleep in between, or to wait
    for a network, the handler is called when that ends. So the worker sends the signal once more if it was not handled.
    """

    def __init__(self) -> None:
        self.requested = False
        self._arrived = False  # the signal, whoever runs the step
        self._handled = mmap.mmap(-1, 1)  # shared with the process of the step
        self._step_process = 0  # known in that process alone
        self.cooperative = False
        self._armed = False
        self._running = False
        self._main = get_ident()

    def handle(self, signum: int, frame: object) -> None:
        del signum, frame
        self._arrived = True
        if not self._running:
            return  # the step has ended; the signal is not meant for the next one
        self.requested = True
        if os.getpid() == self._step_process:  # not a process that the step forked
            self._handled[0] = 1
        self._raise_if_due()

    def begin(self) -> None:
        self._handled[0] = 0
        self.requested = self.cooperative = self._armed = self._arrived = False
        self._running = True

    def end(self) -> None:
        self._running = self._armed = False

    def remind(self, step: int) -> None:
        """Send the signal once more to the process of the step, if it has not handled it."""
        if self._arrived and not self._handled[0]:
            self._handled[0] = 1  # not again: the step may have a handler of its own
            os.kill(step, signal.SIGTERM)

    def runs_step(self) -> None:
        """This is the process of a step, or of several that share one."""
        self._step_process = os.getpid()

    def arm(self) -> None:
        """The user's code runs from here on, and may be interrupted. Whyrun's own code never is."""
        self._armed = True
        self._raise_if_due()

    def disarm(self) -> bool:
        """Raise no exception from here on. Returns whether one was possible. Only the main thread is ever
        interrupted."""
        if get_ident() != self._main:
            return False
        was, self._armed = self._armed, False
        return was

    def adopt_thread(self) -> None:
        """After a fork: the calling thread is the main one."""
        self._main = get_ident()

    def _raise_if_due(self) -> None:
        if self.requested and self._armed and not self.cooperative:
            self._armed = False
            raise StepCancelled("the step was asked to stop (SIGTERM)")


@dataclass(frozen=True, slots=True)
class HostLink:
    """The connection of a worker to its host: what goes out, what comes back, and whether the host wants it to stop."""

    outbox: Outbox
    control: Control
    acknowledgements: Acknowledgements
    cancellation: Cancellation

    def after_fork(self) -> None:
        """In a process that the worker forked."""
        self.outbox.after_fork()
        self.cancellation.adopt_thread()

    def send(self, context: StepContext, make: Callable[[int], Message], awaited: bool = False) -> bool:
        # A cancellation during the write would leave half a line.
        was_armed = self.cancellation.disarm()
        try:
            return self.outbox.send(context, make, awaited)
        finally:
            if was_armed:
                self.cancellation.arm()


class StepContext:
    """See `whyrun.actions.base.Context`."""

    def __init__(
        self,
        command: ExecStep,
        outputs: Mapping[str, OutputSpec],
        parameters: Mapping[str, Any],
        project: Path,
        scratch: Scratch,
        link: HostLink,
        redactor: Redactor,
        unwritten: Callable[[], str] = str,
        launcher: Sequence[str] = (),
    ) -> None:
        """`unwritten`: what was printed to stderr and is not in its file yet. `launcher`: see `WorkerContext`."""
        self.launcher = launcher
        self.project = project
        self.work_dir = scratch.work
        self.script_path = scratch.script
        self.output_names = tuple(outputs)
        self.container: ContainerSpec | None = None
        self.engine_settings: Mapping[str, str] = {}
        self.variables: Mapping[str, str] = {}  # the job's own
        self.peak_of_program: int | None = None
        self.also_known: Collection[str] = ()  # outputs of the action that the job does not declare
        self._step_id = command.step_id
        self._outputs = outputs
        self._parameters = parameters
        self._scratch = scratch
        self._link = link
        self._redactor = redactor
        self._unwritten = unwritten
        self._recalled = dict(command.recalled)
        self._recalled_elsewhere = dict(command.recalled_elsewhere)
        self._progress_due = 0.0
        self._noted: set[str] = set()
        for name, spec in outputs.items():
            if is_array(spec.type):  # a step that writes nothing into it makes an empty array
                output_path(scratch, outputs, name).mkdir(parents=True, exist_ok=True)
        self._costs = itertools.count(1)
        link.outbox.set_sender(self)

    def close(self) -> None:
        """The step has ended: drop messages of threads that it left running."""
        self._link.outbox.set_sender(None)

    @property
    def inputs(self) -> Mapping[str, Any]:
        return {name: plain(value) for name, value in self._parameters.items()}

    @property
    def cancelled(self) -> bool:
        """Whether the step should stop. Reading this flag opts in to cooperative cancellation."""
        self._link.cancellation.cooperative = True
        return self._link.cancellation.requested

    def output(self, name: str) -> Path:
        """The path for the output `name`; for a folder, the path at which to create it.

        An output that the action has and the job does not declare may be written too. It is not kept.
        """
        if name not in self._outputs and name in self.also_known:
            return self._scratch.out / name
        return output_path(self._scratch, self._outputs, name)

    def task(self, status: str, message: str, details: Any = None) -> None:
        """Report a task. An unknown status does not fail the step: it is printed once to stderr."""
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
        if math.isfinite(ratio):  # progress is only shown, so it never fails a step
            self._progress_due = now + _PROGRESS_EVERY
            self.metric("progress", ratio)

    def throttled(self, seconds: float) -> None:
        """The service asks to wait (`Retry-After`): no step that uses its resource begins before."""
        self.metric(THROTTLED, max(0.0, seconds), "s")

    def remember(self, key: str, value: Any) -> None:
        """Write the ID of an outside request to the log. When this returns, the log is synced."""
        # Unlike details and messages this is never altered: a retry must find exactly what was remembered.
        if not isinstance(key, str):
            raise ValueError(f"the key of a remembered value is a string, not {key!r:.100}")
        check_name("the key of a remembered value", key)
        if self._redactor.text(key) != key:
            raise ValueError("the key of a remembered value contains a secret")
        if key.startswith(_COST_KEY):
            raise ValueError(f"keys that begin with `{_COST_KEY}` are Whyrun's own")
        value = as_json("a remembered value", value, exact=True)
        check_size("a remembered value", value)
        if self._redactor.json(value) != value:
            raise ValueError(f"the value remembered as {key!r} contains a secret")
        acknowledged = self._link.acknowledgements.expect(self._step_id, key)
        sent = self._send(lambda n: RequestRemembered(self._step_id, timestamp(), key, value, n), awaited=True)
        if not sent or not acknowledged.get():
            raise RuntimeError("the step has ended: nothing more can be remembered")
        self._recalled[key] = value
        self._recalled_elsewhere.pop(key, None)

    def recall(self, key: str, any_parameters: bool = False) -> Any:
        """What this step, or an earlier attempt of it, remembered under `key`; None if nothing.

        With `any_parameters` the latest of all attempts counts, also one with other parameters or inputs. Then the key
        should name what was requested, because such an attempt may have requested something else.
        """
        if any_parameters and key in self._recalled_elsewhere:
            return self._recalled_elsewhere[key]
        return self._recalled.get(key)

    def cost(
        self,
        amount: Number | None,
        currency: str = DEFAULT_CURRENCY,
        item: str = "",
        quantity: Number | None = None,
        request: str | None = None,
    ) -> None:
        """Record money that this step has spent. When this returns, the log has it.

        `amount` None: nobody knows it. `request`: the id of what was bought. Of one step, the cost of an item for a
        request is recorded once, so an attempt that resumes a request may report it again.
        """
        exact = None if amount is None else written(decimal("the amount of a cost", amount))
        number = None if quantity is None else written(decimal("the quantity of a cost", quantity))
        currency, item = check_currency(currency), self._named("the item of a cost", item)
        bought = None if request is None else self._named("the request of a cost", request)
        key = f"{_COST_KEY}{next(self._costs)}"
        acknowledged = self._link.acknowledgements.expect(self._step_id, key)

        def message(n: int) -> CostReported:
            return CostReported(self._step_id, timestamp(), key, exact, currency, item, number, bought, n)

        if not self._send(message, awaited=True) or not acknowledged.get():
            raise RuntimeError("the step has ended: no cost can be recorded any more")

    def without_secrets(self, value: Any) -> Any:
        """The same JSON with every secret of the step masked."""
        return self._redactor.json(value)

    def wait_for(self, process: subprocess.Popen[bytes]) -> int:
        """The exit status of a program that is all that this step does."""
        if process.returncode is None:  # `send_signal` may have noticed its end
            with opened_pidfd(process.pid) as ended:
                self._link.control.wait_for(ended)
            _, status, used = os.wait4(process.pid, 0)
            self.peak_of_program = used.ru_maxrss * 1024
            process.returncode = os.waitstatus_to_exitcode(status)
        return process.returncode

    def stderr_tail(self, lines: int = 10) -> str:
        rest = self._unwritten()  # first: the answer comes when the file has everything else
        return "\n".join((self._scratch.tail("stderr", self._redactor) + rest).splitlines()[-lines:])

    def _named(self, what: str, name: object) -> str:
        text = utf8(self._redactor.text(str(name)))
        check_name(what, text)
        return text

    def _send(self, make: Callable[[int], Message], awaited: bool = False) -> bool:
        return self._link.send(self, make, awaited)


class StepLogger:
    """The `logger` of an action: a `WorkflowLogger` whose lines become tasks of the step."""

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
        del estimated_runtime  # the host estimates it from its log
        self._total = total_jobs
        self._context.progress(0, total_jobs)

    def update_progress(self, completed: int, current_job: str = "") -> None:
        del current_job  # the host shows the step itself
        self._context.progress(completed, self._total)

    def finish_progress(self) -> None:
        self._context.progress(self._total, self._total)

    def _files(self, given: Any) -> list[str] | None:
        """Describe files with their size, while they exist, and without the absolute path of scratch or project."""
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
