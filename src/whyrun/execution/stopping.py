"""Ending steps before their time: deadlines of their own, Ctrl-C, `--fail-fast`."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping

from whyrun.execution.commands import Backend
from whyrun.execution.endings import Active


class Stopping:
    """First an order to end (SIGTERM), then, after some grace or a second Ctrl-C, an end at once (SIGKILL)."""

    def __init__(self, backend: Backend, active: Mapping[str, Active], grace: float) -> None:
        self.backend, self.active, self.grace = backend, active, grace
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

    def order_late(self, step: str) -> None:
        """Nobody knew that this step ran when the others were told to end."""
        self.backend.signal(step, signal.SIGKILL if self._killed_all else signal.SIGTERM)

    def enforce_deadlines(self) -> None:
        now = time.monotonic()
        over = self.since is not None and (self.interrupts > 1 or now > self.since + self.grace)
        if over and not self._killed_all:
            self._killed_all = True
            for step in list(self.active):
                self.backend.signal(step, signal.SIGKILL)
        for step, active in self.active.items():
            if active.timeout is None or active.began is None or active.killed_for is not None:
                continue
            if now > active.began + active.timeout:
                active.killed_for = "TIMED_OUT"
                self.backend.signal(step, signal.SIGKILL)

    def interrupt(self) -> None:
        """From a signal handler: once for a graceful end, twice for one at once."""
        self.interrupts += 1
        descriptor = self.backend.wakeup_fd()
        if descriptor is not None:
            try:
                os.write(descriptor, b"\0")
            except BlockingIOError:
                pass  # full of wake-ups already: it will wake
