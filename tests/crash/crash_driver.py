"""`python crash_driver.py FILE [NAME=VALUE …]`: one run as the command would do it, for tests that kill it.

It prints `ready` on stdout when the run is about to begin, and the result as JSON at its end. With `CRASH_AT=N` it
kills itself just before the Nth file operation from there on. File operations are those that Python audits: open,
rename, mkdir, link, remove, truncate. `CRASH_BY` is the number of the signal, SIGKILL by default. With `CRASH_AT=0` it
only counts the operations.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence

from whyrun.console.logger import WorkflowLogger
from whyrun.errors import WhyrunError
from whyrun.execution.backends.registry import RunOptions
from whyrun.execution.run.session import run_workflow
from whyrun.planning.plan import PlanOptions
from whyrun.project import Project

FILE_OPERATIONS = {"open", "os.rename", "os.mkdir", "os.symlink", "os.link", "os.remove", "os.rmdir", "os.truncate"}
ENDLESS = 3600.0  # seconds between SIGTERM and SIGKILL, longer than any test: a process that ends did so by itself
operations = 0


class Teller(WorkflowLogger):
    """Writes everything to stderr, also that the run has started."""

    def started(self, run: str, total: int) -> None:
        print(f"started {run} {total}", file=sys.stderr, flush=True)
        super().started(run, total)


def count_operations(limit: int, number: int) -> None:
    """Send this process the signal `number` just before its operation `limit`."""
    host = os.getpid()

    def hook(event: str, args: object) -> None:
        global operations
        if event not in FILE_OPERATIONS or os.getpid() != host:
            return
        if not str(args[0] if isinstance(args, tuple) else "").startswith("/proc/"):
            operations += 1
            if operations == limit:
                os.kill(host, number)

    sys.addaudithook(hook)


def main(argv: Sequence[str]) -> int:
    file, *sets = argv
    try:
        opened = Project.open(file, sets=sets)
        print("ready", flush=True)
        if "CRASH_AT" in os.environ:
            count_operations(int(os.environ["CRASH_AT"]), int(os.environ.get("CRASH_BY", signal.SIGKILL)))
        result = run_workflow(opened, PlanOptions(), RunOptions(jobs=2, grace=ENDLESS), Teller())
    except WhyrunError as problem:
        print(problem, file=sys.stderr)
        return int(problem.exit)
    except KeyboardInterrupt:
        return 130
    print(json.dumps({**result.to_json(), "operations": operations}), flush=True)
    return result.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
