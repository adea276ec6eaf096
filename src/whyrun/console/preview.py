"""Lines that a plan alone can write: what a run would do, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path

from whyrun.console.files import bound_sources, input_size, inputs_text, outputs_text
from whyrun.console.lines import LogLevel, TaskLine, TaskStatus, runtime_text, size, task_text
from whyrun.graph.graph import ArtifactAt, InputAt, JobTable, Source
from whyrun.planning.explain import particulars, printable
from whyrun.planning.plan import Plan, PlannedJob
from whyrun.snapshot.snapshot import PlanningSnapshot


def task_name(table: JobTable, position: int) -> str:
    """The job's ID, which is its name, and what it is about."""
    step = table.job_id(position)
    return f"{step} {printable(table.decl.description)}" if table.decl.description else step


def dry_run_lines(
    plan: Plan, snapshot: PlanningSnapshot, durations: Mapping[str, float | None], project: Path, when: datetime
) -> Iterator[TaskLine]:
    """A line for each job that a run would touch. An upper bound: what would execute may yet be skipped."""
    foretold = _Foretold(snapshot, project, when)
    for job in plan.jobs:
        if job.state == "planned" and job.reuse is None:
            yield foretold.would_execute(job, durations.get(job.id))
        elif job.state == "planned":
            assert job.reuse is not None
            yield foretold.would_skip(job, f"reused from {job.reuse.told(job.id)}")
        elif job.state == "inactive":
            yield foretold.would_skip(job, _inactive(job))


def untouched_lines(
    plan: Plan, snapshot: PlanningSnapshot, project: Path, when: datetime, status: TaskStatus
) -> Iterator[TaskLine]:
    """A line for each job that is up to date (level `all`), and in a run for each that is inactive from the start."""
    foretold = _Foretold(snapshot, project, when)
    graph = snapshot.dependency_graph
    jobs = {job.node: job for job in plan.jobs}
    for table in graph.tables:
        for position in range(len(table)):
            job = jobs.get(table.base + position)
            if job is None:
                yield foretold.up_to_date(table, position, status)
            elif job.state == "inactive" and status is TaskStatus.SKIPS:
                yield foretold.line(table, position, status, [_inactive(job)], LogLevel.ALL)


class _Foretold:
    def __init__(self, snapshot: PlanningSnapshot, project: Path, when: datetime) -> None:
        self.snapshot, self.graph, self.project, self.when = snapshot, snapshot.dependency_graph, project, when

    def would_execute(self, job: PlannedJob, expected: float | None) -> TaskLine:
        table, position = self.graph.table_at(job.node)
        reason = job.reasons[0]
        text = task_text(
            task_name(table, position),
            runtime=runtime_text(TaskStatus.WOULD_EXECUTE, expected),
            inputs=inputs_text(self.graph, bound_sources(table, position), self._size),
            outputs=outputs_text(table, position, lambda a: "estimated"),
            details=[
                "if its condition holds" if job.conditional else "",
                f"{reason.code} {particulars(reason, job.id)}".rstrip(),
            ],
        )
        return TaskLine(self.when, table.decl.uses, TaskStatus.WOULD_EXECUTE, text)

    def would_skip(self, job: PlannedJob, why: str) -> TaskLine:
        return self.line(*self.graph.table_at(job.node), TaskStatus.WOULD_SKIP, [why], LogLevel.SUMMARY)

    def up_to_date(self, table: JobTable, position: int, status: TaskStatus) -> TaskLine:
        def exists(artifact: int) -> str:
            found = self._size(ArtifactAt(table.number, artifact, position))
            return "exists" if found is None else f"exists, {size(found)}"

        return self.line(table, position, status, [], LogLevel.ALL, outputs_text(table, position, exists))

    def line(
        self, table: JobTable, position: int, status: TaskStatus, details: list[str], level: LogLevel, outputs: str = ""
    ) -> TaskLine:
        text = task_text(task_name(table, position), outputs=outputs, details=map(printable, details))
        return TaskLine(self.when, table.decl.uses, status, text, level)

    def _size(self, at: Source) -> int | None:
        if isinstance(at, InputAt):
            return input_size(self.project, at)
        if self.snapshot.shas[at.table][at.artifact][at.position] is None:
            return None
        return self.snapshot.output(at).size


def _inactive(job: PlannedJob) -> str:
    absent = job.because.get("source")
    return f"source is inactive: {absent}" if absent else "condition is false"
