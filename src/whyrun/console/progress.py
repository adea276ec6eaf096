"""Shows the progress of a run and the remaining time: a bar on a terminal, a line every half minute elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from whyrun.console.lines import listed
from whyrun.errors import printable
from whyrun.ids import without_indices

if TYPE_CHECKING:
    from rich.console import RenderableType

UPDATE_INTERVAL = 0.1  # seconds between two updates: the runner calls thousands of times a second
LINE_INTERVAL = 30.0  # seconds between two progress lines without a terminal
LEAST_WEIGHT = 0.01  # seconds: no weight is zero, so that the bar also moves for a plan of instant steps


class Work(Protocol):
    """The work of a run, weighted by expected seconds."""

    @property
    def total(self) -> float: ...

    @property
    def timed(self) -> bool:
        """Whether enough durations are known to tell the remaining time."""

    def done(self, ended: int, running: Sequence[str]) -> float: ...

    def add(self, steps: Sequence[str]) -> None:
        """More steps are planned."""

    def at(self, job: str, fraction: float) -> None: ...

    def took(self, job: str, seconds: float) -> None: ...


class _Kind:
    """The instances of one job. They are alike: what the first ones take, the others will take."""

    def __init__(self) -> None:
        self.open = 0  # instances that have not succeeded in this run
        self.estimated = 0  # instances with an estimate from before the run
        self.measured, self.seconds = 0, 0.0  # instances that have succeeded in this run, and how long they took

    @property
    def mean(self) -> float | None:
        return self.seconds / self.measured if self.measured else None


class _Amount:
    """A part of the work: the weight of the jobs with an estimate, and the number of others of each kind."""

    def __init__(self) -> None:
        self.jobs = 0
        self.estimated = 0.0
        self.others: Counter[str] = Counter()


class Weights:
    """How much of the work is done, in expected seconds.

    A job without an estimate weighs what instances of the same job took in this run; before one has ended, the mean of
    everything known. The runner reports how many steps have ended and which are running. A step that was running and no
    longer is has ended. Steps that ended between two reports count with the mean weight of the steps not seen yet.
    """

    def __init__(self, expected: Mapping[str, float | None], clock: Callable[[], float] = time.monotonic) -> None:
        self.expected = dict(expected)
        self.clock = clock
        self.kinds: dict[str, _Kind] = {}
        # Running totals: a run of 100,000 steps updates often.
        self.all, self.seen, self.finished = _Amount(), _Amount(), _Amount()
        for job, duration in expected.items():
            kind = self.kinds.setdefault(_kind_of(job), _Kind())
            kind.open += 1
            kind.estimated += duration is not None
            self._add(self.all, job)
        known = [duration for duration in expected.values() if duration]  # reuse takes no time, and says nothing
        self.known, self.known_seconds = len(known), sum(known)
        self.since: dict[str, float] = {}  # running step → its start
        self.fractions: dict[str, float] = {}

    def add(self, steps: Sequence[str]) -> None:
        for step in steps:
            self.expected[step] = None
            self.kinds.setdefault(_kind_of(step), _Kind()).open += 1
            self._add(self.all, step)

    @property
    def total(self) -> float:
        return self._weight(self.all)

    @property
    def timed(self) -> bool:
        """Whether the duration is known for at least half of the jobs that are left."""
        kinds = self.kinds.values()
        known = sum(kind.open if kind.measured else min(kind.open, kind.estimated) for kind in kinds)
        return known > 0 and 2 * known >= sum(kind.open for kind in kinds)

    def at(self, job: str, fraction: float) -> None:
        """Set the fraction that a step reports itself; it is better than an estimate from the clock."""
        self.fractions[job] = min(max(fraction, 0.0), 1.0)

    def took(self, job: str, seconds: float) -> None:
        """A step has succeeded."""
        kind = self.kinds.get(_kind_of(job))
        if kind is not None:
            kind.open = max(0, kind.open - 1)
            kind.measured += 1
            kind.seconds += seconds
            self.known += 1
            self.known_seconds += seconds

    def done(self, ended: int, running: Sequence[str]) -> float:
        now = self.clock()
        current = set(running)
        for step in current - self.since.keys():
            self.since[step] = now
            self._add(self.seen, step)
        for step in self.since.keys() - current:
            del self.since[step]
            self._add(self.finished, step)
        total, amount = self.total, self._weight(self.finished)
        unseen = self.all.jobs - self.seen.jobs
        if unseen > 0 and ended > self.finished.jobs:
            amount += (total - self._weight(self.seen)) / unseen * min(ended - self.finished.jobs, unseen)
        amount += sum(self._of_running(step, now) for step in current)
        return min(amount, total)

    def _add(self, amount: _Amount, job: str) -> None:
        amount.jobs += 1
        if job in self.expected:
            duration = self.expected[job]
            if duration is None:
                amount.others[_kind_of(job)] += 1
            else:
                amount.estimated += max(duration, LEAST_WEIGHT)

    def _weight(self, amount: _Amount) -> float:
        return amount.estimated + sum(number * self._mean(kind) for kind, number in amount.others.items())

    def _mean(self, kind: str) -> float:
        mean = self.kinds[kind].mean
        if mean is None:
            mean = self.known_seconds / self.known if self.known else 1.0
        return max(mean, LEAST_WEIGHT)

    def _of_running(self, step: str, now: float) -> float:
        if step not in self.expected:
            return 0.0
        estimate = self.expected[step]
        weight = self._mean(_kind_of(step)) if estimate is None else max(estimate, LEAST_WEIGHT)
        if step in self.fractions:
            return weight * self.fractions[step]
        if estimate is None and not self.kinds[_kind_of(step)].measured:
            return 0.0  # nobody knows how far it is
        return min(now - self.since[step], 0.95 * weight)  # a step that takes longer than expected counts as 95 % done


def _kind_of(job: str) -> str:
    """`Job:learn[asia][7]` → `Job:learn`."""
    return without_indices(job)


class EqualWork:
    """A number of equal jobs, optionally with an estimated total time; else those that have ended tell it."""

    def __init__(self, jobs: int, estimated_runtime: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.jobs = max(1, jobs)
        self.estimate = estimated_runtime or None
        self.clock = clock
        self.began = clock()
        self.per_job: float | None = None  # seconds

    @property
    def total(self) -> float:
        if self.estimate is not None:
            return self.estimate
        return float(self.jobs) * (1.0 if self.per_job is None else self.per_job)

    @property
    def timed(self) -> bool:
        return self.estimate is not None or self.per_job is not None

    def add(self, steps: Sequence[str]) -> None:
        self.jobs += len(steps)

    def at(self, job: str, fraction: float) -> None:
        pass

    def took(self, job: str, seconds: float) -> None:
        pass

    def done(self, ended: int, running: Sequence[str]) -> float:
        if ended:
            self.per_job = max((self.clock() - self.began) / ended, LEAST_WEIGHT)
        return self.total * min(ended, self.jobs) / self.jobs


class Progress:
    """The text of the progress: counts, and the remaining time once durations are known."""

    def __init__(self, name: str, jobs: int, workers: int, work: Work) -> None:
        self.name, self.jobs, self.workers, self.work = name, jobs, max(1, workers), work
        self.ended, self.running, self.completed = 0, list[str](), 0.0

    def update(self, ended: int, running: list[str]) -> None:
        self.ended, self.running = ended, running
        self.completed = self.work.done(ended, running)

    def add(self, steps: list[str]) -> None:
        self.jobs += len(steps)
        self.work.add(steps)

    @property
    def count(self) -> str:
        return f"{self.name} {self.ended}/{self.jobs}".strip()

    @property
    def left(self) -> str:
        open_ = self.jobs - self.ended
        if open_ <= 0 or not self.work.timed:
            return ""
        remaining = max((self.work.total - self.completed) / min(self.workers, open_), 1.0)
        if remaining < 120:
            return f"~{remaining:.0f} s left"
        return f"~{remaining / 60:.0f} min left" if remaining < 7200 else f"~{remaining / 3600:.0f} h left"

    def plain(self) -> str:
        """`r0003 12/80, ~40 s left, running Job:learn[asia][7]`."""
        running = f"running {_names(self.running)}" if self.running else ""
        return ", ".join(part for part in (self.count, self.left, running) if part)


class Display(Protocol):
    """Where the progress is shown: a bar on a terminal, lines elsewhere, a display in a notebook."""

    progress: Progress

    def update(self, ended: int, running: list[str]) -> None: ...

    def finish(self) -> None: ...


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


# --- the bar -----------------------------------------------------------------------------------------------------


WIDE = 100  # columns of a terminal from which on the bar is long
BAR, SHORT_BAR, SHORTEST_BAR = 24, 12, 4  # columns
SHORTEST_NAME = 8  # columns: less would tell nothing


class BarProgress:
    """One line below the others, on a terminal: count, bar, times, and the names of running jobs as far as they fit."""

    def __init__(self, progress: Progress) -> None:
        # Import rich here: only a run on a terminal needs it.
        from rich.console import Console
        from rich.live import Live

        self.progress = progress
        self.console = Console(stderr=True, highlight=False)
        self.began = time.monotonic()
        self.updated = 0.0
        self.live = Live(console=self.console, get_renderable=self._line, refresh_per_second=10, transient=True)
        self.live.start()

    def update(self, ended: int, running: list[str]) -> None:
        now = time.monotonic()
        if now < self.updated + UPDATE_INTERVAL and ended < self.progress.jobs:
            return
        self.updated = now
        self.progress.update(ended, running)

    def print(self, text: str) -> None:
        from rich.text import Text

        # Keep our colours, but do not read brackets as rich's markup: they are part of IDs.
        self.console.print(Text.from_ansi(text), soft_wrap=True)

    def finish(self) -> None:
        self.live.stop()

    def _line(self) -> RenderableType:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        progress, elapsed = self.progress, str(timedelta(seconds=int(time.monotonic() - self.began)))
        parts = [progress.count, elapsed, progress.left]
        bar, names = layout(self.console.width, parts, progress.running)
        cells: list[RenderableType] = [
            Text(parts[0]),
            ProgressBar(progress.work.total, progress.completed, width=bar),
            Text(elapsed, style="yellow"),
            Text(parts[2]),
            Text(names),
        ]
        widths = [len(parts[0]), bar, len(elapsed), len(parts[2]), None]
        line = Table.grid(padding=(0, 1, 0, 0))
        shown = [(cell, width) for cell, width in zip(cells, widths, strict=True) if width != 0]
        for _, width in shown:
            line.add_column(width=width, no_wrap=True, overflow="crop")
        line.add_row(*(cell for cell, _ in shown))
        return line


def layout(columns: int, texts: Sequence[str], running: Sequence[str]) -> tuple[int, str]:
    """The width of the bar, and the names of the running jobs in the room beside it. `texts` are always shown."""
    room = columns - sum(len(text) + 1 for text in texts if text)
    bar = max(SHORTEST_BAR, min(BAR if columns >= WIDE else SHORT_BAR, room))
    return bar, names_in(room - bar - 1, running)


def names_in(room: int, running: Sequence[str]) -> str:
    """The names of the running jobs in so many columns: two of them, or one, or what fits of one."""
    from rich.cells import cell_len

    names = _names(running)
    if cell_len(names) <= room:
        return names
    more = f" +{len(running) - 1}" if len(running) > 1 else ""
    room -= len(more)
    return _cut(printable(running[0]), room) + more if room >= SHORTEST_NAME else ""


def _names(running: Sequence[str]) -> str:
    return listed([printable(name) for name in running[:2]], 2, len(running))


def _cut(text: str, room: int) -> str:
    """Cut in the middle: names of instances differ at the end."""
    from rich.cells import cell_len

    if cell_len(text) <= room:
        return text
    head, tail = text[: room // 2], text[len(text) - (room - 1 - room // 2) :]
    while cell_len(head) + cell_len(tail) >= room:  # wide characters take two columns
        head, tail = (head[:-1], tail) if cell_len(head) > cell_len(tail) else (head, tail[1:])
    return f"{head}…{tail}"
