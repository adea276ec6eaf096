"""A backend for commands that have just run: it executes nothing, and collects the outputs from where they are.

The first run of the new workflow records them, with what was read, so that the second has nothing to do.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Mapping, Sequence, Set

from whyrun.artifacts.store import Store
from whyrun.execution.backends.base import NO_NEEDS, Session, StepNeeds
from whyrun.execution.backends.remote.site import decode_cfg
from whyrun.execution.onboard.tracing import TracedCommand
from whyrun.execution.protocol.framing import timestamp
from whyrun.execution.protocol.messages import ExecStep, Message, OutputResult, StepBegan, StepFinished
from whyrun.execution.worker.collect import collect_file
from whyrun.execution.worker.failure import failure_of


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
