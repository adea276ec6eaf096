"""From commands to a workflow: `whyrun init --from`.

In: commands, as a person types them. Out: a workflow file with what they read and write, and a first run in the log,
because they have just run.
"""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import re
import shlex
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from whyrun.artifacts.store import Store
from whyrun.errors import error
from whyrun.execution.backends.base import NO_NEEDS, Session, StepNeeds
from whyrun.execution.backends.remote.site import decode_cfg
from whyrun.execution.protocol.framing import timestamp
from whyrun.execution.protocol.messages import ExecStep, Message, OutputResult, StepBegan, StepFinished, StepReads
from whyrun.execution.reads.content import ReadContent
from whyrun.execution.reads.glimpses import Sighted
from whyrun.execution.reads.places import Places
from whyrun.execution.reads.strace_eye import StraceEye
from whyrun.execution.worker.collect import collect_file
from whyrun.execution.worker.failure import failure_of

# --- runs commands one after the other, and sees which files of the project each of them reads and writes -------------


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


# --- a backend for commands that have just run: it executes nothing, and collects the outputs from where they are -----
# The first run of the new workflow records them, with what was read, so that the second has nothing to do.


class MadeAlready:
    name = "local"

    def __init__(self, commands: Mapping[str, TracedCommand]) -> None:
        """`commands`: by job."""
        self._commands = commands
        self._messages: deque[Message] = deque()

    def open(self, session: Session) -> None:
        self._session = session
        self._store = Store(session.store)

    def prepare(self, stopped: object) -> None:
        """There is no worker to prepare."""

    def submit(self, command: ExecStep, secrets: Mapping[str, str] | None = None, needs: StepNeeds = NO_NEEDS) -> None:
        del secrets, needs
        traced = self._commands[command.step_id.removeprefix("Job:")]
        data = (self._session.run_dir / command.cfg_path).read_bytes()
        assert hashlib.sha256(data).hexdigest() == command.cfg_sha256
        outputs: list[OutputResult] = []
        error, kind = "", None
        for name, spec in decode_cfg(data).outputs.items():
            assert spec.path is not None
            try:
                outputs += collect_file(name, spec, self._session.project / spec.path, self._store)
            except Exception as problem:  # the run tells it
                failure = failure_of(problem)
                error, kind, outputs = failure.error, failure.error_type, []
                break
        self._messages.append(StepBegan(command.step_id, command.attempt, timestamp()))
        self._messages.append(
            StepFinished(
                command.step_id, command.attempt, timestamp(), traced.seconds, outputs,
                {"step_duration_ms": round(traced.seconds * 1000, 3)}, error, kind, n=1, reads=traced.reads,
            )
        )  # fmt: skip

    def room(self) -> int:
        return 1

    def withdraw(self) -> list[ExecStep]:
        return []

    def unqueue(self, steps: Set[str]) -> list[ExecStep]:
        return []

    def acknowledge(self, step_id: str, key: str) -> None:
        """No step remembers anything."""

    def signal(self, step_id: str, signum: int) -> None:
        """Its last message is on the way."""

    def messages(self, timeout: float) -> Sequence[Message]:
        found = [*self._messages]
        self._messages.clear()
        return found

    def wakeup_fd(self) -> int | None:
        return None

    def close(self) -> None:
        """Nothing runs."""


# --- the workflow that the commands imply -----------------------------------------------------------------------------


_CODE = (".py", ".R", ".r", ".sh", ".jl", ".pl", ".js", ".sql", ".ipynb", ".m", ".do")
_TYPES = {".json": "json", ".txt": "text", ".md": "text", ".png": "image", ".jpg": "image", ".jpeg": "image"}
_HEAD = """\
# Written by `whyrun init --from`: what these commands read and wrote. Look at it, and change what you like.
# `code:` are files whose content counts; other files that a script reads are noticed when it runs.
"""


def workflow_text(name: str, commands: Sequence[TracedCommand]) -> str:
    """Raises an error if two commands write the same file."""
    makers: dict[str, tuple[str, str]] = {}  # path → job, output
    jobs: list[tuple[str, TracedCommand, dict[str, str]]] = []
    taken: set[str] = set()
    for traced in commands:
        job = _free(_job_name(traced.command), taken)
        outputs: dict[str, str] = {}
        own: set[str] = set()
        for path in traced.written:
            if path in makers:
                hint = "let each command write files of its own; or give both as one command: 'a && b'"
                raise error("USAGE", f"`{traced.command}` writes `{path}`, as an earlier command does", hint=hint)
            output = outputs[path] = _free(_identifier(posixpath.basename(path)), own)
            makers[path] = (job, output)
        jobs.append((job, traced, outputs))
    inputs: dict[str, str] = {}
    for _, traced, _ in jobs:
        for path in _data_of(traced):
            if path not in makers and path not in inputs:
                inputs[path] = _free(_identifier(posixpath.basename(path)), taken)
    lines = [_HEAD + f"workflow: {name}", "defaults: {workdir: project}"]
    if inputs:
        lines += ["inputs:", *(f"  {one}: {{type: file, default: {_quoted(path)}}}" for path, one in inputs.items())]
    lines.append("jobs:")
    for job, traced, outputs in jobs:
        lines += _job(job, traced, outputs, inputs, makers)
    return "\n".join(lines) + "\n"


def _job(
    job: str,
    traced: TracedCommand,
    outputs: dict[str, str],
    inputs: dict[str, str],
    makers: dict[str, tuple[str, str]],
) -> list[str]:
    lines = [f"  {job}:", "    uses: shell", "    with:", f"      run: {_quoted(traced.command)}"]
    names = {"run", "shell"}
    for path in _data_of(traced):
        reference = f"inputs.{inputs[path]}" if path in inputs else ""
        if path in makers and makers[path][0] != job:
            reference = f"jobs.{makers[path][0]}.outputs.{makers[path][1]}"
        if reference:
            lines.append(f"      {_free(_variable(path), names)}: ${{{{ {reference} }}}}")
    code = [path for path in traced.read if path.endswith(_CODE) and path not in makers]
    if code:
        lines.append(f"    code: [{', '.join(map(_quoted, code))}]")
    if outputs:
        lines.append("    outputs:")
        lines += [
            f"      {name}: {{type: {_TYPES.get(posixpath.splitext(path)[1], 'file')}, path: {_quoted(path)}}}"
            for path, name in outputs.items()
        ]
    return lines


def _data_of(traced: TracedCommand) -> list[str]:
    return [path for path in traced.read if not path.endswith(_CODE) and path not in traced.written]


def _job_name(command: str) -> str:
    """Of the script, or of the program: `python train.py --fast` is `Train`."""
    try:
        words = shlex.split(command)
    except ValueError:  # it is bash, not only words
        words = command.split()
    script = next((word for word in words if word.endswith(_CODE)), words[0] if words else "")
    return _identifier(posixpath.splitext(posixpath.basename(script))[0], "Job")


def _identifier(text: str, other: str = "File") -> str:
    """`train_model.csv` is `TrainModelCsv`."""
    parts = [part for part in re.split(r"[^A-Za-z0-9]+", text) if part]
    found = "".join(part[:1].upper() + part[1:] for part in parts)
    return found if found[:1].isalpha() else f"{other}{found}"


def _variable(path: str) -> str:
    found = re.sub(r"[^a-z0-9]+", "_", posixpath.basename(path).lower()).strip("_")
    return f"file_{found}"


def _free(name: str, taken: set[str]) -> str:
    found, number = name, 2
    while found in taken:
        found, number = f"{name}{number}", number + 1
    taken.add(found)
    return found


def _quoted(text: str) -> str:
    """As YAML: JSON is a part of it."""
    plain = re.fullmatch(r"[A-Za-z0-9_./-]+", text) and not re.fullmatch(r"[-.0-9].*|true|false|null|yes|no", text)
    return text if plain else json.dumps(text, ensure_ascii=False)


def job_names(commands: Iterable[TracedCommand]) -> list[str]:
    """In order, as `workflow_text` names them."""
    taken: set[str] = set()
    return [_free(_job_name(traced.command), taken) for traced in commands]
