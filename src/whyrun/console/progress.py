"""Telling the user how a run goes: plain lines anywhere, a bar with the time that is left on a terminal.

All talk goes to stderr, so that `--json` on stdout stays a document. Each class implements `execution.Reporter`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import IO, Any

from whyrun.console.lines import listed
from whyrun.console.render import Paint

BAD = frozenset({"FAILED", "TIMED_OUT"})


class SilentReporter:
    """Tells nothing: for Python, where the result is the answer."""

    def started(self, run: str, total: int) -> None:
        pass

    def line(self, text: str, status: str) -> None:
        pass

    def progress(self, ended: int, running: list[str]) -> None:
        pass

    def note(self, text: str) -> None:
        pass

    def finish(self) -> None:
        pass


class LineReporter(SilentReporter):
    """A line for each step as it ends. `quiet`: failures and notes only, because those need somebody."""

    def __init__(self, stream: IO[str] | None = None, *, quiet: bool = False, paint: Paint | None = None) -> None:
        self.stream = stream if stream is not None else sys.stderr
        self.quiet = quiet
        self.paint = paint or Paint(False)
        self.gone = False

    def line(self, text: str, status: str) -> None:
        if not self.quiet or status in BAD:
            self.write(self.paint.status_line(text, status))

    def note(self, text: str) -> None:
        self.write(f"note: {text}")

    def write(self, text: str) -> None:
        if self.gone:
            return
        try:
            self.stream.write(f"{text}\n")
            self.stream.flush()
        except BrokenPipeError:
            self.gone = True  # nobody listens any more (`whyrun run 2>&1 | head`): no reason to break off the run


class Weights:
    """How much of the work is done, in expected seconds.

    The runner tells how many steps have ended and which run now. A step that ran and runs no more has ended; steps
    that were too quick to be seen running count with the mean of those not seen.
    """

    def __init__(self, expected: Mapping[str, float | None], clock: Callable[[], float] = time.monotonic) -> None:
        known = [d for d in expected.values() if d is not None]
        self.timed = bool(known)
        mean = sum(known) / len(known) if known else 1.0
        # Nothing weighs nothing: a plan of instant steps still moves its bar.
        self.weights = {job: max(mean if d is None else d, 0.01) for job, d in expected.items()}
        self.total = sum(self.weights.values())
        self.clock = clock
        self.since: dict[str, float] = {}

    def done(self, ended: int, running: list[str]) -> float:
        now = self.clock()
        for step in running:
            self.since.setdefault(step, now)
        current = set(running)
        finished = [step for step in self.since if step not in current]
        amount = sum(self.weights.get(step, 0.0) for step in finished)
        unseen = len(self.weights) - len(self.since)
        if unseen > 0 and ended > len(finished):
            rest = self.total - sum(self.weights.get(step, 0.0) for step in self.since)
            amount += rest / unseen * min(ended - len(finished), unseen)
        # A step that takes longer than ever is nearly done, never more.
        amount += sum(min(now - self.since[s], 0.95 * self.weights.get(s, 0.0)) for s in current)
        return min(amount, self.total)


class BarReporter(LineReporter):
    """Lines above, a bar below, on a terminal."""

    def __init__(self, expected: Mapping[str, float | None], workers: int, *, paint: Paint) -> None:
        super().__init__(paint=paint)
        # rich is imported here and not above: everything but a run on a terminal does without it.
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self.weights = Weights(expected)
        self.workers = max(1, workers)
        self.total = len(expected)
        self.console = Console(stderr=True, highlight=False)
        self.bar = Progress(
            TextColumn("{task.fields[count]}"),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            TextColumn("{task.fields[running]}", markup=False),
            console=self.console,
            transient=True,
        )
        self.task: Any = None

    def started(self, run: str, total: int) -> None:
        self.task = self.bar.add_task(run, total=self.weights.total, count=f"{run} 0/{total}", left="", running="")
        self.run = run
        self.bar.start()

    def progress(self, ended: int, running: list[str]) -> None:
        if self.task is None:
            return
        done = self.weights.done(ended, running)
        left = (self.weights.total - done) / min(self.workers, max(1, self.total - ended))
        self.bar.update(
            self.task,
            completed=done,
            count=f"{self.run} {ended}/{self.total}",
            left=f"~{left:.0f} s left" if self.weights.timed and left >= 1 else "",
            running=listed(running, 2),
        )

    def write(self, text: str) -> None:
        from rich.text import Text

        # As text with its own colours: brackets in it are IDs, not rich's markup.
        self.console.print(Text.from_ansi(text), soft_wrap=True)

    def finish(self) -> None:
        if self.task is not None:
            self.bar.stop()
