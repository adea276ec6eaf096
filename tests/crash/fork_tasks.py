"""What a forked process does: a command with a fault, a run that is to be killed, or a worker."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import crash_driver
from fault_hook import Fault, FaultHook, fork_workers
from power_loss_record import RecordingHook, tolerant_file_of

from whyrun import disk
from whyrun.cli import broken_pipe
from whyrun.cli.main import COMMANDS, main
from whyrun.execution.recording import recorder
from whyrun.execution.worker import main as worker

IMPORTED = (
    "whyrun.execution.backends.local.backend", "whyrun.execution.worker.step_runner",
    "whyrun.actions.builtin", "whyrun.planning.answers.why",
    "whyrun.execution.compare.compare", "whyrun.execution.adopt.adopt",
    "whyrun.evidence.verify.verify", "whyrun.console.logger",
)  # fmt: skip
for _name in (*IMPORTED, *(f"whyrun.cli.commands.{module}" for module, _ in COMMANDS.values())):
    importlib.import_module(_name)


def run_command(
    argv: Sequence[str],
    hits: str,
    faults: Sequence[dict[str, Any]],
    mark: str,
    armed: bool,
    record: bool,
    many: int | None,
) -> int:
    """`whyrun ARGV` with faults, or with a record of everything that it does to the disk."""
    descriptor = os.open(hits, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    if record:
        recording = RecordingHook(descriptor)
        disk.hook = recording
        broken_pipe.TolerantFile = tolerant_file_of(recording)  # type: ignore[misc]
    else:
        disk.hook = FaultHook(descriptor, [Fault(**fault) for fault in faults], mark, armed)
    if many is not None:
        recorder.MANY_ENDED = many
    sys.argv = ["whyrun", *argv]
    main()
    return 0


def run_driver(argv: Sequence[str]) -> int:
    """A run as `crash_driver.py` does it, with workers that are forked as well."""
    disk.hook = fork_workers
    return crash_driver.main(argv)


def run_worker(facts: str) -> int:
    worker.main(facts)
    return 0


TASKS = {"command": run_command, "driver": run_driver, "worker": run_worker}
