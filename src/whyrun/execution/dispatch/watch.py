"""Which steps of a run strace watches, and what was seen of each step.

With `trace = "first"` it is one instance of each job that needs it, until one succeeds. What strace saw of that
instance, beyond what the audit hook saw, stands for the others of its job.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec.structs import replace

from whyrun.console.lines import listed
from whyrun.execution.dispatch.dispatch import ActiveStep
from whyrun.execution.protocol.framing import nanoseconds
from whyrun.execution.protocol.messages import StepFinished
from whyrun.execution.recording.observed import Observations
from whyrun.execution.recording.present_reads import PresentReads
from whyrun.execution.recording.publisher import Publisher
from whyrun.project_config import Trace
from whyrun.snapshot.snapshot import PlanningSnapshot

UNDECLARED = "UndeclaredRead"


class Watch:
    def __init__(self, mode: Trace, needed: Callable[[str], bool], observations: Observations, strict: bool) -> None:
        """`needed(job)`: has no instance been traced since the job's script, action or packages changed? `strict`: an
        undeclared read fails the step."""
        self._mode, self._needed, self._observations, self._strict = mode, needed, observations, strict
        self._traced: dict[str, str] = {}  # job → the step that is traced for it, or was
        self._planned_at = time.time_ns()

    @classmethod
    def of(cls, snapshot: PlanningSnapshot, publisher: Publisher, mode: Trace, *, strict: bool) -> Watch:
        present = PresentReads(publisher.project, publisher.cache)
        note = publisher.recorder.reporter.note
        observations = Observations(snapshot, publisher.store.put_bytes, note, present.look)
        return cls(mode, lambda job: True, observations, strict)

    def traces(self, job: str, step: str) -> bool:
        """Whether this attempt, which starts now, is to be traced."""
        if self._mode != "first":
            return self._mode == "always"
        if job not in self._traced and self._needed(job):
            self._traced[job] = step
            return True
        return False

    def ended(self, active: ActiveStep, message: StepFinished) -> StepFinished:
        """Keep with the attempt what was seen of it. Returns its last message: a failure, if what it read must be
        declared."""
        job = active.table.name
        succeeded = message.error_type is None and active.killed_for is None
        # Elsewhere it read a copy that was made after the plan.
        in_place = active.code is not None and bool(active.began_at)
        began = nanoseconds(active.began_at) if in_place else self._planned_at
        observed = self._observations.of(active.table, active.step.consumed, message.reads, began, succeeded=succeeded)
        active.observed = observed.fields
        if self._strict and succeeded and observed.undeclared:
            succeeded = False
            message = replace(message, error_type=UNDECLARED, error=_undeclared(job, observed.undeclared), outputs=[])
        if not succeeded and self._traced.get(job) == active.id:
            del self._traced[job]  # only a success counts: another attempt is traced
        return message


def _undeclared(job: str, paths: list[str]) -> str:
    shown = listed([f"`{path.removesuffix('/*')}`" for path in paths])
    were, them = ("was", "it") if len(paths) == 1 else ("were", "them")
    return f"{shown} {were} read, and nothing declares {them}: write `code: [{', '.join(paths)}]` in `Job:{job}`"
