"""Run a workflow in a process of its own, to be interrupted and killed: `run_in_process.py FILE GRACE [FORCE …]`."""

from __future__ import annotations

import sys

from project_lab import Heard
from whyrun.console.lines import TaskLine
from whyrun.errors import WhyrunError
from whyrun.execution.backends.registry import RunOptions
from whyrun.execution.run.session import run_workflow
from whyrun.planning.plan import PlanOptions
from whyrun.project import Project


class Telling(Heard):
    def started(self, run: str, total: int) -> None:
        print(f"started {run}", flush=True)

    def tell(self, lines: list[TaskLine]) -> None:
        for line in lines:
            print(f"{line.status.value} {line.render()}", flush=True)


if __name__ == "__main__":
    try:
        file, grace, *force = sys.argv[1:]
        options = PlanOptions(force=tuple(force))
        result = run_workflow(Project.open(file), options, RunOptions(jobs=2, grace=float(grace)), Telling())
    except WhyrunError as problem:
        print(problem, flush=True)
        sys.exit(int(problem.exit))
    sys.exit(result.exit_code)
