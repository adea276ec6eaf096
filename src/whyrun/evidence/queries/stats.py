"""How often and how long the jobs of a workflow ran, read from the logs of its runs: by job or by action.

Every execution counts, also that of a comparison. What was up to date is not in a log and is counted nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal

from whyrun.ids import without_indices
from whyrun.log import events as ev
from whyrun.log.runs import RunRef
from whyrun.money import Totals

By = Literal["job", "action"]
GROUPS: tuple[By, ...] = ("job", "action")
UNKNOWN_ACTION = "(unknown)"  # of a result that was reused from a shared store and never executed here
# The columns of a row, in this order; `docs/log.md` describes them. After them one a currency: `spent_USD`.
COLUMNS = (
    "runs", "executed", "succeeded", "failed", "timed_out", "interrupted", "retries", "reused", "hit_rate", "skipped",
    "blocked", "seconds", "seconds_mean", "seconds_median", "seconds_max", "costs_unknown",
)  # fmt: skip


@dataclass(slots=True)
class StatsRow:
    """`executed`: attempts that ended. Times are those of successes."""

    name: str
    runs: set[str] = field(default_factory=set)
    ends: dict[str, int] = field(default_factory=dict)  # succeeded, failed, … → attempts
    retries: int = 0
    reused: int = 0
    skipped: int = 0
    blocked: int = 0
    seconds: list[float] = field(default_factory=list)
    spent: Totals = field(default_factory=Totals)

    @property
    def executed(self) -> int:
        return sum(self.ends.values())

    @property
    def hit_rate(self) -> float | None:
        """Reused results among the results that were asked for; None if none was."""
        wanted = self.reused + self.ends.get("succeeded", 0)
        return round(self.reused / wanted, 4) if wanted else None

    def add_all(self, other: StatsRow) -> None:
        self.runs |= other.runs
        for end, number in other.ends.items():
            self.ends[end] = self.ends.get(end, 0) + number
        self.retries += other.retries
        self.reused += other.reused
        self.skipped += other.skipped
        self.blocked += other.blocked
        self.seconds += other.seconds
        self.spent.add_all(other.spent.to_record())

    def to_json(self, by: str) -> dict[str, Any]:
        times = sorted(self.seconds)
        body: dict[str, Any] = {
            by: self.name, "runs": len(self.runs), "executed": self.executed,
            **{end: self.ends.get(end, 0) for end in ("succeeded", "failed", "timed_out", "interrupted")},
            "retries": self.retries, "reused": self.reused, "hit_rate": self.hit_rate, "skipped": self.skipped,
            "blocked": self.blocked, "seconds": round(sum(times), 6),
            "seconds_mean": round(sum(times) / len(times), 6) if times else None,
            "seconds_median": round(median(times), 6) if times else None,
            "seconds_max": times[-1] if times else None, "costs_unknown": self.spent.unknown,
        }  # fmt: skip
        return {**body, "spent": self.spent.to_json()}


_ENDS = {"FAILED": "failed", "TIMED_OUT": "timed_out", "INTERRUPTED": "interrupted"}


def stats_rows(runs: Iterable[RunRef], by: By, since: str = "", until: str = "~") -> list[StatsRow]:
    """By name. `since`, `until`: times as the log writes them, of which only the events between count."""
    rows: dict[tuple[str, str], StatsRow] = {}  # (job, action)
    actions: dict[str, str] = {}  # step → its last action
    for run in runs:
        for event in run.events():
            step = getattr(event, "step_id", None)
            if isinstance(event, ev.StepStart):
                actions[event.step_id] = event.driver
            if step is None or not since <= event.ts <= until:
                continue
            key = without_indices(step).removeprefix("Job:"), actions.get(step, "")
            _count(rows.setdefault(key, StatsRow("")), event, run.name)
    return _grouped({key: row for key, row in rows.items() if row.runs}, by)


def _count(row: StatsRow, event: ev.AnyEvent, run: str) -> None:
    match event:
        case ev.StepStart():
            row.retries += event.attempt > 1
        case ev.StepComplete():
            row.ends["succeeded"] = row.ends.get("succeeded", 0) + 1
            row.seconds.append(event.duration)
        case ev.StepFailed():
            end = _ENDS[event.status]
            row.ends[end] = row.ends.get(end, 0) + 1
        case ev.StepSkipped():
            row.reused += event.why == "reused"
            row.skipped += event.why != "reused"
        case ev.StepBlocked():
            row.blocked += 1
        case ev.CostRecorded():
            row.spent.add(event.amount, event.currency)
        case _:
            return
    row.runs.add(run)


def _grouped(rows: Mapping[tuple[str, str], StatsRow], by: By) -> list[StatsRow]:
    """A step that was never executed here has the action of the other instances of its job."""
    known = {job: action for job, action in rows if action}
    groups: dict[str, StatsRow] = {}
    for (job, action), row in rows.items():
        name = job if by == "job" else action or known.get(job, UNKNOWN_ACTION)
        groups.setdefault(name, StatsRow(name)).add_all(row)
    return [groups[name] for name in sorted(groups)]
