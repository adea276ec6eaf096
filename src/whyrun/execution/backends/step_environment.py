"""How a worker process is started on this machine, and how its end is described: the same for every backend."""

from __future__ import annotations

import os
import signal
import sys

from whyrun.actions.code.editable import whyrun_home
from whyrun.execution.protocol.framing import WorkerStart, encode


def worker_command(start: WorkerStart) -> list[str]:
    return [sys.executable, "-P", "-m", "whyrun.execution.worker.main", encode(start).decode()]


def step_environment(home: str, tmp: str) -> dict[str, str]:
    """The environment of a worker: a step sees no other variable of the host."""
    environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": home, "TMPDIR": tmp, "LANG": "C.UTF-8"}
    return with_whyrun(environment)


def with_whyrun(environment: dict[str, str]) -> dict[str, str]:
    """The environment with a PYTHONPATH, if a fresh interpreter would not find Whyrun without one."""
    package = whyrun_home()
    return environment if package is None else {**environment, "PYTHONPATH": package}


def describe_exit(status: int) -> str:
    """How a worker process ended. `status` is negative for a signal."""
    if status >= 0:
        return f"the worker exited with status {status} while the step ran"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"the worker was killed by {name}"
