"""Which steps of a run strace watches, and what was seen of each step.

With `trace = "first"` it is the first instances of each job that needs it, until one has succeeded: those that run at
the same time, too. What strace saw of that instance, beyond what the audit hook saw, stands for all later ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from whyrun.console.lines import listed
from whyrun.execution.dispatch.dispatch import ActiveStep
from whyrun.execution.protocol.framing import nanoseconds
from whyrun.execution.protocol.messages import StepFinished
from whyrun.execution.recording.observed import Observations
from whyrun.execution.recording.present_reads import PresentReads
from whyrun.execution.recording.publisher import Publisher
from whyrun.planning.input_changes import InputChanged
from whyrun.planning.plan import Plan
from whyrun.project_config import Trace
from whyrun.snapshot.snapshot import PlanningSnapshot

UNDECLARED = "UndeclaredRead"


@dataclass(frozen=True, slots=True)
class WatchPolicy:
    """The settings of `whyrun.toml`."""

    trace: Trace = "first"
    strict: bool = False


class Watch:
    def __init__(self, mode: Trace, needed: Callable[[str], bool], observations: Observations, strict: bool) -> None:
        """`needed(job)`: was no instance traced since its script or action changed? (A script may be an input, so every
        changed input counts.) `strict`: an undeclared read fails the step."""
        self._mode, self._needed, self._observations, self._strict = mode, needed, observations, strict
        self._seen: set[str] = set()  # jobs of which a step that was to be traced has succeeded in this run
        self._planned_at = time.time_ns()

    @classmethod
    def of(cls, snapshot: PlanningSnapshot, plan: Plan, publisher: Publisher, policy: WatchPolicy) -> Watch:
        present = PresentReads(publisher.project, publisher.cache)
        note = publisher.recorder.reporter.note
        observations = Observations(snapshot, publisher.store.put_bytes, note, present.look)
        changed = {
            job.id.partition("[")[0] for job in plan.planned if any(isinstance(r, InputChanged) for r in job.reasons)
        }
        needed = lambda job: f"Job:{job}" in changed or not snapshot.reads.is_traced(job)  # noqa: E731
        return cls(policy.trace, needed, observations, policy.strict)

    def traces(self, job: str) -> bool:
        """Whether the attempt of this job that starts now is to be traced."""
        if self._mode != "first":
            return self._mode == "always"
        return job not in self._seen and self._needed(job)

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
            message = replace(message, error_type=UNDECLARED, error=_undeclared(job, observed.undeclared), outputs=[])
        if succeeded and active.trace:
            self._seen.add(job)
        return message


def _undeclared(job: str, paths: list[str]) -> str:
    shown = listed([f"`{path.removesuffix('/*')}`" for path in paths])
    were, them = ("was", "it") if len(paths) == 1 else ("were", "them")
    return f"{shown} {were} read, and nothing declares {them}: write `code: [{', '.join(paths)}]` in `Job:{job}`"
