"""`on_finish` of `whyrun.toml`: a command of the user's that is told how a run ended."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from whyrun.execution.recorder import Reporter


class OnFinish:
    """Runs the command when the block is left, whichever way, if a run was made in it.

    The lock is free by then, so the command may ask `whyrun status` or start another run. It cannot change how the run
    ended: what goes wrong with it is a note.
    """

    def __init__(self, command: str | Sequence[str] | None, project: Path, reporter: Reporter) -> None:
        self.command, self.project, self.reporter = command, project, reporter
        self.run: Path | None = None  # the folder of the run, once it is complete
        self.workflow = ""

    def completed(self, run: Path, workflow: str) -> None:
        self.run, self.workflow = run, workflow

    def __enter__(self) -> OnFinish:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.command is None or self.run is None:
            return
        self.reporter.finish()  # or what the command prints would run into the bar
        try:
            ended = subprocess.run(
                self.command,
                shell=isinstance(self.command, str),
                cwd=self.project,
                input=(self.run / "status.json").read_bytes(),
                stdout=sys.stderr.fileno() if _has_descriptor() else subprocess.DEVNULL,  # stdout is for data
                env={**os.environ, "WHYRUN_RUN": self.run.name, "WHYRUN_WORKFLOW": self.workflow},
                check=False,
            )
        except OSError as wrong:
            self.reporter.note(f"`on_finish` could not be started: {wrong.strerror or wrong}")
            return
        if ended.returncode:
            self.reporter.note(f"`on_finish` ended with status {ended.returncode}; the run itself is not affected")


def _has_descriptor() -> bool:
    """In a notebook or a test stderr may be no file."""
    try:
        sys.stderr.fileno()
    except (OSError, ValueError, AttributeError):
        return False
    return True
