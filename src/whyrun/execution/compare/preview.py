"""What a comparison would do: which jobs it would execute again, for how long, and which it would skip and why."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from whyrun.console.foretold import task_name
from whyrun.console.lines import TaskLine, TaskStatus, count, runtime_text, task_text
from whyrun.execution.checks import RunOptions, check_limits, check_resources
from whyrun.execution.comparable import Subject, find_subjects
from whyrun.planning.explain import about, logged_duration, printable
from whyrun.planning.plan import match_nodes
from whyrun.snapshot.records import Records, run_name
from whyrun.snapshot.snapshot import PlanningSnapshot
from whyrun.snapshot.world import World


def subjects_of(
    world: World, snapshot: PlanningSnapshot, ids: Sequence[str], against: str | None
) -> tuple[Records, Sequence[Subject]]:
    """With the records that they are compared with: of now, or as they were after an earlier run."""
    log = world.history() if against is None else world.history(through=world.state.run(against).number)
    records = snapshot.records if against is None else log.records
    subjects = find_subjects(snapshot, records, log, ids)
    for subject in subjects:
        log.check_known(snapshot.dependency_graph.job_id(subject.node))
    return records, subjects


@dataclass(frozen=True, slots=True)
class Foretold:
    """What a comparison is about to do. An upper bound: a job whose recorded inputs are gone is skipped after all."""

    snapshot: PlanningSnapshot
    subjects: Sequence[Subject]

    @property
    def durations(self) -> dict[str, float | None]:
        """By job, in seconds; None where it is not known."""
        steps = self.snapshot.records.steps
        jobs = {self.job(subject): subject for subject in self.subjects}
        return {job: logged_duration(steps.get(job)) if one.executes else 0.0 for job, one in jobs.items()}

    def job(self, subject: Subject) -> str:
        return self.snapshot.dependency_graph.job_id(subject.node)

    def estimate(self, workers: int = 0) -> float | None:
        """Seconds that it may take; None unless every job has been timed."""
        known = [duration for duration in self.durations.values() if duration is not None]
        if not known or len(known) < len(self.subjects):
            return None
        return max(max(known), sum(known) / (workers or os.cpu_count() or 1))

    def headline(self, workers: int = 0) -> str:
        if not self.subjects:
            return "nothing to compare: no job has a result"
        executing = sum(subject.executes for subject in self.subjects)
        rest = len(self.subjects) - executing
        estimate = self.estimate(workers) if executing else None
        return "".join(
            [
                f"{count(executing, 'job')} to execute again and compare",
                f", {rest} to skip" if rest else "",
                f"  (~{about(estimate)})" if estimate is not None else "",
            ]
        )

    def lines(self, when: datetime) -> Iterator[TaskLine]:
        durations = self.durations
        for subject in self.subjects:
            table, position = self.snapshot.dependency_graph.table_at(subject.node)
            status = TaskStatus.WOULD_EXECUTE if subject.executes else TaskStatus.WOULD_SKIP
            runtime = runtime_text(status, durations[self.job(subject)]) if subject.executes else ""
            text = task_text(task_name(table, position), runtime=runtime, details=[printable(self.detail(subject))])
            yield TaskLine(when, table.decl.uses, status, text)

    def detail(self, subject: Subject) -> str:
        if subject.found.inactive:
            return "inactive"
        if subject.not_comparable is not None:
            return f"not comparable: {subject.not_comparable}"
        if subject.against is None:
            return "there is nothing to compare with"
        adopted = ", adopted" if subject.against.adopted else ""
        return f"to compare with {run_name(subject.against.run)}{adopted}"

    def to_json(self, workers: int = 0) -> dict[str, Any]:
        jobs = []
        for subject in self.subjects:
            status = "WOULD_EXECUTE" if subject.executes else "WOULD_SKIP"
            jobs.append({"id": self.job(subject), "status": status, "why": self.detail(subject)})
        return {"dry_run": True, "estimate_seconds": self.estimate(workers), "jobs": jobs}


def foretell_comparison(world: World, ids: Sequence[str], against: str | None, options: RunOptions) -> Foretold:
    """Nothing is locked, executed or recorded."""
    for text in ids:
        match_nodes(world.graph, text)
    check_limits(world, options.limits or {})
    snapshot = world.snapshot()
    _, subjects = subjects_of(world, snapshot, ids, against)
    limits = {**(world.config.resources or {}), **(options.limits or {})}
    check_resources(snapshot, [subject.node for subject in subjects if subject.executes], limits)
    return Foretold(snapshot, subjects)
