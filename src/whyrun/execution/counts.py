"""How the steps of a run ended, in numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class RunCounts:
    """How the planned steps ended; with `not_started` they add up to the plan."""

    completed: int = 0
    reused: int = 0
    inactive: int = 0
    failed: int = 0
    timed_out: int = 0
    interrupted: int = 0
    blocked: int = 0
    not_started: int = 0

    def add_failure(self, status: str) -> None:
        if status == "INTERRUPTED":
            self.interrupted += 1
        elif status == "TIMED_OUT":
            self.timed_out += 1
        else:
            self.failed += 1

    def by_outcome(self) -> dict[str, int]:
        """As in `run_complete`: how many steps ended in which way."""
        return {
            "completed": self.completed,
            "failed": self.failed,
            "timed_out": self.timed_out,
            "interrupted": self.interrupted,
            "skipped": self.reused + self.inactive,
            "blocked": self.blocked,
        }

    @property
    def went_wrong(self) -> bool:
        """Without an order to stop nothing is left over; a run that left something over has not succeeded."""
        return bool(self.failed or self.timed_out or self.blocked or self.not_started)


@dataclass(slots=True)
class CompareCounts(RunCounts):
    """How the compared steps ended. Of those that completed, `identical` and `different` could be compared."""

    identical: int = 0
    different: int = 0
    not_comparable: int = 0

    def by_outcome(self) -> dict[str, int]:
        found = RunCounts.by_outcome(self)  # `super()` does not work in a class with slots that `dataclass` makes
        found["skipped"] += self.not_comparable
        return {**found, "identical": self.identical, "different": self.different}

    @property
    def went_wrong(self) -> bool:
        return bool(self.failed or self.timed_out or self.different or self.not_started)
