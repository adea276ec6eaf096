"""Runs commands one after the other, and sees which files of the project each of them reads and writes."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from whyrun.errors import error
from whyrun.execution.protocol.messages import StepReads
from whyrun.execution.reads.content import ReadContent
from whyrun.execution.reads.glimpses import Sighted
from whyrun.execution.reads.places import Places
from whyrun.execution.reads.strace_eye import StraceEye


@dataclass(frozen=True, slots=True)
class TracedCommand:
    command: str
    seconds: float
    read: list[str]  # files of the project that are there, relative to it
    written: list[str]  # the same
    reads: StepReads  # as a step would report them


def trace_commands(
    project: Path, commands: Sequence[str], state_dir: Path, tell: Callable[[str], None]
) -> list[TracedCommand]:
    """Run the commands in the project folder. Raises an error if strace cannot be used, or a command fails."""
    with tempfile.TemporaryDirectory(prefix="whyrun-init-") as folder:
        eye = StraceEye(Path(folder), str(project))
        problem = eye.why_not()
        if problem:
            hint = "install it (`apt-get install strace`); or write the workflow by hand, see `whyrun init`"
            raise error("BACKEND_UNAVAILABLE", f"what commands read and write cannot be seen: {problem}", hint=hint)
        return [_traced(eye, project, command, folder, state_dir, tell) for command in commands]


def _traced(
    eye: StraceEye, project: Path, command: str, folder: str, state_dir: Path, tell: Callable[[str], None]
) -> TracedCommand:
    places = Places(str(project), folder, [str(state_dir)])
    places.work_in(str(project), copy=False)
    eye.begin()
    eye.folder = str(project)
    tell(f"$ {command}")
    began, clock = time.time_ns(), time.monotonic()
    status = subprocess.run([*eye.launcher(), "bash", "-euo", "pipefail", "-c", command], cwd=project).returncode
    seconds = time.monotonic() - clock
    if status != 0:
        hint = "correct it, then repeat the command: nothing was written"
        raise error("USAGE", f"`{command}` ended with status {status}", hint=hint)
    sighted = places.sighted(eye.take())
    there = places.written_by([sighted], began)
    seen = ReadContent(str(project), time.time_ns, live=True).of(Sighted(), sighted, began)
    looked_at = {*sighted.opened, *sighted.updated}.difference(there)
    read = sorted(path for path in looked_at if os.path.isfile(project / path))
    return TracedCommand(command, seconds, read, there, StepReads(seen, list(sighted.outside), traced=True))
