"""`on_finish` of `whyrun.toml`: a command of the user that gets the status of a finished run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from whyrun.execution.recording.recorder import Reporter


class OnFinish:
    """Starts the command when the `with` block ends, normally or not, if a run was made in it.

    The lock is released by then, so the command may call `whyrun status` or start another run. It cannot change the
    outcome of the run: its failure is only a note.
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
        self.reporter.finish()  # or the output of the command would be mixed with the progress bar
        try:
            ended = subprocess.run(
                self.command,
                shell=isinstance(self.command, str),
                cwd=self.project,
                input=(self.run / "status.json").read_bytes(),
                stdout=sys.stderr.fileno() if _has_descriptor() else subprocess.DEVNULL,  # our stdout is for data
                env={**os.environ, "WHYRUN_RUN": self.run.name, "WHYRUN_WORKFLOW": self.workflow},
                check=False,
            )
        except OSError as failed:
            self.reporter.note(f"`on_finish` could not be started: {failed.strerror or failed}")
            return
        if ended.returncode:
            self.reporter.note(f"`on_finish` ended with status {ended.returncode}; the run itself is not affected")


def _has_descriptor() -> bool:
    """Whether stderr is a file; in a notebook or a test it may not be."""
    try:
        sys.stderr.fileno()
    except (OSError, ValueError, AttributeError):
        return False
    return True
