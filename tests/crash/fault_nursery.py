"""`python fault_nursery.py`: forks a process for each command that is asked for, with a fault point armed in it.

Whyrun is imported once, so a command costs what it does and not what starting it takes. A line of JSON on stdin
asks, one on stdout tells how it ended.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from typing import Any

from cut_record import RecordingHook, TellingStream
from fault_hook import Fault, FaultHook

from whyrun import disk
from whyrun.cli.main import COMMANDS, main
from whyrun.execution import recorder

IMPORTED = (
    "whyrun.execution.backends.local", "whyrun.execution.step_process", "whyrun.actions.builtin", "whyrun.planning.why",
    "whyrun.execution.compare", "whyrun.execution.adopt", "whyrun.evidence.verify", "whyrun.console.logger", "ctypes",
)  # fmt: skip


def perform(asked: dict[str, Any]) -> int:
    """In the forked process: the command, as from a shell."""
    os.chdir(asked["cwd"])
    for name, descriptor in (("out", 1), ("err", 2)):
        os.dup2(os.open(asked[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), descriptor)
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115  # those of the nursery went elsewhere
    sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
    hits = os.open(asked["hits"], os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    if asked["record"]:
        recording = RecordingHook(hits)
        disk.hook = recording
        sys.stderr = TellingStream(recording, sys.stderr)  # type: ignore[assignment]
    else:
        disk.hook = FaultHook(hits, [Fault(**fault) for fault in asked["faults"]], asked["mark"], asked["armed"])
    if asked["many"]:
        recorder.MANY_ENDED = asked["many"]
    sys.argv = ["whyrun", *asked["argv"]]
    try:
        main()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def serve() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            status = 99
            try:
                signal.signal(signal.SIGPIPE, signal.SIG_IGN)
                status = perform(json.loads(line))
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(json.dumps(status), flush=True)


if __name__ == "__main__":
    for name in (*IMPORTED, *(f"whyrun.cli.{module}" for module, _ in COMMANDS.values())):
        importlib.import_module(name)
    serve()
