"""A real `Backend` without processes: it computes steps in this process, with chosen faults and a chosen order.

The log, the store, the runner, the fold, the snapshot and the planner around it are the real ones.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from oracle_flow import MODULI, Flow
from oracle_pure import produce
from oracle_truth import at_leaf_text, bytes_of

from whyrun.artifacts.store import Store
from whyrun.execution.backends.base import NO_NEEDS, Session, StepNeeds
from whyrun.execution.protocol.messages import ExecStep, Message, OutputResult, StepBegan, StepFinished, StepLost


class Crash(RuntimeError):
    """The host breaks in the middle of a run."""


@dataclass(frozen=True)
class Faults:
    """What goes wrong in one run. `steps`: step ID → what becomes of its first executions (fail, lost)."""

    steps: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    interrupt_at: int | None = None  # Ctrl-C when so many steps have begun
    crash_at: int | None = None
    order: int = 0  # seed of the order in which steps end
    workers: int = 2


class LabBackend:
    name = "lab"

    def __init__(self, flow: Flow, faults: Faults) -> None:
        self.flow, self.faults = flow, faults
        self.left = {step: list(ends) for step, ends in faults.steps.items()}
        self.chance = random.Random(faults.order)
        self.queue: list[ExecStep] = []
        self.running: list[ExecStep] = []
        self.ending: set[str] = set()
        self.begun = 0
        self.executed: list[str] = []

    def open(self, session: Session) -> None:
        self.session = session
        self.store = Store(session.store)

    def prepare(self, stopped: Callable[[], bool]) -> None:
        """Nothing is to be made ready."""

    def submit(self, command: ExecStep, secrets: Mapping[str, str] | None = None, needs: StepNeeds = NO_NEEDS) -> None:
        self.queue.append(command)

    def room(self) -> int:
        return max(0, self.faults.workers + 1 - len(self.queue) - len(self.running))

    def withdraw(self) -> list[ExecStep]:
        taken, self.queue = self.queue, []
        return taken

    def unqueue(self, steps: Set[str]) -> list[ExecStep]:
        taken = [command for command in self.queue if command.step_id in steps]
        self.queue = [command for command in self.queue if command.step_id not in steps]
        return taken

    def acknowledge(self, step_id: str, key: str) -> None:
        raise AssertionError("no step remembers anything")

    def signal(self, step_id: str, signum: int) -> None:
        self.ending.add(step_id)

    def messages(self, timeout: float) -> Sequence[Message]:
        if self.queue and len(self.running) < self.faults.workers and (not self.running or self.chance.random() < 0.7):
            return [self._begin()]
        if not self.running:
            return []
        command = self.running.pop(self.chance.randrange(len(self.running)))
        ends = self.left.get(command.step_id)
        end = ends.pop(0) if ends else "well"
        if command.step_id in self.ending:
            self.ending.discard(command.step_id)
            end = "lost"
        if end == "lost":
            return [StepLost(command.step_id, command.attempt, _now(), "it is gone", duration=0.1)]
        if end == "fail":
            return [self._failed(command, "OSError", "not today")]
        return [self._execute(command)]

    def wakeup_fd(self) -> int | None:
        return None

    def close(self) -> None:
        self.queue.clear()

    def _begin(self) -> Message:
        command = self.queue.pop(0)
        self.begun += 1
        if self.begun == self.faults.crash_at:
            raise Crash
        if self.begun == self.faults.interrupt_at and threading.current_thread() is threading.main_thread():
            os.kill(os.getpid(), signal.SIGINT)
        self.running.append(command)
        self.executed.append(command.step_id)
        return StepBegan(command.step_id, command.attempt, _now())

    def _execute(self, command: ExecStep) -> Message:
        cfg = json.loads((self.session.run_dir / command.cfg_path).read_bytes())
        module = cfg["with"].pop("call").partition(":")[0]
        given = self._placed(cfg["with"], cfg["inputs"])
        try:
            made = produce(self.flow.versions[module], MODULI[module], given, list(cfg["outputs"]))
        except ValueError as wrong:
            return self._failed(command, "ValueError", str(wrong))
        outputs = []
        for name, spec in cfg["outputs"].items():
            outputs.append(self._output(name, spec["type"], made[name]))
            for leaf, type_ in spec.get("leaves", {}).items():
                outputs.append(self._output(f"{name}.{leaf}", type_, at_leaf_text(made[name], leaf)))
        return StepFinished(command.step_id, command.attempt, _now(), 0.1, outputs, {})

    def _failed(self, command: ExecStep, error_type: str, error: str) -> Message:
        return StepFinished(command.step_id, command.attempt, _now(), 0.1, [], {}, error, error_type, "trace")

    def _output(self, key: str, type_: str, value: Any) -> OutputResult:
        data = bytes_of(type_, value)
        sha256 = self.store.put_bytes(data)
        if type_ in ("string", "integer", "boolean"):
            return OutputResult(key, sha256, len(data), type_, value)
        return OutputResult(key, sha256, len(data), type_)

    def _placed(self, value: Any, inputs: Mapping[str, Any]) -> Any:
        if isinstance(value, dict):
            if "$input" in value:
                return self._given(inputs[value["$input"]])
            return {key: self._placed(member, inputs) for key, member in value.items()}
        if isinstance(value, list):
            return [self._placed(member, inputs) for member in value]
        return value

    def _given(self, spec: Any) -> Any:
        """What stands behind a binding, as oracle_pure.normal has it: read from the project or the store."""
        members = spec if isinstance(spec, list) else spec.get("members")
        if members is not None:
            return [self._given(member) for member in members]
        if "value" in spec:
            return spec["value"]
        if "path" in spec:  # a file of the project is handed over where it lies
            file = self.session.project / spec["path"]
            return {"file": file.read_text(encoding="utf-8"), "suffix": file.suffix}
        data = Path(self.store.path(spec["sha256"])).read_bytes()
        if spec["type"] == "json":
            return json.loads(data)
        return {"file": data.decode(), "suffix": spec.get("suffix", "")}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
