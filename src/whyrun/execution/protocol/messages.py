"""The commands that the host sends to workers, the cfg file of a step, and the messages that workers send back.

Commands name files instead of holding content, and nothing is pickled. A worker numbers its messages within each step.
Backends carry both and decide nothing: deadlines, retries and the meaning of a dead worker belong to the runner.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec

from whyrun.actions.code.source_loader import Version
from whyrun.artifacts.compare.result import CompareSettings, Comparison
from whyrun.log.reads import ReadKind


class InputSource(msgspec.Struct, omit_defaults=True, frozen=True):
    """Where one input, or one member of a fan-in, comes from: an output of a step, or a workflow input.

    `path` is relative to the project folder (workflow inputs that are files or folders). Artifacts are found in the
    store by `sha256`. The cfg holds the values of workflow inputs that are not files.
    """

    id: str
    sha256: str
    from_step: str | None = None
    key: str | None = None  # the output (and leaf) of that step: "Story.Segments[0].HasTransition"
    from_run: str | None = None
    path: str | None = None


class EarlierVersion(msgspec.Struct, omit_defaults=True, frozen=True):
    """A recorded version of an output."""

    id: str
    sha256: str
    type: str
    from_run: str
    gone: bool = False  # the store no longer has its bytes, only the hash is known


class ExecStep(msgspec.Struct, tag_field="cmd", tag="exec_step", omit_defaults=True, frozen=True):
    step_id: str
    driver: str
    cfg_path: str  # relative to the run folder
    cfg_sha256: str  # the worker refuses a cfg with another hash
    attempt: int
    inputs: dict[str, InputSource | list[InputSource]]  # every input, by name
    recalled: dict[str, Any] = {}  # remembered by earlier attempts with the same fingerprint
    recalled_elsewhere: dict[str, Any] = {}  # remembered later, by attempts with other fingerprints
    compare: dict[str, EarlierVersion] = {}  # by output: the version to compare the new one with
    shared: bool = False  # steps of this job may run in one process, one after the other
    trace: bool = False  # watch all processes of the step with strace


class Ping(msgspec.Struct, tag_field="cmd", tag="ping", frozen=True):
    """Ask for a `Pong`: is the worker alive, and which version is it?"""


class Prepare(msgspec.Struct, tag_field="cmd", tag="prepare", frozen=True):
    """Run the `prepare` command of `whyrun.toml`, before the first step."""

    command: str


class Cleanup(msgspec.Struct, tag_field="cmd", tag="cleanup", frozen=True):
    """No more commands: remove all files and end."""


Command = ExecStep | Ping | Prepare | Cleanup


# Checked when a message is decoded, because the hash becomes a path in the host's store.
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


THROTTLED = "retry_after_seconds"  # the metric by which a step says that its service asks to wait


class RequestRemembered(msgspec.Struct, tag_field="msg", tag="remember", frozen=True):
    """The step waits until the host has synced the request to the log and called `Backend.acknowledge`."""

    step_id: str
    ts: str
    key: str
    value: Any
    n: int = 0


class CostReported(msgspec.Struct, tag_field="msg", tag="cost", frozen=True):
    """The step waits until the host has written the cost to the log and called `Backend.acknowledge` with `key`."""

    step_id: str
    ts: str
    key: str
    amount: str | None  # None: unknown
    currency: str
    item: str = ""
    quantity: str | None = None
    request: str | None = None
    n: int = 0


class SeenRead(msgspec.Struct, omit_defaults=True, frozen=True):
    """A path of the project that a step read, listed or looked for, without a word on whether it is declared.

    A folder has its `names` instead of a hash, because only the host knows which of them do not count; `changed`: those
    that were written while the step ran.
    """

    path: str
    kind: ReadKind
    sha256: Sha256 | None = None
    by: Literal["python", "strace"] = "python"
    names: list[str] = []
    changed: list[str] = []
    as_text: bool = False  # a Python file that was opened, and not to import it


class StepReads(msgspec.Struct, omit_defaults=True, frozen=True):
    """What the worker saw of a step."""

    seen: list[SeenRead] = []
    outside: list[str] = []  # files outside the project
    traced: bool = False  # strace saw all processes of the step
    written: list[str] = []  # files of the project that it wrote and no output declares, if it runs in the project
    untraced: str = ""  # why not, if it was to be traced
    packages: dict[str, str] = {}  # imported distributions, with versions


class StepFinished(msgspec.Struct, tag_field="msg", tag="finished", frozen=True):
    """The last message of a step. `error_type` is None on success."""

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
    comparisons: dict[str, Comparison] = {}  # by output
    loaded: dict[str, Version | None] = {}  # project files that the step loaded as code
    reads: StepReads | None = None


class StepLost(msgspec.Struct, tag_field="msg", tag="lost", frozen=True):
    """The step's process died, or was killed, before the step ended. Sent by the worker; or by the backend, if the
    worker itself is gone."""

    step_id: str
    attempt: int
    ts: str
    reason: str
    last_stderr: str = ""
    duration: float = 0.0
    n: int = 0
    metrics: dict[str, float] = {}  # what its processes had used before they were killed, where that is known


class StepReturns(msgspec.Struct, tag_field="msg", tag="returns", frozen=True):
    """Sent by the backend: the step has ended, and its outputs are being transferred, which its timeout does not
    count."""

    step_id: str
    n: int = 0


Message = (
    StepBegan | TaskReported | MetricReported | RequestRemembered | CostReported | StepReturns | StepFinished | StepLost
)


class Pong(msgspec.Struct, tag_field="msg", tag="pong", frozen=True):
    """The answer to `Ping`."""

    version: str
    python: str


class Prepared(msgspec.Struct, tag_field="msg", tag="prepared", frozen=True):
    """The answer to `Prepare`. `error` is empty on success."""

    error: str = ""


WorkerMessage = Message | Pong | Prepared  # everything that a worker sends


# --- cfg/<step>.json: everything that a step needs to run ------------------------------------------------------------
#
# Canonical JSON without backend, host, time or absolute path, and with references instead of secrets. So the same step
# has the same cfg on every backend.


class InputSpec(msgspec.Struct, omit_defaults=True, frozen=True):
    """One input of a step. A fan-in has `members`; any other input has the other fields."""

    id: str
    sha256: str
    type: str  # string integer number boolean json file directory image text dataset, or T[] for a whole array
    suffix: str = ""  # ".png": the name under which actions see a file ends with it
    value: Any = msgspec.UNSET  # of a workflow input that is a value
    path: str | None = None  # of a workflow input that is a file: relative to the project
    members: list[InputSpec] | None = None  # a whole array of files (T[]), element by element
    published: str | None = None  # of an artifact, for a step in the project folder: its own path there


class OutputSpec(msgspec.Struct, omit_defaults=True, frozen=True):
    type: str
    suffix: str = ""
    leaves: dict[str, str] = {}  # "Segments[0].HasTransition": "boolean"
    section: bool = False  # a section of a shared file: its bytes are canonical JSON
    compare: CompareSettings | None = None  # settings for `whyrun compare`
    path: str | None = None  # where it is published, for a step that may write it there itself


class EnvironmentSpec(msgspec.Struct, frozen=True):
    """The packages that a step runs with: the file that locks them, and the digest of what it locks."""

    lock: str  # relative to the project
    sha256: str


class ContainerSpec(msgspec.Struct, omit_defaults=True, frozen=True):
    """The container in which a step runs its script."""

    image: str  # by digest
    network: bool = False
    engine: str | None = None  # None: the first that is installed where the step runs


IN_PROJECT = "project"  # the working folder of a step: the project folder; else `scratch`


class StepCfg(msgspec.Struct, omit_defaults=True, frozen=True):
    """`with_` is the `with:` block with values filled in. A reference to an input is {"$input": "SourceImages[0]"}.

    A secret is {"$secret": "NAME"} or, inside a longer string, {"$secret": "NAME", "format": "Bearer {}"}.
    """

    step_id: str
    action: str
    action_sha256: str
    with_: dict[str, Any] = msgspec.field(name="with")
    inputs: dict[str, InputSpec | list[InputSpec]]
    outputs: dict[str, OutputSpec]
    env: dict[str, Any] = {}
    secrets: list[str] = []
    # The bindings that the action merges itself: the worker checks the declared cardinality before it calls the action.
    merged: list[str] = []
    timeout: float | None = None
    environment: EnvironmentSpec | None = None
    container: ContainerSpec | None = None
    workdir: str = "scratch"
    # Of bindings that are mappings (`named(…)`), by member: the indices that lead to it.
    keys: dict[str, list[list[int | float | str]]] = {}

    def has_bytes(self, key: str) -> bool:
        """Whether an output of the step, or an element of an array, has bytes in the store: leaves are only values."""
        name = key.partition("[")[0]
        spec = self.outputs.get(name)
        return spec is not None and (key == name or spec.type.endswith("[]"))


def own_paths(cfg: StepCfg) -> Iterator[tuple[str, str]]:
    """The outputs that a step may write to a path of the project itself, with that path."""
    for name, spec in cfg.outputs.items():
        if spec.path is not None:
            yield name, spec.path
