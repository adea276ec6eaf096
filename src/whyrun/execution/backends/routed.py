"""Two backends used as one: jobs with `sandbox: required` go to the sandbox, all others to the usual backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set

from whyrun.execution.backends.base import NO_NEEDS, Backend, Session, StepNeeds
from whyrun.execution.protocol.messages import ExecStep, Message

_TURN = 0.01  # seconds


class RoutedBackend:
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
