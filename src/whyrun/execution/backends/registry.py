"""The table of all backends: their names, capabilities and options. Chooses the backend of a run.

A new backend needs one row here. Its module is imported only when the backend is chosen. `RoutedBackend`, at the end,
combines two backends for a run in which only some jobs need a sandbox.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING

from whyrun.errors import check_type, did_you_mean, error
from whyrun.execution.backends.base import NO_NEEDS, Backend, BackendOption, Capabilities, Session, StepNeeds
from whyrun.execution.protocol.messages import ExecStep, Message

if TYPE_CHECKING:
    from whyrun.graph.tables import Graph


# --- the options of a run that do not change its plan: parallelism, limits, backend and stopping ----------------------


@dataclass(frozen=True, slots=True)
class RunOptions:
    jobs: int = 0  # steps at a time; 0: one for each processor
    fail_fast: bool = False
    limits: Mapping[str, float] | None = None  # resource → limit, from the command line
    backend: str = "local"
    backend_options: Mapping[str, str] = field(default_factory=dict)  # of the backend itself, by `BackendOption.name`
    budget: str | None = None  # `5`, `5 EUR`; None: that of `whyrun.toml`
    grace: float = 10.0  # seconds between SIGTERM and SIGKILL when the run stops

    def __post_init__(self) -> None:
        check_type("jobs", self.jobs, int, "a whole number; 0 is one per core")
        check_type("fail_fast", self.fail_fast, bool, "True or False")
        check_type("limits", self.limits, (Mapping, type(None)), "numbers by name, such as {'gpu': 1}")
        check_type("backend", self.backend, str, "the name of a backend, such as 'local'")
        check_type("budget", self.budget, (str, type(None)), "an amount such as '5' or '5 EUR'")
        if self.jobs < 0:
            raise error("USAGE", f"{self.jobs} jobs at a time is not possible", hint="0 means one for each processor")
        for name, limit in (self.limits or {}).items():
            check_type("limits", name, str, "numbers by name, such as {'gpu': 1}")
            if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 <= limit < float("inf"):
                raise error("USAGE", f"the limit of `{name}` is {limit!r}", hint="a limit is a number from 0 up")


# --- the table of backends --------------------------------------------------------------------------------------------


DEFAULT = "local"
_SANDBOX = "sandbox"  # where a job with `sandbox: required` goes if the chosen backend routes it


@dataclass(frozen=True, slots=True)
class BackendEntry:
    """One backend. `factory` names a function as `module:function`. It takes the backend's own options by name and
    returns the backend, or raises a `WhyrunError` that says what is missing on this machine."""

    name: str
    factory: str
    capabilities: Capabilities
    options: tuple[BackendOption, ...] = ()
    # What other tools call it, words with blanks between them → what to write. Shown where there is no such backend.
    foreign: tuple[tuple[str, str], ...] = ()


_ROWS = (
    BackendEntry(
        "local",
        "whyrun.execution.backends.local.backend:local_backend",
        Capabilities(shares_files=True, isolated=False, remote=False, enforces_limits=False, open_files=6),
        foreign=(
            ("process subprocess thread threads localhost", "omit it, and write `--jobs N` to run N steps at a time"),
        ),
    ),
    BackendEntry(
        "sandbox",
        "whyrun.execution.backends.sandbox.backend:sandbox_backend",
        Capabilities(shares_files=False, isolated=True, remote=False, enforces_limits=True),
        foreign=(("docker podman container singularity apptainer bubblewrap bwrap", "write `--backend sandbox`"),),
    ),
    BackendEntry(
        "e2b",
        "whyrun.execution.backends.e2b.backend:e2b_backend",
        # E2B has limits of its own instead of those of the job, and its sandboxes have a network.
        Capabilities(shares_files=False, isolated=True, remote=True, enforces_limits=False, abandons_calls=True),
        (
            BackendOption(
                name="e2b_template",
                flag="--e2b-template",
                metavar="NAME",
                help="With `--backend e2b`: the template, which decides processors and memory.",
            ),
        ),
        (
            (
                "aws gcp cloud remote",
                "write `--backend e2b`, or `--backend dask` with the address of a scheduler",
            ),
        ),
    ),
    BackendEntry(
        "dask",
        "whyrun.execution.backends.dask.backend:dask_backend",
        Capabilities(shares_files=False, isolated=False, remote=True, enforces_limits=False),
        (
            BackendOption(
                name="dask_address",
                flag="--dask-address",
                metavar="URL",
                help="With `--backend dask`: a running scheduler, or `slurm`.",
            ),
        ),
        (
            ("slurm cluster hpc sge lsf pbs", "write `--backend dask --dask-address slurm`"),
            (
                "k8s kubernetes ray distributed",
                "write `--backend dask --dask-address ADDRESS`, that of its scheduler",
            ),
        ),
    ),
)
BACKENDS = {row.name: row for row in _ROWS}  # a program that brings its own backend adds it here

# For a name from the log of a newer version, or that no row has.
_UNKNOWN = Capabilities(shares_files=True, isolated=False, remote=False, enforces_limits=False)


def capabilities_of(name: str) -> Capabilities:
    entry = BACKENDS.get(name)
    return _UNKNOWN if entry is None else entry.capabilities


def has_abandoned_calls() -> bool:
    """Whether this process has used a backend that leaves unfinished calls behind."""
    used = (entry for entry in BACKENDS.values() if entry.factory.partition(":")[0] in sys.modules)
    return any(entry.capabilities.abandons_calls for entry in used)


def all_options() -> list[BackendOption]:
    return [option for entry in BACKENDS.values() for option in entry.options]


def backend_for(options: RunOptions, graph: Graph, nodes: Iterable[int]) -> Backend:
    """The backend for these steps. Raises an error before anything starts if it does not work on this machine."""
    tables = {graph.table_at(node)[0].name: graph.table_at(node)[0] for node in nodes}
    sandbox_required = any(table.decl.sandbox.required for table in tables.values())
    return choose_backend(options.backend, options.backend_options, sandbox_required=sandbox_required)


def choose_backend(name: str, options: Mapping[str, str] | None = None, *, sandbox_required: bool = False) -> Backend:
    """`sandbox_required`: at least one job says `sandbox: required`."""
    options = options or {}
    entry = check_options(name, options)
    if not sandbox_required or entry.capabilities.isolated:
        return _create(entry, options)
    if not entry.capabilities.routes_to_sandbox:
        first, *others = (other for other in BACKENDS if _runs_sandboxed_jobs(other))
        raise error(
            "SANDBOX_UNAVAILABLE",
            f"the {name} backend has no sandbox, and a job says `sandbox: required`",
            hint=f"run it with `--backend {first}`" + "".join(f" or `{other}`" for other in others),
        )

    return RoutedBackend(_create(entry, options), _create(BACKENDS[_SANDBOX], {}))


def check_options(name: str, options: Mapping[str, str]) -> BackendEntry:
    """The entry of this backend. Raises an error if there is none, or if one of the options is not its own."""
    entry = BACKENDS.get(name)
    if entry is None:
        hint = did_you_mean(name, tuple(BACKENDS)) or f"the backends are {', '.join(BACKENDS)}"
        raise error("USAGE", f"there is no backend `{name}`", hint=hint)
    owners = {option.name: (other, option) for other in BACKENDS.values() for option in other.options}
    for key, value in options.items():
        if key not in owners:
            raise error("USAGE", f"the {name} backend has no option `{key}`", hint=_known_options(entry))
        owner, option = owners[key]
        check_type(key, value, str, f"a text. {option.help}")
        if owner is not entry:
            message = f"`{option.flag}` is for `--backend {owner.name}`"
            raise error("USAGE", message, hint=f"give both, or none; {_known_options(entry)}")
    return entry


def _known_options(entry: BackendEntry) -> str:
    if not entry.options:
        return f"the {entry.name} backend has no options of its own"
    return f"the options of the {entry.name} backend are {', '.join(f'`{option.name}`' for option in entry.options)}"


def _runs_sandboxed_jobs(name: str) -> bool:
    capabilities = BACKENDS[name].capabilities
    return capabilities.isolated or capabilities.routes_to_sandbox


def _create(entry: BackendEntry, options: Mapping[str, str]) -> Backend:
    module, _, function = entry.factory.partition(":")
    backend: Backend = getattr(import_module(module), function)(**options)
    return backend


# --- routing -------------------------------------------------------------------------------------------------------

_TURN = 0.01  # seconds to wait for one backend before the other is asked


class RoutedBackend:
    """Two backends used as one: jobs with `sandbox: required` go to the sandbox, all others to the usual backend."""

    def __init__(self, usual: Backend, sandbox: Backend) -> None:
        self.name = usual.name
        self._usual, self._sandbox = usual, sandbox
        self._both = (usual, sandbox)
        self._sandboxed: set[str] = set()  # IDs of steps

    def open(self, session: Session) -> None:
        for backend in self._both:
            backend.open(session)

    def prepare(self, stopped: Callable[[], bool]) -> None:
        for backend in self._both:
            backend.prepare(stopped)

    def submit(self, command: ExecStep, secrets: Mapping[str, str] | None = None, needs: StepNeeds = NO_NEEDS) -> None:
        if needs.sandboxed:
            self._sandboxed.add(command.step_id)
        self._backend_of(command.step_id).submit(command, secrets, needs)

    def room(self) -> int:
        return min(backend.room() for backend in self._both)

    def withdraw(self) -> list[ExecStep]:
        return [command for backend in self._both for command in backend.withdraw()]

    def unqueue(self, steps: Set[str]) -> list[ExecStep]:
        return [command for backend in self._both for command in backend.unqueue(steps)]

    def acknowledge(self, step_id: str, key: str) -> None:
        self._backend_of(step_id).acknowledge(step_id, key)

    def signal(self, step_id: str, signum: int) -> None:
        self._backend_of(step_id).signal(step_id, signum)

    def messages(self, timeout: float) -> Sequence[Message]:
        # Nothing waits for both at once, so wait briefly in turn. Steps in a sandbox take longer than that.
        messages = list(self._sandbox.messages(0))
        messages += self._usual.messages(0 if messages else min(timeout, _TURN))
        return messages

    def wakeup_fd(self) -> int | None:
        return self._usual.wakeup_fd()

    def close(self) -> None:
        try:
            self._usual.close()
        finally:
            self._sandbox.close()

    def _backend_of(self, step_id: str) -> Backend:
        return self._sandbox if step_id in self._sandboxed else self._usual
