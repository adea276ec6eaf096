"""Lines of jobs that cannot be run at all: no such action, or a `with:` block that does not fit it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path

from whyrun.actions.problem import Problem, parameter_summary
from whyrun.actions.registry import available_actions, nearest_first
from whyrun.console.lines import TaskLine, TaskStatus
from whyrun.planning.explain import printable
from whyrun.snapshot.lookup import LookedUp
from whyrun.snapshot.typed import Misfit


def refused_lines(
    jobs: Mapping[str, tuple[str, LookedUp]], misfits: Iterable[Misfit], project: Path, when: datetime
) -> Iterator[TaskLine]:
    """`jobs`: by name, what each uses and what came of looking it up. `misfits`: of single instances of theirs."""
    told: set[str] = set()
    for name, (uses, found) in jobs.items():
        if found.info is None and any(problem.code == "INVALID_USES" for problem in found.problems):
            if uses not in told:
                told.add(uses)
                available = ", ".join(nearest_first(uses, available_actions(project)))
                text = printable(f"{uses} → Available: [{available}]")
                yield TaskLine(when, printable(uses), TaskStatus.INVALID_USES, text)
        elif found.misfits:
            text = printable(f"Job:{name} → {parameter_summary(found.misfits)}")
            yield TaskLine(when, uses, TaskStatus.INVALID_PARAMETER, text)
    by_instance: dict[tuple[str, str], list[Problem]] = {}
    for misfit in misfits:
        instance = (misfit.table.decl.uses, misfit.table.job_id(misfit.position))
        by_instance.setdefault(instance, []).append(misfit.problem)
    for (uses, step), problems in by_instance.items():
        yield TaskLine(when, uses, TaskStatus.INVALID_PARAMETER, printable(f"{step} → {parameter_summary(problems)}"))
