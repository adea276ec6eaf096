"""The contract of a backend: what a new one implements (`Backend`), says about itself (`Capabilities`, `BackendOption`)
and gets from a run (`Session`, `HostServices`, `StepNeeds`).

`Transport` is the smaller contract for a backend whose workers share no folder with the host: `remote/` implements
`Backend` on top of it. Backends and transports move files and messages. They decide nothing: deadlines, retries and
the meaning of a dead worker belong to the runner.
"""

from __future__ import annotations

import os
import select
import socket
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from whyrun.actions.code.editable import whyrun_home
from whyrun.environments.engines import ENGINE_VARIABLES
from whyrun.execution.protocol.framing import WorkerStart, encode
from whyrun.execution.protocol.messages import ExecStep

if TYPE_CHECKING:
    from whyrun.artifacts.stat_cache.rows import Signature
    from whyrun.execution.bundle.bundle import Bundle
    from whyrun.execution.protocol.messages import Message

# --- what a backend says about itself ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Facts about a backend. All other packages ask for these, never for a backend's name."""

    shares_files: bool  # steps run on the host's own project, store and run folder; if not, they get copies
    isolated: bool  # no step can reach the host, so jobs with `sandbox: required` may run here
    remote: bool  # steps run on other machines
    enforces_limits: bool  # it enforces the `sandbox:` settings of a job: memory, processes, network
    abandons_calls: bool = False  # calls to a service that does not answer may still run in threads at the end
    open_files: int = 16  # that the host needs for each worker, at most

    @property
    def routes_to_sandbox(self) -> bool:
        """Whether jobs with `sandbox: required` go to the sandbox backend of the host instead of this one."""
        return not self.isolated and not self.remote

    def confines(self, sandbox_required: bool) -> bool:
        """Whether the `sandbox:` settings of a job are enforced on its steps."""
        return self.enforces_limits or (self.routes_to_sandbox and sandbox_required)

    def runs_on_host_files(self, sandbox_required: bool) -> bool:
        """Whether the steps of a job read the project's own files, which the user may edit meanwhile."""
        return self.shares_files and not (self.routes_to_sandbox and sandbox_required)


@dataclass(frozen=True, slots=True)
class BackendOption:
    """An option of one backend on the command line. Its value is a text."""

    name: str  # key in `RunOptions.backend_options`
    flag: str  # "--dask-address"
    metavar: str
    help: str


class PrepareFailed(Exception):
    """The backend could not get ready: the run ends before any step has started."""


# --- what a backend gets ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StepNeeds:
    """What a step requires of the machine. Not part of the command: where a step runs does not change what it does."""

    sandboxed: bool = False  # the job says `sandbox: required`
    network: bool = False  # only a sandbox can withhold it
    memory: int | None = None  # bytes
    processes: int | None = None
    disk: int | None = None  # bytes
    resources: Mapping[str, float] = field(default_factory=dict)


NO_NEEDS = StepNeeds()


@dataclass(frozen=True, slots=True)
class HostServices:
    """What the host does for a backend during the run. Each may be called from any thread."""

    bundle: Callable[[], Bundle]  # the code, for a backend that shares no files; built on the first call
    note: Callable[[str], None]  # shows the user a message
    known_files: Callable[[ExecStep], dict[str, Signature]]  # for workers that read the host's files


@dataclass(frozen=True, slots=True)
class Session:
    """The facts of a run that a backend gets once. It has absolute paths, and the evidence has none."""

    run: str  # r0001
    run_dir: Path
    project: Path
    store: Path
    tmp: Path  # .whyrun/tmp: scratch folders of workers
    workers: int
    prepare: str | None = None  # the `prepare` command of `whyrun.toml`
    inputs: Path | None = None  # folder of the steps' inputs; None: in the project, at their own paths
    environments: Path | None = None  # folder of virtual environments
    views: bool = False  # large inputs are read-only views where steps would get links to the user's own files
    host: HostServices | None = None  # None: on another machine, where a Dask worker runs its own local backend

    def bundle(self) -> Bundle:
        if self.host is not None:
            return self.host.bundle()
        from whyrun.execution.bundle.bundle import bundle_project  # which workers never need

        return bundle_project(self.project)

    def note(self, message: str) -> None:
        if self.host is not None:
            self.host.note(message)


class Backend(Protocol):
    """Executes steps in worker processes somewhere. One thread, the runner's, makes all calls."""

    name: str

    def open(self, session: Session) -> None: ...

    def prepare(self, stopped: Callable[[], bool]) -> None:
        """Get ready for the first step. Besides `messages` the only call that may block; it returns early when
        `stopped` returns True. Raises `PrepareFailed`."""

    def submit(self, command: ExecStep, secrets: Mapping[str, str] | None = None, needs: StepNeeds = NO_NEEDS) -> None:
        """Accept a command. It may wait in the backend's queue; `StepBegan` says that a worker has begun it.

        `secrets`: the values that the step refers to. They must not be written to any file or log."""

    def room(self) -> int:
        """How many more commands the backend wants now, so that no worker becomes idle."""

    def withdraw(self) -> list[ExecStep]:
        """Give back every command that no worker has begun. Called when nothing more may start."""

    def unqueue(self, steps: Set[str]) -> list[ExecStep]:
        """Give back the commands of these steps that have not been sent anywhere yet. All others continue."""

    def acknowledge(self, step_id: str, key: str) -> None:
        """The request that the step remembered is synced to disk: the step may continue."""

    def signal(self, step_id: str, signum: int) -> None:
        """Signal all processes of a step that has begun. The end of the step arrives as a message."""

    def messages(self, timeout: float) -> Sequence[Message]:
        """New messages of workers, in order for each step. Waits up to `timeout` seconds for the first."""

    def wakeup_fd(self) -> int | None:
        """A descriptor to which a signal handler writes a byte to make `messages` return early; None if there is
        none."""

    def close(self) -> None:
        """End all workers and leave nothing behind."""


# --- transports: workers that share no folder with the host ----------------------------------------------------

LONGEST_LINE = 1 << 26  # bytes
LARGEST_READ = 1 << 26  # bytes of a file that the host reads into memory

Source = bytes | Path  # content of a file to send: the bytes themselves, or a file or folder of the host


class WorkerLost(Exception):
    """The worker, or the machine or sandbox around it, is gone. The text says how that was noticed."""


@dataclass(frozen=True, slots=True)
class Gap:
    """The connection broke and works again: messages may be missing."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The worker has ended. Nothing follows."""

    reason: str


Received = bytes | Gap | Ended


class Transport(Protocol):
    """One worker without access to the host's folders. One thread makes all calls; each may block and may raise
    `WorkerLost`.

    Paths are relative and use `/`. Module `remote.site` defines the folders.
    """

    reusable: bool  # its worker may execute more than one step
    outlives_host: bool  # its files can still be found after the host was killed

    def start(self, needs: StepNeeds, deliver: Callable[[Received], None]) -> None:
        """Start the worker. `deliver` gets its messages, in chunks of any size, from any thread."""

    def fits(self, needs: StepNeeds) -> bool:
        """Whether the running worker can execute a step with these needs."""

    def send(self, line: bytes) -> None: ...

    def put(self, files: Mapping[str, Source]) -> None: ...

    def get(self, path: str, limit: int = LARGEST_READ) -> bytes:
        """The content of a file; empty if there is none. Raises `WorkerLost` if it is larger than `limit` bytes."""

    def fetch(self, path: str, target: Path) -> bool:
        """Copy a file to the host; False if there is none. Does not follow links: a step's files are not trusted."""

    def fetch_tree(self, path: str, target: Path) -> bool:
        """Copy a folder to the host, links as links; False if there is none."""

    def remove(self, path: str) -> None:
        """Remove a file or folder, if it exists."""

    def signal(self, signum: int) -> None:
        """Signal all processes of the step. SIGKILL ends the worker as well."""

    def check(self) -> None:
        """Called when nothing arrived for a while. Raises `WorkerLost` unless the worker is known to be alive."""

    def last_stderr(self) -> str:
        """The last lines that the worker process itself printed, if they can be read."""

    def close(self) -> None: ...


class LineBuffer:
    """Joins chunks to lines. A chunk may end in the middle of a line or of a character."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes."""
        *lines, rest = chunk.split(b"\n")
        if lines:
            lines[0] = b"".join((*self._parts, lines[0]))
            self._parts, self._size = [], 0
        if rest:
            self._parts.append(rest)
            self._size += len(rest)
        if self._size > LONGEST_LINE:
            raise WorkerLost("the worker sent a line without end")
        return lines

    def clear(self) -> None:
        """Drop the incomplete line: after a gap its end never comes."""
        self._parts, self._size = [], 0


# --- for every queue: wake the waiting runner, and take queued commands out again -------------------------------


class Wakeup:
    """Ends the runner's wait for messages early. Threads call `wake`; signal handlers write a byte to `fileno`."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        for end in (self._reader, self._writer):
            end.setblocking(False)

    @property
    def reader(self) -> socket.socket:
        """Becomes readable on a wake-up: for a backend that waits for several descriptors at once."""
        return self._reader

    def fileno(self) -> int:
        """The descriptor to write a byte to."""
        return self._writer.fileno()

    def wake(self) -> None:
        with suppress(BlockingIOError, OSError):  # a wake-up is pending already, or the backend is closed
            self._writer.send(b"\0")

    def wait(self, seconds: float) -> None:
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        poll.poll(seconds * 1000)

    def clear(self) -> None:
        with suppress(BlockingIOError):
            self._reader.recv(1 << 16)

    def close(self) -> None:
        self._reader.close()
        self._writer.close()


class QueuedJob(Protocol):
    @property
    def command(self) -> ExecStep: ...


J = TypeVar("J", bound=QueuedJob)


def remove_queued(queue: deque[J], steps: Set[str]) -> list[ExecStep]:
    """Remove the commands of these steps from the queue and return them."""
    removed = [job.command for job in queue if job.command.step_id in steps]
    remaining = [job for job in queue if job.command.step_id not in steps]
    queue.clear()
    queue.extend(remaining)
    return removed


# --- for every worker process: how it is started on this machine, and how its end is described ------------------


def worker_command(start: WorkerStart) -> list[str]:
    return [sys.executable, "-P", "-m", "whyrun.execution.worker.main", encode(start).decode()]


def step_environment(home: str, tmp: str) -> dict[str, str]:
    """The environment of a worker: a step sees no other variable of the host."""
    environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": home, "TMPDIR": tmp, "LANG": "C.UTF-8"}
    return with_whyrun(environment)


def engine_settings() -> dict[str, str]:
    """The user's own settings for an engine of containers, such as DOCKER_HOST."""
    return {name: value for name, value in os.environ.items() if name.startswith(ENGINE_VARIABLES)}


def with_whyrun(environment: dict[str, str]) -> dict[str, str]:
    """The environment with a PYTHONPATH, if a fresh interpreter would not find Whyrun without one."""
    package = whyrun_home()
    return environment if package is None else {**environment, "PYTHONPATH": package}
