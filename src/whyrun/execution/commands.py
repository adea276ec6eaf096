"""What host and workers say to each other. Commands are files and name files; nothing is inline, nothing pickled.

The host gives `ExecStep` commands. Workers answer with numbered messages, each for their own step. Backends carry
both and decide nothing; deadlines, retries and what a death means are the runner's to decide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec

from whyrun.artifacts.compare.result import Comparison


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


@dataclass(frozen=True, slots=True)
class Session:
    """What a backend needs to know once. Absolute paths live here and nowhere in the evidence."""

    run: str  # r0001
    run_dir: Path
    project: Path
    store: Path
    tmp: Path  # scratch folders of workers: .whyrun/tmp
    workers: int


class OutputResult(msgspec.Struct, omit_defaults=True, frozen=True):
    """One declared output or leaf, complete and in the store."""

    key: str  # "Image", or "Story.Segments[0].HasTransition" for a leaf
    sha256: str
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


class StepLost(msgspec.Struct, tag_field="msg", tag="lost", frozen=True):
    """Made by the backend: the worker is gone (killed, crashed, or told to die) before the step's word came back."""

    step_id: str
    attempt: int
    ts: str
    reason: str
    last_stderr: str = ""
    duration: float = 0.0
    n: int = 0


Message = StepBegan | TaskReported | MetricReported | RequestRemembered | StepFinished | StepLost


class Backend(Protocol):
    """A place. Single-threaded use by the runner; nothing here blocks except `messages` (up to its timeout)."""

    name: str

    def open(self, session: Session) -> None: ...

    def submit(self, command: ExecStep, secrets: Mapping[str, str] | None = None) -> None:
        """Take a command. It may wait in the backend's queue; `StepBegan` says when the worker begins it."""

    def room(self) -> int:
        """How many more commands it would like to have now, so that no worker falls idle."""

    def withdraw(self) -> list[ExecStep]:
        """Give back every command that no worker has begun (used when nothing more may start)."""

    def acknowledge(self, step_id: str, key: str) -> None:
        """The remembered request is on disk: let the step go on."""

    def signal(self, step_id: str, signum: int) -> None:
        """Signal the whole process group of a begun step. The step's end arrives as a message."""

    def messages(self, timeout: float) -> Sequence[Message]:
        """What workers said, in order per step; waits up to `timeout` seconds for the first."""

    def wakeup_fd(self) -> int | None:
        """A descriptor to write a byte to, from a signal handler, so that `messages` returns early; if any."""

    def close(self) -> None: ...
