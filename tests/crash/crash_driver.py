"""`python crash_driver.py FILE [NAME=VALUE …]`: one run as the command would do it, for tests that kill it.

It says `ready` on stdout when the run is about to begin, and the result as JSON at its end. With `CRASH_AT=N` it kills
itself by SIGKILL just before the Nth file operation from there on (those that Python audits: open, rename, mkdir, link,
remove, truncate), which reaches moments that a clock hardly ever hits. With `CRASH_AT=0` it only counts them.
"""

from __future__ import annotations

import json
import os
import signal
import sys

from whyrun.console.logger import WorkflowLogger
from whyrun.errors import WhyrunError
from whyrun.execution.checks import RunOptions
from whyrun.execution.session import run_workflow
from whyrun.planning.plan import PlanOptions
from whyrun.snapshot.world import World

FILE_OPERATIONS = {"open", "os.rename", "os.mkdir", "os.symlink", "os.link", "os.remove", "os.rmdir", "os.truncate"}
ENDLESS = 3600.0  # seconds between SIGTERM and SIGKILL: nobody waits for them, so what ended was not waited for
operations = 0


class Teller(WorkflowLogger):
    """Everything to stderr, and when the run has started."""

    def started(self, run: str, total: int) -> None:
        print(f"started {run} {total}", file=sys.stderr, flush=True)
        super().started(run, total)


def count_operations(limit: int) -> None:
    host = os.getpid()

    def hook(event: str, args: object) -> None:
        global operations
        if event not in FILE_OPERATIONS or os.getpid() != host:
            return
        if not str(args[0] if isinstance(args, tuple) else "").startswith("/proc/"):  # looking is no operation
            operations += 1
            if operations == limit:
                os.kill(host, signal.SIGKILL)

    sys.addaudithook(hook)


def main() -> int:
    file, *sets = sys.argv[1:]
    try:
        world = World.open(file, sets=sets)
        print("ready", flush=True)
        if "CRASH_AT" in os.environ:
            count_operations(int(os.environ["CRASH_AT"]))
        result = run_workflow(world, PlanOptions(), RunOptions(jobs=2, grace=ENDLESS), Teller())
    except WhyrunError as problem:
        print(problem, file=sys.stderr)
        return int(problem.exit)
    except KeyboardInterrupt:
        return 130
    print(json.dumps({**result.to_json(), "operations": operations}), flush=True)
    return result.exit_code


if __name__ == "__main__":
    sys.exit(main())
