"""Lines of jobs that cannot be run at all: no such action, or a `with:` block that does not fit it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path

from whyrun.actions.problem import parameter_summary
from whyrun.actions.registry import available_actions, is_there, nearest_first
from whyrun.console.lines import TaskLine, TaskStatus
from whyrun.planning.explain import printable
from whyrun.snapshot.lookup import LookedUp
from whyrun.snapshot.typed import Misfit


def refused_lines(
    jobs: Mapping[str, tuple[str, LookedUp]], misfits: Iterable[Misfit], project: Path, when: datetime
) -> Iterator[TaskLine]:
    """`jobs`: by name, what each uses and what came of looking it up. `misfits`: of single instances of theirs."""
    told: set[str] = set()
    by_job: dict[str, list[Misfit]] = {}
    for misfit in misfits:
        by_job.setdefault(misfit.table.name, []).append(misfit)
    for name, (uses, found) in jobs.items():
        if found.info is None and any(problem.code == "INVALID_USES" for problem in found.problems):
            if uses not in told:
                told.add(uses)
                text = printable(_unusable(uses, found, project))
                yield TaskLine(when, printable(uses), TaskStatus.INVALID_USES, text)
        elif found.misfits:
            problems = [*found.misfits, *(misfit.problem for misfit in by_job.pop(name, ()))]
            text = printable(f"Job:{name} → {parameter_summary(problems)}")
            yield TaskLine(when, uses, TaskStatus.INVALID_PARAMETER, text)
    for of_job in by_job.values():
        yield from _of_instances(of_job, when)


def _unusable(uses: str, found: LookedUp, project: Path) -> str:
    """What there is instead; of one that is there, why it cannot be used."""
    if is_there(uses, project):
        (problem, *_) = (problem for problem in found.problems if problem.code == "INVALID_USES")
        return f"{uses} → {problem.message.removeprefix(f'the action `{uses}` ')}"
    return f"{uses} → Available: [{', '.join(nearest_first(uses, available_actions(project)))}]"


def _of_instances(misfits: list[Misfit], when: datetime) -> Iterator[TaskLine]:
    """A line for the first instance that has a mistake, with the number of others that have it, too."""
    by_position: dict[int, list[Misfit]] = {}
    for misfit in misfits:
        by_position.setdefault(misfit.position, []).append(misfit)
    for position, here in by_position.items():
        table, more = here[0].table, max(misfit.more for misfit in here)
        others = f" (and {more} more)" if more else ""
        text = f"{table.job_id(position)}{others} → {parameter_summary(misfit.problem for misfit in here)}"
        yield TaskLine(when, table.decl.uses, TaskStatus.INVALID_PARAMETER, printable(text))
