"""Ending steps early: after their timeout, on Ctrl-C and other signals, and with `--fail-fast`."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self

from whyrun.console.lines import count
from whyrun.execution.backends.base import Backend
from whyrun.execution.dispatch.dispatch import ActiveStep
from whyrun.execution.dispatch.watch import WatchPolicy
from whyrun.execution.protocol.messages import StepFinished
from whyrun.execution.run.budget import Budget
from whyrun.project_config import Rate

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class Policy:
    """How a runner executes it: resource limits, and when and how it stops."""

    limits: Mapping[str, float]
    fail_fast: bool
    grace: float  # seconds between SIGTERM and SIGKILL
    watch: WatchPolicy
    budget: Budget | None = None
    rates: Mapping[str, Rate] | None = None  # by resource


class Termination:
    """Sends SIGTERM when the run stops, and SIGKILL after the grace period or a second Ctrl-C."""

    def __init__(self, backend: Backend, active: Mapping[str, ActiveStep], grace: float, *, timed: bool) -> None:
        """`timed`: some job has a timeout. If none has, no turn searches the active steps for overdue ones."""
        self.backend, self.active, self.grace, self.timed = backend, active, grace, timed
        self.interrupts = 0
        self.since: float | None = None  # monotonic time at which the run was ordered to stop
        self._killed_all = False

    @property
    def ordered(self) -> bool:
        return self.since is not None

    def order(self) -> None:
        """Ask all active steps to end."""
        self.since = time.monotonic()
        for step, active in self.active.items():
            active.killed_for = active.killed_for or "INTERRUPTED"
            self.backend.signal(step, signal.SIGTERM)

    def waiting_note(self) -> str | None:
        """After the first Ctrl-C: which steps the run still waits for, and for how long."""
        number = len(self.active)
        if not number or self.interrupts != 1:  # 0: `--fail-fast` stops the run
            return None
        them = "it" if number == 1 else "them"
        return f"stopping: waiting for {count(number, 'step')}, {self.grace:g} s at most; Ctrl-C again ends {them} now"

    def order_late(self, step: str) -> None:
        """Signal a step whose `StepBegan` arrived only after all others were signalled."""
        self.backend.signal(step, signal.SIGKILL if self._killed_all else signal.SIGTERM)

    def enforce_deadlines(self, now: float) -> None:
        over = self.since is not None and (self.interrupts > 1 or now > self.since + self.grace)
        if over and not self._killed_all:
            self._killed_all = True
            for step in list(self.active):
                self.backend.signal(step, signal.SIGKILL)
        for step, active in self.active.items() if self.timed else ():
            if active.timeout is None or active.began is None or active.killed_for is not None:
                continue
            if now > active.began + active.timeout:
                active.killed_for = "TIMED_OUT"
                self.backend.signal(step, signal.SIGKILL)

    def judge_timeout(self, active: ActiveStep, message: StepFinished) -> None:
        """Judge the timeout by the worker's clock: ours also counts the time until we read its message.

        A result that was made in time counts although we killed the step later: SIGKILL leaves no chance to report a
        partial result.
        """
        limit = active.table.decl.timeout
        if limit is None or active.killed_for == "INTERRUPTED":
            return
        if message.duration > limit:
            active.killed_for, active.timeout = "TIMED_OUT", limit
        elif message.error_type is None:
            active.killed_for = None

    def interrupt(self) -> None:
        """Called by a signal handler: the first call stops the run gracefully, the second at once."""
        self.interrupts += 1
        descriptor = self.backend.wakeup_fd()
        if descriptor is not None:
            try:
                os.write(descriptor, b"\0")
            except BlockingIOError:
                pass  # the pipe is full of wake-ups, so the loop will wake


class Interruptible(Protocol):
    def interrupt(self) -> None: ...


class Interrupts:
    """Passes Ctrl-C, SIGTERM and SIGHUP to the runner, so that they interrupt nothing else.

    `with Interrupts() as interrupts: … with interrupts.reaching(runner): runner.run()`

    Handlers are installed from before the first event until the evidence is complete. A signal that arrives before the
    runner starts is passed to it then. A signal after its end is ignored, so that the evidence is completed anyway.
    """

    def __init__(self) -> None:
        self._early = 0
        self._runner: Interruptible | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # other threads cannot set handlers
            self._before = {number: signal.signal(number, self._arrived) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def reaching(self, runner: Interruptible) -> Iterator[None]:
        """Pass signals to the runner until the block ends, and those that arrived before it."""
        self._runner = runner
        for _ in range(self._early):
            runner.interrupt()
        try:
            yield
        finally:
            self._runner = None

    def _arrived(self, *_: object) -> None:
        if self._runner is not None:
            self._runner.interrupt()
        else:
            self._early += 1
