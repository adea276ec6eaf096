"""One whyrun command in a fresh process: the real CLI where it has the command, else the same calls beneath it.

python bench/drive.py plan|explain|run FOLDER [--jobs N]: the file is `workflow.yaml` in the folder.
"""

from __future__ import annotations

import gc
import sys
from importlib.util import find_spec


def main() -> int:
    command, folder, *rest = sys.argv[1:]
    file = f"{folder}/workflow.yaml"
    if find_spec(f"whyrun.cli.{command}") is not None:
        from whyrun.cli.main import main as whyrun

        whyrun([command, file, *rest])  # does not return
    gc.disable()  # as the CLI does
    from whyrun.planning.plan import PlanOptions, compute_execution_plan
    from whyrun.snapshot.world import World

    world = World.open(file)
    if command == "run":
        from whyrun.execution.session import RunOptions, run_workflow

        jobs = int(rest[rest.index("--jobs") + 1]) if "--jobs" in rest else 2
        result = run_workflow(world, PlanOptions(), RunOptions(jobs=jobs), Silent())
        sys.stdout.write(f"{result.to_json()}\n")
        return result.exit_code
    plan = compute_execution_plan(world.snapshot(), PlanOptions())
    if plan.jobs:
        sys.stdout.buffer.write(plan.to_bytes())
    else:
        sys.stdout.write(f"{plan.totals} {plan.digest}\n")
    return 0


class Silent:
    def started(self, run: str, total: int) -> None: ...

    def line(self, text: str, status: str) -> None: ...

    def progress(self, ended: int, running: list[str]) -> None: ...

    def note(self, text: str) -> None: ...


if __name__ == "__main__":
    sys.exit(main())
