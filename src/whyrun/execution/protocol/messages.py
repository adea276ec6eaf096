"""What host and workers say to each other. Commands are files and name files; nothing is inline, nothing pickled.

The host gives `ExecStep` commands. Workers answer with numbered messages, each for their own step. Backends carry
both and decide nothing; deadlines, retries and what a death means are the runner's to decide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import msgspec

from whyrun.actions.from_source import Version
from whyrun.artifacts.compare.result import Comparison
from whyrun.artifacts.stat_rows import Signature

if TYPE_CHECKING:
    from whyrun.execution.bundle import Bundle


class InputSource(msgspec.Struct, omit_defaults=True, frozen=True):
    """Where the bytes of one input (or one fan-in member) are: made by a step, or a workflow input.

    `path` is relative to the project folder (workflow inputs that are files or folders); artifacts are found in the
    store by `sha256`. Small values of workflow inputs stand in the cfg.
    """

    id: str
    sha256: str
    from_step: str | None = None
    key: str | None = None  # output (and leaf) of that step: "Story.Segments[0].HasTransition"
    from_run: str | None = None
    path: str | None = None


class EarlierVersion(msgspec.Struct, omit_defaults=True, frozen=True):
    """A recorded version of an output."""

    id: str
    sha256: str
    type: str
    from_run: str
    gone: bool = False  # its bytes: all that is known is the hash


class ExecStep(msgspec.Struct, tag_field="cmd", tag="exec_step", omit_defaults=True, frozen=True):
    step_id: str
    driver: str
    cfg_path: str  # relative to the run folder
    cfg_sha256: str  # the worker refuses a cfg with other bytes
    attempt: int
    inputs: dict[str, InputSource | list[InputSource]]  # all of them, under their own names
    recalled: dict[str, Any] = {}  # what earlier attempts with this fingerprint remembered
    recalled_elsewhere: dict[str, Any] = {}  # what attempts with other fingerprints remembered later than those
    compare: dict[str, EarlierVersion] = {}  # by output: what the new one is to be compared with


class Ping(msgspec.Struct, tag_field="cmd", tag="ping", frozen=True):
    """Is anybody there, and who?"""


class Prepare(msgspec.Struct, tag_field="cmd", tag="prepare", frozen=True):
    """Make the place ready before its first step: the command that `whyrun.toml` names."""

    command: str


class Cleanup(msgspec.Struct, tag_field="cmd", tag="cleanup", frozen=True):
    """Nothing more is to come: leave nothing behind."""


Command = ExecStep | Ping | Prepare | Cleanup


@dataclass(frozen=True, slots=True)
class StepNeeds:
    """What a step wants of its place. It is said beside the command: where a step runs is no part of what it does."""

    sandboxed: bool = False  # wherever the rest runs
    network: bool = False  # only a sandbox can withhold it
    memory: int | None = None  # bytes
    processes: int | None = None
    resources: Mapping[str, float] = field(default_factory=dict)


NO_NEEDS = StepNeeds()


@dataclass(frozen=True, slots=True)
class Session:
    """What a backend needs to know once. Absolute paths live here and nowhere in the evidence."""

    run: str  # r0001
    run_dir: Path
    project: Path
    store: Path
    tmp: Path  # scratch folders of workers: .whyrun/tmp
    workers: int
    prepare: str | None = None  # the command of `whyrun.toml` that makes a place ready
    bundle: Callable[[], Bundle] | None = None  # what a place needs that shares no folder with us; made when asked for
    inputs: Path | None = None  # where the inputs of steps lie; None: in the project, at their own paths
    note: Callable[[str], None] | None = None  # tells the user something, from any thread
    known_files: Callable[[ExecStep], dict[str, Signature]] | None = None  # for workers on the host's own files


# Checked where a worker's message is read: the hash becomes a path in the host's store.
Sha256 = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]


class OutputResult(msgspec.Struct, omit_defaults=True, frozen=True):
    """One declared output or leaf, complete and in the store."""

    key: str  # "Image", or "Story.Segments[0].HasTransition" for a leaf
    sha256: Sha256
    size: int
    type: str
    value: Any = msgspec.UNSET  # leaves and value outputs


class StepBegan(msgspec.Struct, tag_field="msg", tag="began", frozen=True):
    step_id: str
    attempt: int
    ts: str
    n: int = 0


class TaskReported(msgspec.Struct, tag_field="msg", tag="task", frozen=True):
    step_id: str
    ts: str
    status: str
    message: str
    details: Any = None
    n: int = 0


class MetricReported(msgspec.Struct, tag_field="msg", tag="metric", frozen=True):
    step_id: str
    ts: str
    metric: str
    value: float
    unit: str
    n: int = 0


class RequestRemembered(msgspec.Struct, tag_field="msg", tag="remember", frozen=True):
    """The worker waits until the host has called `Backend.acknowledge`: the request is then in the log, synced."""

    step_id: str
    ts: str
    key: str
    value: Any
    n: int = 0


class StepFinished(msgspec.Struct, tag_field="msg", tag="finished", frozen=True):
    """The step's own word on its end. `error_type` is None on success."""

    step_id: str
    attempt: int
    ts: str
    duration: float
    outputs: list[OutputResult]
    metrics: dict[str, float] = {}
    error: str = ""
    error_type: str | None = None
    traceback: str = ""
    n: int = 0
    comparisons: dict[str, Comparison] = {}  # by output, of those that were to be compared
    loaded: dict[str, Version | None] = {}  # files of the project that were read as code since the worker's last word
    spent: bool = False  # the step left what cannot be put back: the next one gets another process


class StepLost(msgspec.Struct, tag_field="msg", tag="lost", frozen=True):
    """Made by the backend: the worker is gone (killed, crashed, or told to die) before the step's word came back."""

    step_id: str
    attempt: int
    ts: str
    reason: str
    last_stderr: str = ""
    duration: float = 0.0
    n: int = 0


class StepReturns(msgspec.Struct, tag_field="msg", tag="returns", frozen=True):
    """Made by the backend: the step has ended where it ran, and what it made is on its way. Its time is over."""

    step_id: str
    n: int = 0


Message = StepBegan | TaskReported | MetricReported | RequestRemembered | StepReturns | StepFinished | StepLost


class Pong(msgspec.Struct, tag_field="msg", tag="pong", frozen=True):
    version: str
    python: str


class Prepared(msgspec.Struct, tag_field="msg", tag="prepared", frozen=True):
    """`error` is empty where all is well."""

    error: str = ""


Word = Message | Pong | Prepared  # all that a worker says


class PrepareFailed(Exception):
    """A place could not be made ready: the run ends, and nothing of it has started."""


class Backend(Protocol):
    """A place. Used by one thread, the runner's; `messages` blocks up to its timeout."""

    name: str

    def open(self, session: Session) -> None: ...

    def prepare(self, stopped: Callable[[], bool]) -> None:
        """Make the place ready, where anything is to be done for that; the only other call that may block. Gives up
        when `stopped`. Raises `PrepareFailed`."""

    def submit(self, command: ExecStep, secrets: Mapping[str, str] | None = None, needs: StepNeeds = NO_NEEDS) -> None:
        """Take a command. It may wait in the backend's queue; `StepBegan` says when the worker begins it."""

    def room(self) -> int:
        """How many more commands it would like to have now, so that no worker falls idle."""

    def withdraw(self) -> list[ExecStep]:
        """Give back every command that no worker has begun (used when nothing more may start)."""

    def unqueue(self, steps: Set[str]) -> list[ExecStep]:
        """Give back those of these commands that have not been sent anywhere yet; all others go on."""

    def acknowledge(self, step_id: str, key: str) -> None:
        """The remembered request is on disk: let the step go on."""

    def signal(self, step_id: str, signum: int) -> None:
        """Signal the whole process group of a begun step. The step's end arrives as a message."""

    def messages(self, timeout: float) -> Sequence[Message]:
        """What workers said, in order per step; waits up to `timeout` seconds for the first."""

    def wakeup_fd(self) -> int | None:
        """A descriptor to write a byte to, from a signal handler, so that `messages` returns early; if any."""

    def close(self) -> None: ...
