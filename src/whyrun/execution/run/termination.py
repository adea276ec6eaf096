"""Ending steps before their time: deadlines of their own, Ctrl-C, `--fail-fast`."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping

from whyrun.console.lines import count
from whyrun.execution.commands import Backend, StepFinished
from whyrun.execution.endings import Active


class Stopping:
    """First an order to end (SIGTERM), then, after some grace or a second Ctrl-C, an end at once (SIGKILL)."""

    def __init__(self, backend: Backend, active: Mapping[str, Active], grace: float, *, timed: bool) -> None:
        """`timed`: some steps have a timeout. Where none has, hundreds are not looked through at every turn."""
        self.backend, self.active, self.grace, self.timed = backend, active, grace, timed
        self.interrupts = 0
        self.since: float | None = None  # monotonic time of the order to stop
        self._killed_all = False

    @property
    def ordered(self) -> bool:
        return self.since is not None

    def order(self) -> None:
        """Ask what runs to end."""
        self.since = time.monotonic()
        for step, active in self.active.items():
            active.killed_for = active.killed_for or "INTERRUPTED"
            self.backend.signal(step, signal.SIGTERM)

    def waiting(self) -> str | None:
        """What a user should know who pressed Ctrl-C once, and wonders why the run has not ended."""
        number = len(self.active)
        if not number or self.interrupts != 1:  # none: it is `--fail-fast` that stops the run
            return None
        them = "it" if number == 1 else "them"
        return f"stopping: waiting for {count(number, 'step')}, {self.grace:g} s at most; Ctrl-C again ends {them} now"

    def order_late(self, step: str) -> None:
        """Nobody knew that this step ran when the others were told to end."""
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

    def judge(self, active: Active, message: StepFinished) -> None:
        """Whether a step was in time is for its own clock to say: ours also counts how long its words lay unheard. What
        it made in time is not lost because we ordered its end later; it was ended at once, so it is no half of it."""
        limit = active.table.decl.timeout
        if limit is None or active.killed_for == "INTERRUPTED":
            return
        if message.duration > limit:
            active.killed_for, active.timeout = "TIMED_OUT", limit
        elif message.error_type is None:
            active.killed_for = None

    def interrupt(self) -> None:
        """From a signal handler: once for a graceful end, twice for one at once."""
        self.interrupts += 1
        descriptor = self.backend.wakeup_fd()
        if descriptor is not None:
            try:
                os.write(descriptor, b"\0")
            except BlockingIOError:
                pass  # full of wake-ups already: it will wake
