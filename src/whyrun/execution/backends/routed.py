"""Which backend a run gets, by its name. Each is imported only where it is used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set

from whyrun.errors import did_you_mean, error
from whyrun.execution.backends import NAMES
from whyrun.execution.checks import RunOptions
from whyrun.execution.commands import NO_NEEDS, Backend, ExecStep, Message, Session, StepNeeds
from whyrun.graph.graph import Graph

CONFINED = ("sandbox", "e2b")  # places where a step cannot reach the host in any case


def place_for(options: RunOptions, graph: Graph, nodes: Iterable[int]) -> Backend:
    """The backend for these steps. What it lacks on this machine is told here, before anything has begun."""
    tables = {graph.table_at(node)[0].name: graph.table_at(node)[0] for node in nodes}
    sandboxed = any(table.decl.sandbox.required for table in tables.values())
    return choose_backend(options.backend, dask_address=options.dask_address, sandboxed_too=sandboxed)


def choose_backend(name: str, *, dask_address: str | None = None, sandboxed_too: bool = False) -> Backend:
    """`sandboxed_too`: some steps say `sandbox: required`."""
    if name not in NAMES:
        hint = did_you_mean(name, NAMES) or f"the backends are {', '.join(NAMES)}"
        raise error("USAGE", f"there is no backend `{name}`", hint=hint)
    if dask_address is not None and name != "dask":
        raise error("USAGE", "`--dask-address` is for `--backend dask`", hint="give both, or none")
    if sandboxed_too and name not in CONFINED:
        if name == "dask":
            raise error(
                "SANDBOX_UNAVAILABLE",
                "the dask backend has no sandbox, and a job says `sandbox: required`",
                hint="run it with `--backend local`, `sandbox` or `e2b`",
            )
        return RoutedBackend(_plain(name, None), _plain("sandbox", None))
    return _plain(name, dask_address)


def _plain(name: str, dask_address: str | None) -> Backend:
    if name == "sandbox":
        from whyrun.execution.backends.sandbox import sandbox_backend

        return sandbox_backend()
    if name == "e2b":
        from whyrun.execution.backends.e2b import e2b_backend

        return e2b_backend()
    if name == "dask":
        from whyrun.execution.backends.dask import DaskBackend

        return DaskBackend(dask_address)
    from whyrun.execution.backends.local import LocalBackend

    return LocalBackend()


class RoutedBackend:
    """Two places: steps that must have a sandbox go to the second."""

    def __init__(self, usual: Backend, sandbox: Backend) -> None:
        self.name = usual.name
        self._usual, self._sandbox = usual, sandbox
        self._both = (usual, sandbox)
        self._sandboxed: set[str] = set()  # steps

    def open(self, session: Session) -> None:
        for place in self._both:
            place.open(session)

    def prepare(self, stopped: Callable[[], bool]) -> None:
        for place in self._both:
            place.prepare(stopped)

    def submit(self, command: ExecStep, secrets: Mapping[str, str] | None = None, needs: StepNeeds = NO_NEEDS) -> None:
        if needs.sandboxed:
            self._sandboxed.add(command.step_id)
        self._of(command.step_id).submit(command, secrets, needs)

    def room(self) -> int:
        return min(place.room() for place in self._both)

    def withdraw(self) -> list[ExecStep]:
        return [command for place in self._both for command in place.withdraw()]

    def unqueue(self, steps: Set[str]) -> list[ExecStep]:
        return [command for place in self._both for command in place.unqueue(steps)]

    def acknowledge(self, step_id: str, key: str) -> None:
        self._of(step_id).acknowledge(step_id, key)

    def signal(self, step_id: str, signum: int) -> None:
        self._of(step_id).signal(step_id, signum)

    def messages(self, timeout: float) -> Sequence[Message]:
        # Neither can be waited for without the other: a short wait in turn. Steps in a sandbox take longer than that.
        heard = list(self._sandbox.messages(0))
        heard += self._usual.messages(0 if heard else min(timeout, _TURN))
        return heard

    def wakeup_fd(self) -> int | None:
        return self._usual.wakeup_fd()

    def close(self) -> None:
        try:
            self._usual.close()
        finally:
            self._sandbox.close()

    def _of(self, step_id: str) -> Backend:
        return self._sandbox if step_id in self._sandboxed else self._usual


_TURN = 0.01  # seconds
