"""Lines written from the plan alone: what a run would do, what is up to date, and which jobs are invalid."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from whyrun.actions.problem import parameter_summary
from whyrun.console.files import bound_sources, input_size, inputs_text, made_note, outputs_text
from whyrun.console.lines import LogLevel, TaskLine, TaskStatus, count, runtime_text, size, task_text
from whyrun.graph.tables import ArtifactAt, InputAt, JobTable, Source
from whyrun.planning.plan import Plan, PlannedJob
from whyrun.snapshot.snapshot import PlanningSnapshot
from whyrun.workflow.arrays import Every

if TYPE_CHECKING:
    from whyrun.errors import Diagnostic
    from whyrun.planning.answers.prices import Prices
    from whyrun.planning.reuse import Reuse
    from whyrun.snapshot.actions.lookup import LookedUp
    from whyrun.snapshot.actions.parameter_checks import Misfit


def task_name(table: JobTable, position: int) -> str:
    """The job's ID and description."""
    step = table.job_id(position)
    return f"{step} {table.decl.description}" if table.decl.description else step


def reuse_note(table: JobTable, position: int, reuse: Reuse, before: str = "") -> Callable[[int], str]:
    """The note on each output file of a reused result: its size."""
    sizes = {key: output.size for key, output in reuse.outputs.items()}
    return lambda artifact: f"{before}{made_note(table, position, artifact, sizes)}"


def dry_run_lines(
    plan: Plan,
    snapshot: PlanningSnapshot,
    durations: Mapping[str, float | None],
    prices: Prices | None,
    project: Path,
    when: datetime,
) -> Iterator[TaskLine]:
    """A line for each job that a run would touch. A run may still skip some of the jobs that would execute."""
    preview = _Preview(snapshot, project, when)
    for job in plan.jobs:
        if job.state == "planned" and job.reuse is None:
            price = prices.of_job(job.id) if prices is not None else None
            yield preview.would_execute(job, durations.get(job.id), price)
        elif job.state == "planned":
            assert job.reuse is not None
            yield preview.would_reuse(job, job.reuse)
        elif job.state == "inactive":
            yield preview.would_skip(job, _inactive(job))


def untouched_lines(
    plan: Plan, snapshot: PlanningSnapshot, project: Path, when: datetime, status: TaskStatus
) -> Iterator[TaskLine]:
    """A line for each up-to-date job (level `all`) and, in a run, for each job that is inactive from the start."""
    preview = _Preview(snapshot, project, when)
    graph = snapshot.dependency_graph
    jobs = {job.node: job for job in plan.jobs}
    for table in graph.tables:
        for position in range(len(table)):
            job = jobs.get(table.base + position)
            if job is None:
                yield preview.up_to_date(table, position, status)
            elif job.state == "inactive" and status is TaskStatus.SKIPS:
                yield preview.line(table, position, status, [_inactive(job)], LogLevel.ALL)


class _Preview:
    def __init__(self, snapshot: PlanningSnapshot, project: Path, when: datetime) -> None:
        self.snapshot, self.graph, self.project, self.when = snapshot, snapshot.dependency_graph, project, when

    def would_execute(self, job: PlannedJob, expected: float | None, price: str | None) -> TaskLine:
        table, position = self.graph.table_at(job.node)
        reason = job.reasons[0]
        text = task_text(
            task_name(table, position),
            runtime=runtime_text(TaskStatus.WOULD_EXECUTE, expected),
            inputs=inputs_text(self.graph, bound_sources(table, position), self._size),
            outputs=outputs_text(table, position, lambda a: "estimated"),
            details=[
                "if its condition holds" if job.conditional else "",
                f"{reason.code} {reason.text(job.id)}".rstrip(),
                price or "",
            ],
        )
        return TaskLine(self.when, table.decl.uses, TaskStatus.WOULD_EXECUTE, text)

    def would_skip(self, job: PlannedJob, why: str) -> TaskLine:
        return self.line(*self.graph.table_at(job.node), TaskStatus.WOULD_SKIP, [why], LogLevel.SUMMARY)

    def would_reuse(self, job: PlannedJob, reuse: Reuse) -> TaskLine:
        table, position = self.graph.table_at(job.node)
        outputs = outputs_text(table, position, reuse_note(table, position, reuse))
        why = [f"reused from {reuse.describe(job.id)}"]
        return self.line(table, position, TaskStatus.WOULD_SKIP, why, LogLevel.SUMMARY, outputs)

    def up_to_date(self, table: JobTable, position: int, status: TaskStatus) -> TaskLine:
        def exists(artifact: int) -> str:
            bytes_ = self._size(ArtifactAt(table.number, artifact, position))
            return "exists" if bytes_ is None else f"exists, {size(bytes_)}"

        return self.line(table, position, status, [], LogLevel.ALL, outputs_text(table, position, exists))

    def line(
        self, table: JobTable, position: int, status: TaskStatus, details: list[str], level: LogLevel, outputs: str = ""
    ) -> TaskLine:
        text = task_text(task_name(table, position), outputs=outputs, details=details)
        return TaskLine(self.when, table.decl.uses, status, text, level)

    def _size(self, at: Source) -> int | None:
        if isinstance(at, InputAt):
            return input_size(self.project, at)
        if self.snapshot.shas[at.table][at.artifact][at.position] is None:
            return None
        if at.element is not None:
            wanted = self.snapshot.elements(at) if isinstance(at.element, Every) else [self.snapshot.element(at)]
            return sum(element.size for element in wanted if element is not None)
        return self.snapshot.output(at).size


def _inactive(job: PlannedJob) -> str:
    absent = job.because.get("source")
    return f"source is inactive: {absent}" if absent else "condition is false"


# --- invalid jobs ------------------------------------------------------------------------------------------------


def refused_lines(
    jobs: Mapping[str, tuple[str, LookedUp]], misfits: Iterable[Misfit], project: Path, when: datetime
) -> Iterator[TaskLine]:
    """Lines of jobs that cannot run: the action does not exist or cannot be used, or the `with:` block is invalid.

    `jobs`: by name, the `uses:` of each job and its looked-up action. `misfits`: problems of single instances.
    """
    reported: set[str] = set()
    by_job: dict[str, list[Misfit]] = {}
    for misfit in misfits:
        by_job.setdefault(misfit.table.name, []).append(misfit)
    for name, (uses, looked_up) in jobs.items():
        if looked_up.info is None and any(problem.code == "INVALID_USES" for problem in looked_up.problems):
            if uses not in reported:
                reported.add(uses)
                yield TaskLine(when, uses, TaskStatus.INVALID_USES, _unusable(uses, looked_up, project))
        elif looked_up.misfits:
            problems = [*looked_up.misfits, *(misfit.problem for misfit in by_job.pop(name, ()))]
            text = f"Job:{name} → {parameter_summary(problems)}"
            yield TaskLine(when, uses, TaskStatus.INVALID_PARAMETER, text)
    for of_job in by_job.values():
        yield from _of_instances(of_job, when)


OTHERS_SHOWN = 10
_TOLD = frozenset({"INVALID_USES", "INVALID_PARAMETER"})  # codes of what `refused_lines` tells


def other_problems(problems: Sequence[Diagnostic], when: datetime, *, told: bool) -> Iterator[TaskLine]:
    """A line for each problem that is not one of a job with its action, such as an unknown reference: whoever reads the
    lines of a refused workflow sees why nothing ran. Each has a position in a file of the workflow; what is wrong with
    the command line or a setting is not about the workflow.

    `told`: `refused_lines` had lines for its problems.
    """
    others = [p for p in problems if p.column is not None and p.code != "USAGE" and not (told and p.code in _TOLD)]
    for problem in others[:OTHERS_SHOWN]:
        text = f"{problem.file}:{problem.line}:{problem.column} → {problem.code}: {problem.message}"
        yield TaskLine(when, "whyrun", TaskStatus.INVALID_PARAMETER, text.split("\n", 1)[0])
    if more := len(others[OTHERS_SHOWN:]):
        yield TaskLine(when, "whyrun", TaskStatus.INVALID_PARAMETER, f"and {count(more, 'more problem')}")


def _unusable(uses: str, looked_up: LookedUp, project: Path) -> str:
    """Why an action cannot be used; if it does not exist, the available ones."""
    from whyrun.actions.registry.registry import action_exists, available_actions, nearest_first

    if action_exists(uses, project):
        (problem, *_) = (problem for problem in looked_up.problems if problem.code == "INVALID_USES")
        return f"{uses} → {problem.message.removeprefix(f'the action `{uses}` ')}"
    return f"{uses} → Available: [{', '.join(nearest_first(uses, available_actions(project)))}]"


def _of_instances(misfits: list[Misfit], when: datetime) -> Iterator[TaskLine]:
    """One line for the first instance that has a problem, with the number of other instances that have it."""
    by_position: dict[int, list[Misfit]] = {}
    for misfit in misfits:
        by_position.setdefault(misfit.position, []).append(misfit)
    for position, here in by_position.items():
        table, more = here[0].table, max(misfit.more for misfit in here)
        others = f" (and {more} more)" if more else ""
        text = f"{table.job_id(position)}{others} → {parameter_summary(misfit.problem for misfit in here)}"
        yield TaskLine(when, table.decl.uses, TaskStatus.INVALID_PARAMETER, text)
