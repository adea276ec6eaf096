"""What a comparison would do: which jobs it would execute again, how long that takes, and which it skips and why."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from whyrun.console.lines import TaskLine, TaskStatus, count, runtime_text, task_text
from whyrun.console.preview import task_name
from whyrun.errors import printable
from whyrun.execution.compare.comparable import Subject, find_subjects
from whyrun.execution.protocol.run_options import RunOptions
from whyrun.execution.run.preflight import check_limits, check_resources, resource_limits
from whyrun.planning.answers.explain import about, logged_duration
from whyrun.planning.plan import match_nodes
from whyrun.project import Project
from whyrun.snapshot.records import Records, run_name
from whyrun.snapshot.snapshot import PlanningSnapshot


def subjects_of(
    project: Project, snapshot: PlanningSnapshot, ids: Sequence[str], against: str | None
) -> tuple[Records, Sequence[Subject]]:
    """The subjects, and the records that they are compared with: the present ones, or those after an earlier run."""
    log = project.history() if against is None else project.history(through=project.state.run(against).number)
    records = snapshot.records if against is None else log.records
    subjects = find_subjects(snapshot, records, log, ids)
    for subject in subjects:
        log.check_known(snapshot.dependency_graph.job_id(subject.node))
    return records, subjects


@dataclass(frozen=True, slots=True)
class ComparisonPreview:
    """What a comparison will do, at most: a job whose recorded inputs are lost is skipped after all."""

    snapshot: PlanningSnapshot
    subjects: Sequence[Subject]

    @property
    def durations(self) -> dict[str, float | None]:
        """By job, in seconds; None: unknown."""
        steps = self.snapshot.records.steps
        jobs = {self.job(subject): subject for subject in self.subjects}
        return {job: logged_duration(steps.get(job)) if one.executes else 0.0 for job, one in jobs.items()}

    def job(self, subject: Subject) -> str:
        return self.snapshot.dependency_graph.job_id(subject.node)

    def estimate(self, workers: int = 0) -> float | None:
        """Seconds that it may take; None unless the log has a duration for every job."""
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
        if subject.consumed.inactive:
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


def preview_comparison(
    project: Project, ids: Sequence[str], against: str | None, options: RunOptions
) -> ComparisonPreview:
    """Does not lock, execute or record anything."""
    for text in ids:
        match_nodes(project.graph, text)
    check_limits(project, options.limits or {})
    snapshot = project.snapshot()
    _, subjects = subjects_of(project, snapshot, ids, against)
    limits = resource_limits(project, options)
    check_resources(snapshot, [subject.node for subject in subjects if subject.executes], limits)
    return ComparisonPreview(snapshot, subjects)
