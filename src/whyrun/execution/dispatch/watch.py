"""Which steps of a run strace watches, and what was seen of each step.

With `trace = "first"` it is the first instances of each job that needs it, until one has succeeded: those that run at
the same time, too. What strace saw of that instance, beyond what the audit hook saw, stands for all later ones.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from msgspec.structs import replace

from whyrun.console.lines import listed
from whyrun.execution.dispatch.dispatch import ActiveStep
from whyrun.execution.protocol.framing import nanoseconds
from whyrun.execution.protocol.messages import StepFinished
from whyrun.execution.recording.observed import Observations, PresentReads
from whyrun.execution.recording.publisher import Publisher
from whyrun.planning.input_changes import InputChanged
from whyrun.planning.plan import Plan, PlannedJob
from whyrun.project_config import Trace
from whyrun.snapshot.reads import package_changes
from whyrun.snapshot.snapshot import PlanningSnapshot

# --- which jobs of a plan are to be traced: what only a trace sees of them may have changed ---------------------------


def jobs_to_trace(snapshot: PlanningSnapshot, planned: Iterable[PlannedJob]) -> frozenset[str]:
    """The jobs of which no instance was traced, or whose script, action, packages or undeclared reads have changed
    since the last success of a planned instance. (A script may be an input, so every changed input counts.)"""
    found: set[str] = set()
    for job in planned:
        table, _ = snapshot.dependency_graph.table_at(job.node)
        if table.name in found or job.reuse is not None:
            continue
        changed = any(isinstance(reason, InputChanged) for reason in job.reasons)
        if changed or not snapshot.reads.is_traced(table.name) or _packages_changed(snapshot, job.node):
            found.add(table.name)
    return frozenset(found)


def _packages_changed(snapshot: PlanningSnapshot, node: int) -> bool:
    record = snapshot.record(node)
    success = record.last_success() if record is not None else None
    return success is not None and bool(package_changes(snapshot, node, success))


# --- which steps strace watches ---------------------------------------------------------------------------------------


UNDECLARED = "UndeclaredRead"


@dataclass(frozen=True, slots=True)
class WatchPolicy:
    """The settings of `whyrun.toml`."""

    trace: Trace = "first"
    strict: bool = False


class Watch:
    def __init__(
        self,
        mode: Trace,
        needed: Collection[str],
        observations: Observations,
        strict: bool,
        in_project: Collection[str] = (),
    ) -> None:
        """`needed`: the jobs to trace with `first`. `strict`: an undeclared read fails the step. `in_project`: jobs
        whose steps run in the project folder: each reads by paths of its own, so `first` traces all of them."""
        self._mode, self._needed, self._observations, self._strict = mode, needed, observations, strict
        self._in_project = in_project
        self._seen: set[str] = set()  # jobs of which a step that was to be traced has succeeded in this run
        self._planned_at = time.time_ns()

    @classmethod
    def of(cls, snapshot: PlanningSnapshot, plan: Plan, publisher: Publisher, policy: WatchPolicy) -> Watch:
        present = PresentReads(publisher.project, publisher.cache)
        note = publisher.recorder.reporter.note
        observations = Observations(snapshot, publisher.store.put_bytes, note, present.look)
        needed = jobs_to_trace(snapshot, plan.planned) if policy.trace == "first" else frozenset[str]()
        in_project = {job for job, action in snapshot.actions.items() if action.in_project}
        return cls(policy.trace, needed, observations, policy.strict, in_project)

    def look_at(self, snapshot: PlanningSnapshot, new: Iterable[PlannedJob]) -> None:
        """More instances are known from now on; these are planned."""
        self._observations.look_at(snapshot)
        if self._mode == "first":
            self._needed = frozenset((*self._needed, *jobs_to_trace(snapshot, new)))

    def traces(self, job: str) -> bool:
        """Whether the attempt of this job that starts now is to be traced."""
        if self._mode != "first":
            return self._mode == "always"
        return job in self._in_project or (job not in self._seen and job in self._needed)

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
