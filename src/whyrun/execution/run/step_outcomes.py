"""How steps end, written down: each ending is its events, its line for people, and what later steps may take."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import Any, Literal

from msgspec import UNSET, to_builtins

from whyrun.actions.from_source import Versions
from whyrun.artifacts.hashing import canonical_json
from whyrun.console.lines import listed
from whyrun.errors import WhyrunError
from whyrun.execution.commands import StepFinished, StepLost
from whyrun.execution.confined import sandbox_note
from whyrun.execution.failure import MADE_AGAIN
from whyrun.execution.prepare import recorded_bindings
from whyrun.execution.publisher import Publisher, published_path, recorded_place
from whyrun.execution.recorder import Recorder
from whyrun.execution.tell import Lines
from whyrun.graph.fingerprint import recorded_suffix
from whyrun.graph.graph import Graph, JobTable
from whyrun.ids import file_name
from whyrun.log import events as ev
from whyrun.planning.consume import Consumption, Seen
from whyrun.planning.reuse import Reuse
from whyrun.snapshot.snapshot import PlanningSnapshot

Failure = Literal["FAILED", "TIMED_OUT", "INTERRUPTED"]


@dataclass(slots=True)
class Active:
    """A step that was handed to the backend."""

    step: str
    node: int
    table: JobTable
    position: int
    attempt: int
    fingerprint: str
    bindings: dict[str, Any]
    action: str
    timeout: float | None
    consumed: Consumption | None = None
    code: Versions | None = None  # of the files of its action when it was handed out, where it reads them in place
    began: float | None = None  # monotonic
    killed_for: Failure | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """What went wrong with an attempt."""

    status: Failure
    error_type: str
    message: str
    traceback: str
    duration: float


class Endings:
    def __init__(self, snapshot: PlanningSnapshot, recorder: Recorder, publisher: Publisher, backend: str) -> None:
        self.snapshot, self.recorder, self.publisher, self.backend = snapshot, recorder, publisher, backend
        self.graph: Graph = snapshot.dependency_graph
        self.lines = Lines(self.graph, recorder, publisher.store, publisher.project)

    # -- without executing --

    def condition(self, table: JobTable, step: str, found: Consumption) -> None:
        assert table.condition is not None
        assert found.decision is not None
        self.recorder.event(
            ev.ConditionEvaluated(
                step_id=step,
                expression=table.condition.expression.text,
                inputs=found.decision.inputs,
                result=found.decision.result,
            )
        )

    def inactive(self, table: JobTable, position: int, found: Consumption) -> None:
        step = table.job_id(position)
        by_condition = found.inactive_by is None
        self.recorder.event(
            ev.StepSkipped(
                step_id=step,
                why="condition_false" if by_condition else "source_inactive",
                reason=found.inactive_by,
            )
        )
        why = "condition is false" if by_condition else f"source is inactive: {found.inactive_by}"
        self.lines.skips(table, position, why)

    def blocked(self, table: JobTable, position: int, because: list[str]) -> None:
        self.recorder.event(ev.StepBlocked(step_id=table.job_id(position), because=because))
        self.lines.skips(table, position, f"blocked by {listed(because)}")

    def reused(
        self, table: JobTable, position: int, found: Consumption, fingerprint: str, reuse: Reuse
    ) -> dict[str, Seen] | None:
        """Record an earlier result as this step's; None if its published file cannot be put in place.

        Then the step has failed; the result stands in the log and the store, and the next run takes it again.
        """
        step = table.job_id(position)
        self.recorder.event(
            ev.StepSkipped(
                step_id=step,
                why="reused",
                fingerprint=fingerprint,
                bindings=self.bindings(table, position, found),
                from_run=reuse.run if reuse.shared is None else None,
                from_step=reuse.step if reuse.shared is None else None,
                shared=None if reuse.shared is None else to_builtins(reuse.shared.origin),
            )
        )
        made: dict[str, Seen] = {}
        to_publish: list[tuple[str, str, str]] = []
        for a, spec in enumerate(table.artifacts):
            output = reuse.outputs[spec.key_at(position)]
            path = published_path(table, a, position)
            file, section = recorded_place(path)
            self.recorder.event(
                ev.ArtifactAvailable(
                    artifact=table.artifact_id(a, position),
                    step_id=step,
                    sha256=output.sha256,
                    size=output.size,
                    type=output.type,
                    suffix=recorded_suffix(table, a),
                    path=file,
                    section=section,
                    value=output.value,
                    reused_from=reuse.run,
                )
            )
            made[spec.key_at(position)] = Seen(output.sha256, output.value)
            if path is not None:
                to_publish.append((path, output.sha256, output.type))
                if output.value is not UNSET:  # it stands in the log, whatever became of its stored bytes
                    self.publisher.store.put_bytes(canonical_json(output.value))
        self.recorder.flush()
        for path, sha256, type_ in to_publish:
            try:
                self.publisher.publish(path, sha256, type_)
            except (WhyrunError, OSError) as problem:
                failure = self.not_published(problem, path, sha256, type_, 0.0)
                self.record_failure(step, table.decl.uses, failure, will_retry=False)
                self.tell_failure(table, position, failure)
                return None
        self.lines.skips(table, position, f"reused from {reuse.told(step)}")
        return made

    def bindings(self, table: JobTable, position: int, found: Consumption) -> dict[str, Any]:
        action = self.snapshot.actions[table.name]
        return recorded_bindings(table, position, found, action, self.publisher.store.put_bytes)

    # -- of an attempt --

    def began(self, active: Active, step: str, ts: str | None = None) -> None:
        self.recorder.event(
            ev.StepStart(
                step_id=step,
                driver=active.action,
                attempt=active.attempt,
                fingerprint=active.fingerprint,
                bindings=active.bindings,
            ),
            ts=ts,
        )

    def outputs(self, active: Active, message: StepFinished) -> dict[str, Seen]:
        """`artifact_available` of every output; they are published, and the step is complete, after that."""
        table, position = active.table, active.position
        numbers = {spec.key_at(position): a for a, spec in enumerate(table.artifacts)}
        made: dict[str, Seen] = {}
        for output in sorted(message.outputs, key=lambda o: numbers[o.key]):
            a = numbers[output.key]
            made[output.key] = Seen(output.sha256, output.value)
            path, section = recorded_place(site := self.place_of(table, a, position))
            if site is not None and section is not None:
                self.publisher.announce(site, output.sha256)
            self.recorder.event(
                ev.ArtifactAvailable(
                    artifact=table.artifact_id(a, position),
                    step_id=message.step_id,
                    sha256=output.sha256,
                    size=output.size,
                    type=output.type,
                    suffix=recorded_suffix(table, a),
                    path=path,
                    section=section,
                    value=output.value,
                ),
                ts=message.ts,
            )
        return made

    def completed(self, active: Active, message: StepFinished) -> Problem | None:
        """Publish and complete; or the problem that publishing met.

        Then the result is not lost: its outputs are recorded and stored. The fold knows it by `NOT_PUBLISHED`, and the
        next run takes them, so nothing is executed again.
        """
        table, position = active.table, active.position
        if any(output.paths is not None for output in table.outputs):
            numbers = {spec.key_at(position): a for a, spec in enumerate(table.artifacts)}
            for output in message.outputs:
                path = self.place_of(table, numbers[output.key], position)
                if path is None:
                    continue
                try:
                    self.publisher.publish(path, output.sha256, output.type)
                except (WhyrunError, OSError) as problem:
                    return self.not_published(problem, path, output.sha256, output.type, message.duration)
        self.succeeded(active, message)
        return None

    def place_of(self, table: JobTable, artifact: int, position: int) -> str | None:
        """Where an output of an executed step is published."""
        return published_path(table, artifact, position)

    def succeeded(self, active: Active, message: StepFinished) -> None:
        table, position = active.table, active.position
        self.complete(active, message, "EXECUTES")
        self.lines.executes(table, position, active.consumed, message.outputs, message.duration)

    def complete(self, active: Active, message: StepFinished, status: ev.Success) -> None:
        table, position = active.table, active.position
        self.recorder.event(
            ev.StepComplete(
                step_id=message.step_id,
                driver=active.action,
                output_dir=f"artifacts/{file_name(table.path(position))}",
                duration=round(message.duration, 6),
                status=status,
            )
        )

    def failed(self, active: Active, problem: Problem, will_retry: bool) -> None:
        table, position = active.table, active.position
        step = table.job_id(position)
        self.record_failure(step, active.action, problem, will_retry)
        self.tell_failure(table, position, problem, active.attempt if will_retry else None)

    def tell_failure(self, table: JobTable, position: int, problem: Problem, retry_after: int | None = None) -> None:
        what, note = problem.message, ""
        if problem.status == "FAILED":
            what = f"{problem.error_type}: {problem.message}" if problem.message else problem.error_type
            note = sandbox_note(self.backend, table.decl.sandbox, problem.error_type, problem.message)
        self.lines.failed(
            table,
            position,
            status=problem.status,
            what=what,
            note=note,
            duration=problem.duration,
            traceback=problem.traceback,
            retry_after=retry_after,
        )

    def record_failure(self, step: str, action: str, problem: Problem, will_retry: bool) -> None:
        self.recorder.event(
            ev.StepFailed(
                step_id=step,
                driver=action,
                error=problem.message,
                error_type=problem.error_type,
                traceback=problem.traceback,
                duration=round(problem.duration, 6),
                status=problem.status,
                will_retry=will_retry,
            )
        )

    def not_published(
        self, problem: WhyrunError | OSError, path: str, sha256: str, type_: str, duration: float
    ) -> Problem:
        if isinstance(problem, WhyrunError) and problem.diagnostics[0].code == "STORE_DAMAGED":
            self.publisher.store.drop_damaged(sha256, type_)
        text = "".join(traceback.format_exception(problem))
        here, message = f"{self.publisher.project}/", whats_wrong(problem, path)
        return Problem("FAILED", ev.NOT_PUBLISHED, message.replace(here, ""), text.replace(here, ""), duration)

    def killed(self, active: Active, duration: float, text: str) -> Problem:
        """The problem of a step that was told to end."""
        table, position = active.table, active.position
        if active.killed_for == "TIMED_OUT":
            limit = f"{active.timeout or 0.0:g}s"
            scratch = self.recorder.directory.step_dir(table.path(position)) / "scratch"
            partial = f", partial outputs may exist: {scratch.relative_to(self.recorder.directory.path)}"
            message = f"timeout: {limit}{partial if scratch.exists() else ''}"
            return Problem("TIMED_OUT", "TimedOut", message, text, duration)
        # Where it stood is of no use, and where the worker's own code stood even less.
        return Problem("INTERRUPTED", "Interrupted", "interrupted", "", duration)

    def lost(self, message: StepLost) -> Problem:
        """The problem of a step whose worker is gone without a word."""
        self.recorder.event(
            ev.StatusContractViolation(step_id=message.step_id, reason=message.reason, last_stderr=message.last_stderr)
        )
        tail = f"\n{message.last_stderr}" if message.last_stderr else ""
        return Problem("FAILED", "WorkerDied", message.reason, message.reason + tail, message.duration)


def whats_wrong(problem: WhyrunError | OSError, path: str) -> str:
    """What went wrong with publishing at `path`."""
    if isinstance(problem, WhyrunError):
        first = problem.diagnostics[0]
        if first.code == "SECTION_FILE_INVALID":  # it is told of each step that has a section in the file: in short
            return f"{first.code}: {first.message}; correct it or move it away, and the next run puts the result there"
        if first.code == "PATH_OUTSIDE":  # the next run would only meet the same link
            return f"`{path}` could not be written: {first.code}: {first.message}; the result is kept: {first.hint}"
        if first.code == "STORE_DAMAGED":
            return f"`{path}` could not be written: {first.code}: {first.message}; {MADE_AGAIN}"
        kind, reason = first.code, f"{first.message} ({first.hint})" if first.hint else first.message
    else:
        kind, reason = type(problem).__name__, problem.strerror or str(problem).split("\n", 1)[0]
    return f"`{path}` could not be written: {kind}: {reason}; the result is kept, and the next run puts it there"
