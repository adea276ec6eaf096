"""What the events of a run say of steps that compose datasets, folded one by one. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from whyrun.ids import output_of
from whyrun.log import events as ev
from whyrun.log.outcomes import RunOutcome
from whyrun.planning.reuse import SHARED


class Composed:
    """What the events of a run say of its steps, folded one by one."""

    def __init__(self) -> None:
        self.outcome = RunOutcome()
        self.bindings: dict[str, Mapping[str, Any]] = {}
        self.attempts: dict[str, int] = {}
        self.reused: dict[str, tuple[str, str]] = {}  # step → the run and the step that it is taken from
        self.durations: dict[str, float] = {}
        self.artifacts: dict[str, dict[str, ev.ArtifactAvailable]] = {}
        self.conditions: dict[str, ev.ConditionEvaluated] = {}
        self.tasks: dict[str, list[tuple[str, dict[str, Any]]]] = {}  # step → status and details
        self.because: dict[str, list[str]] = {}
        self.absent: dict[str, str | None] = {}  # step that is inactive → its source that is absent
        self.values: dict[str, Any] = {}  # artifact → value, where the log has it

    def add(self, event: ev.Event) -> None:
        self.outcome.add(event)
        if isinstance(event, ev.ArtifactAvailable) and event.value is not msgspec.UNSET:
            self.values[event.artifact] = event.value
        match event:
            case ev.StepStart():
                self.bindings[event.step_id] = event.bindings or {}
                self.attempts[event.step_id] = event.attempt
                self.tasks.pop(event.step_id, None)  # what an earlier attempt said is no more
                self.artifacts.pop(event.step_id, None)
            case ev.StepSkipped() if event.why == "reused":
                self.bindings[event.step_id] = event.bindings or {}
                self.reused[event.step_id] = event.from_run or SHARED, event.from_step or event.step_id
            case ev.StepSkipped() if event.why == "source_inactive":
                self.absent[event.step_id] = event.reason
            case ev.ArtifactAvailable() if output_of(event.artifact) is not None:
                self.artifacts.setdefault(event.step_id, {})[event.artifact] = event
            case ev.StepComplete() | ev.StepFailed():
                self.durations[event.step_id] = event.duration
            case ev.StepBlocked():
                self.because[event.step_id] = event.because
            case ev.ConditionEvaluated():
                self.conditions[event.step_id] = event
            case ev.Task() if isinstance(event.details, dict):
                self.tasks.setdefault(event.step_id, []).append((event.status, event.details))
            case _:
                pass
