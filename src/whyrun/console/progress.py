"""Shows the progress of a run and the remaining time: a bar on a terminal, a line every half minute elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from whyrun.console.lines import listed

UPDATE_INTERVAL = 0.1  # seconds between two updates: the runner calls thousands of times a second
LINE_INTERVAL = 30.0  # seconds between two progress lines without a terminal


class Work(Protocol):
    """The work of a run, weighted by expected seconds."""

    timed: bool  # `total` comes from known durations
    total: float

    def done(self, ended: int, running: list[str]) -> float: ...

    def at(self, job: str, fraction: float) -> None: ...


class Weights:
    """How much of the work is done, in expected seconds.

    The runner reports how many steps have ended and which are running. A step that was running and no longer is has
    ended. Steps that ended between two reports count with the mean weight of the steps not seen yet.
    """

    def __init__(self, expected: Mapping[str, float | None], clock: Callable[[], float] = time.monotonic) -> None:
        known = [d for d in expected.values() if d is not None]
        self.timed = bool(known)
        mean = sum(known) / len(known) if known else 1.0
        # No weight is zero, so that the bar also moves for a plan of instant steps.
        self.weights = {job: max(mean if d is None else d, 0.01) for job, d in expected.items()}
        self.total = sum(self.weights.values())
        self.clock = clock
        self.since: dict[str, float] = {}  # running step → its start
        self.fractions: dict[str, float] = {}
        # Running totals: a run of 100,000 steps updates often.
        self.seen, self.seen_weight = 0, 0.0
        self.finished, self.finished_weight = 0, 0.0

    def at(self, job: str, fraction: float) -> None:
        """Set the fraction that a step reports itself; it is better than an estimate from the clock."""
        self.fractions[job] = min(max(fraction, 0.0), 1.0)

    def done(self, ended: int, running: list[str]) -> float:
        now = self.clock()
        current = set(running)
        for step in current - self.since.keys():
            self.since[step] = now
            self.seen += 1
            self.seen_weight += self.weights.get(step, 0.0)
        for step in self.since.keys() - current:
            del self.since[step]
            self.finished += 1
            self.finished_weight += self.weights.get(step, 0.0)
        amount = self.finished_weight
        unseen = len(self.weights) - self.seen
        if unseen > 0 and ended > self.finished:
            amount += (self.total - self.seen_weight) / unseen * min(ended - self.finished, unseen)
        amount += sum(self._of_running(step, now) for step in current)
        return min(amount, self.total)

    def _of_running(self, step: str, now: float) -> float:
        weight = self.weights.get(step, 0.0)
        if step in self.fractions:
            return weight * self.fractions[step]
        return min(now - self.since[step], 0.95 * weight)  # a step that takes longer than expected counts as 95 % done


class EqualWork:
    """A number of equal jobs, optionally with an estimated total time."""

    def __init__(self, jobs: int, estimated_runtime: float | None) -> None:
        self.jobs = max(1, jobs)
        self.timed = estimated_runtime is not None
        self.total = estimated_runtime if estimated_runtime else float(self.jobs)

    def at(self, job: str, fraction: float) -> None:
        pass

    def done(self, ended: int, running: list[str]) -> float:
        return self.total * min(ended, self.jobs) / self.jobs


class Progress:
    """The text of the progress: counts, and the remaining time if durations are known."""

    def __init__(self, name: str, jobs: int, workers: int, work: Work) -> None:
        self.name, self.jobs, self.workers, self.work = name, jobs, max(1, workers), work
        self.ended, self.running, self.completed = 0, list[str](), 0.0

    def update(self, ended: int, running: list[str]) -> None:
        self.ended, self.running = ended, running
        self.completed = self.work.done(ended, running)

    @property
    def count(self) -> str:
        return f"{self.name} {self.ended}/{self.jobs}".strip()

    @property
    def left(self) -> str:
        remaining = (self.work.total - self.completed) / min(self.workers, max(1, self.jobs - self.ended))
        if not self.work.timed or remaining < 1:
            return ""
        return f"~{remaining:.0f} s left" if remaining < 120 else f"~{remaining / 60:.0f} min left"

    def plain(self) -> str:
        """`r0003 12/80, ~40 s left, running Job:learn[asia][7]`."""
        running = f"running {listed(self.running, 2)}" if self.running else ""
        return ", ".join(part for part in (self.count, self.left, running) if part)


class PlainProgress:
    """A line every half minute, for files and CI logs: enough to see that the run goes on."""

    def __init__(self, progress: Progress, write: Callable[[str], None], clock: Callable[[], float] = time.monotonic):
        self.progress, self.write, self.clock = progress, write, clock
        self.next_line = clock() + LINE_INTERVAL
        self.updated = clock()

    def update(self, ended: int, running: list[str]) -> None:
        now = self.clock()
        if now >= self.updated + UPDATE_INTERVAL or ended >= self.progress.jobs:
            self.updated = now
            self.progress.update(ended, running)
        if now >= self.next_line:
            self.next_line = now + LINE_INTERVAL
            self.progress.update(ended, running)
            self.write(f"progress: {self.progress.plain()}")

    def finish(self) -> None:
        pass


class BarProgress:
    """A bar below the lines, on a terminal."""

    def __init__(self, progress: Progress) -> None:
        # Import rich here: only a run on a terminal needs it.
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        self.progress = progress
        self.console = Console(stderr=True, highlight=False)
        self.bar = Bar(
            TextColumn("{task.fields[count]}"),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            TextColumn("{task.fields[running]}", markup=False),
            console=self.console,
            transient=True,
        )
        self.updated = 0.0
        self.task: Any = self.bar.add_task("", total=progress.work.total, count=progress.count, left="", running="")
        self.bar.start()

    def update(self, ended: int, running: list[str]) -> None:
        now = time.monotonic()
        if now < self.updated + UPDATE_INTERVAL and ended < self.progress.jobs:
            return
        self.updated = now
        self.progress.update(ended, running)
        self.bar.update(
            self.task,
            completed=self.progress.completed,
            count=self.progress.count,
            left=self.progress.left,
            running=listed(running, 2),
        )

    def print(self, text: str) -> None:
        from rich.text import Text

        # Keep our colours, but do not read brackets as rich's markup: they are part of IDs.
        self.console.print(Text.from_ansi(text), soft_wrap=True)

    def finish(self) -> None:
        self.bar.stop()
