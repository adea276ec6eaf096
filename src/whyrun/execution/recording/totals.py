"""The totals of a run: how its steps ended (`RunCounts`) and what they used (`Usage`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from whyrun.console.lines import TaskStatus
from whyrun.money import Totals

SLOWEST_SHOWN = 3  # steps


@dataclass(slots=True)
class RunCounts:
    """How the planned steps ended. All fields together add up to the plan."""

    completed: int = 0
    reused: int = 0
    inactive: int = 0
    failed: int = 0
    timed_out: int = 0
    interrupted: int = 0
    blocked: int = 0
    not_started: int = 0
    held: int = 0  # back by the budget

    def to_json(self) -> dict[str, int]:
        """By field; `held` only where a budget held steps back."""
        return {name: number for name, number in asdict(self).items() if number or name != "held"}

    def by_outcome(self) -> dict[str, int]:
        """The counts that `run_complete` records."""
        return {
            "completed": self.completed,
            "failed": self.failed,
            "timed_out": self.timed_out,
            "interrupted": self.interrupted,
            "skipped": self.reused + self.inactive + self.held,
            "blocked": self.blocked,
        }

    @property
    def went_wrong(self) -> bool:
        """Whether the run has failed. A run that stopped before it started every step has not succeeded."""
        return bool(self.failed or self.timed_out or self.blocked or self.held or self.not_started)


@dataclass(slots=True)
class CompareCounts(RunCounts):
    """How the compared steps ended. `identical` and `different` are parts of `completed`; the rest of that had no
    recorded result to compare with."""

    identical: int = 0
    different: int = 0
    not_comparable: int = 0

    def by_outcome(self) -> dict[str, int]:
        counts = RunCounts.by_outcome(self)  # `super()` does not work in a dataclass with slots
        counts["skipped"] += self.not_comparable
        return {**counts, "identical": self.identical, "different": self.different}

    @property
    def went_wrong(self) -> bool:
        return bool(self.failed or self.timed_out or self.different or self.not_started)


@dataclass(slots=True)
class Usage:
    """Time, processor and memory over all attempts of a run, for the summary. `peak` is the most that one step held.

    `tasks`: how many tasks the actions reported, by status.
    """

    cpu_seconds: float = 0.0
    peak_bytes: int = 0
    peak_step: str | None = None
    slowest: list[tuple[float, str]] = field(default_factory=list)  # the slowest steps, slowest first
    tasks: Counter[str] = field(default_factory=Counter)
    spent: Totals = field(default_factory=Totals)

    def add(self, step: str, metrics: Mapping[str, float]) -> None:
        self.cpu_seconds += metrics.get("cpu_seconds", 0.0)
        peak = int(metrics.get("max_rss_bytes", 0))
        if peak > self.peak_bytes:
            self.peak_bytes, self.peak_step = peak, step
        duration = metrics.get("step_duration_ms", 0.0) / 1000
        if len(self.slowest) < SLOWEST_SHOWN or duration > self.slowest[-1][0]:
            longest = {name: most for most, name in self.slowest}  # the longest attempt of each step
            longest[step] = max(duration, longest.get(step, 0.0))
            ranked = sorted((-most, name) for name, most in longest.items())
            self.slowest = [(-most, name) for most, name in ranked[:SLOWEST_SHOWN]]

    def to_json(self) -> dict[str, Any]:
        return {
            "cpu_seconds": round(self.cpu_seconds, 3),
            "peak_memory_bytes": self.peak_bytes,
            "peak_memory_step": self.peak_step,
            "slowest": [{"id": step, "seconds": round(duration, 3)} for duration, step in self.slowest],
            "tasks": {status.value: number for status in TaskStatus if (number := self.tasks[status])},
            **({"spent": self.spent.to_json()} if self.spent else {}),
            **({"spent_unknown": self.spent.unknown} if self.spent.unknown else {}),
        }
