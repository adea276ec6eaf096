"""How steps end, written down: each ending is its events, its line for people, and what later steps may take."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import Any, Literal

from msgspec import UNSET

from whyrun.artifacts.hashing import canonical_json
from whyrun.console.lines import listed, seconds, size
from whyrun.errors import WhyrunError
from whyrun.execution.commands import StepFinished, StepLost
from whyrun.execution.prepare import recorded_bindings
from whyrun.execution.publisher import Publisher, published_path
from whyrun.execution.recorder import Recorder
from whyrun.graph.fingerprint import recorded_suffix
from whyrun.graph.graph import Graph, JobTable
from whyrun.ids import file_name
from whyrun.log import events as ev
from whyrun.planning.consume import Consumption, Seen
from whyrun.planning.dirty import Reuse
from whyrun.snapshot.snapshot import PlanningSnapshot

Failure = Literal["FAILED", "TIMED_OUT", "INTERRUPTED"]


@dataclass(slots=True)
class Active:
    """A step that was handed to the backend."""

    node: int
    attempt: int
    fingerprint: str
    bindings: dict[str, Any]
    action: str
    timeout: float | None
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
    def __init__(self, snapshot: PlanningSnapshot, recorder: Recorder, publisher: Publisher) -> None:
        self.snapshot, self.recorder, self.publisher = snapshot, recorder, publisher
        self.graph: Graph = snapshot.dependency_graph

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

    def inactive(self, table: JobTable, step: str, found: Consumption) -> None:
        by_condition = found.inactive_by is None
        self.recorder.event(ev.StepSkipped(step_id=step, why="condition_false" if by_condition else "source_inactive"))
        why = "condition is false" if by_condition else f"source is inactive: {found.inactive_by}"
        self.recorder.status(table.decl.uses, "SKIPS", f"{step} → {why}")

    def blocked(self, table: JobTable, step: str, because: list[str]) -> None:
        self.recorder.event(ev.StepBlocked(step_id=step, because=because))
        self.recorder.status(table.decl.uses, "SKIPS", f"{step} → blocked by {listed(because)}")

    def reused(
        self, table: JobTable, position: int, found: Consumption, fingerprint: str, reuse: Reuse
    ) -> dict[str, Seen] | None:
        """Record an earlier result as this step's; None if its published file cannot be put in place.

        Then the result stands in the log and the store, and only its copy is not where the user wants it: the next
        plan sees that, says so and tries again.
        """
        step = table.job_id(position)
        self.recorder.event(
            ev.StepSkipped(
                step_id=step,
                why="reused",
                fingerprint=fingerprint,
                bindings=self.bindings(table, position, found),
                from_run=reuse.run,
                from_step=reuse.step,
            )
        )
        made: dict[str, Seen] = {}
        to_publish: list[tuple[str, str, str]] = []
        for a, spec in enumerate(table.artifacts):
            output = reuse.outputs[spec.key_at(position)]
            path = published_path(table, a, position)
            self.recorder.event(
                ev.ArtifactAvailable(
                    artifact=table.artifact_id(a, position),
                    step_id=step,
                    sha256=output.sha256,
                    size=output.size,
                    type=output.type,
                    suffix=recorded_suffix(table, a),
                    path=path,
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
                what = f"{problem_type(problem)}: {first_line(problem, path)}"
                self.recorder.status(table.decl.uses, "FAILED", f"{step} → {what}")
                return None
        source = "" if reuse.step == step else f" ({reuse.step})"
        self.recorder.status(table.decl.uses, "SKIPS", f"{step} → reused from {reuse.run}{source}")
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
        table, position = self.graph.table_at(active.node)
        numbers = {spec.key_at(position): a for a, spec in enumerate(table.artifacts)}
        made: dict[str, Seen] = {}
        for output in sorted(message.outputs, key=lambda o: numbers[o.key]):
            a = numbers[output.key]
            made[output.key] = Seen(output.sha256, output.value)
            self.recorder.event(
                ev.ArtifactAvailable(
                    artifact=table.artifact_id(a, position),
                    step_id=message.step_id,
                    sha256=output.sha256,
                    size=output.size,
                    type=output.type,
                    suffix=recorded_suffix(table, a),
                    path=published_path(table, a, position),
                    value=output.value,
                ),
                ts=message.ts,
            )
        return made

    def completed(self, active: Active, message: StepFinished) -> Problem | None:
        """Publish and complete; or the problem that publishing met."""
        table, position = self.graph.table_at(active.node)
        shown = []
        if any(output.paths is not None for output in table.outputs):
            numbers = {spec.key_at(position): a for a, spec in enumerate(table.artifacts)}
            try:
                for output in message.outputs:
                    path = published_path(table, numbers[output.key], position)
                    if path is not None:
                        self.publisher.publish(path, output.sha256, output.type)
                        shown.append(f"{path} ({size(output.size)})")
            except (WhyrunError, OSError) as problem:
                text = "".join(traceback.format_exception(problem)).replace(f"{self.publisher.project}/", "")
                return Problem("FAILED", problem_type(problem), first_line(problem, path), text, message.duration)
        self.recorder.event(
            ev.StepComplete(
                step_id=message.step_id,
                driver=active.action,
                output_dir=f"artifacts/{file_name(table.path(position))}",
                duration=round(message.duration, 6),
                status="EXECUTES",
            )
        )
        where = f" → outputs: {listed(shown)}" if shown else ""
        self.recorder.status(active.action, "EXECUTES", f"{message.step_id} in {seconds(message.duration)}{where}")
        return None

    def failed(self, active: Active, problem: Problem, will_retry: bool) -> None:
        table, position = self.graph.table_at(active.node)
        step = table.job_id(position)
        self.recorder.event(
            ev.StepFailed(
                step_id=step,
                driver=active.action,
                error=problem.message,
                error_type=problem.error_type,
                traceback=problem.traceback,
                duration=round(problem.duration, 6),
                status=problem.status,
                will_retry=will_retry,
            )
        )
        if problem.traceback:
            self.recorder.debug(f"{step} attempt {active.attempt}: {problem.error_type}\n{problem.traceback}")
        head = problem.message.split("\n", 1)[0]
        after = f"{step} after {seconds(problem.duration)}"
        retry = f" (attempt {active.attempt}, will retry)" if will_retry else ""
        if problem.status == "TIMED_OUT":
            self.recorder.status(active.action, "TIMED_OUT", f"{after} → {head}{retry}")
        elif problem.status == "INTERRUPTED":
            self.recorder.status(active.action, "FAILED", f"{after} → interrupted")
        else:
            self.recorder.status(active.action, "FAILED", f"{after} → {problem.error_type}: {head}{retry}")

    def killed(self, active: Active, duration: float, text: str) -> Problem:
        """The problem of a step that was told to end."""
        table, position = self.graph.table_at(active.node)
        if active.killed_for == "TIMED_OUT":
            limit = seconds(active.timeout or 0.0)
            scratch = self.recorder.directory.step_dir(table.path(position)) / "scratch"
            partial = f", partial outputs may exist: {scratch.relative_to(self.recorder.directory.path)}"
            message = f"timeout: {limit}{partial if scratch.exists() else ''}"
            return Problem("TIMED_OUT", "TimedOut", message, text, duration)
        return Problem("INTERRUPTED", "Interrupted", "interrupted", text, duration)

    def lost(self, message: StepLost) -> Problem:
        """The problem of a step whose worker is gone without a word."""
        self.recorder.event(
            ev.StatusContractViolation(step_id=message.step_id, reason=message.reason, last_stderr=message.last_stderr)
        )
        tail = f"\n{message.last_stderr}" if message.last_stderr else ""
        return Problem("FAILED", "WorkerDied", message.reason, message.reason + tail, message.duration)


def problem_type(problem: BaseException) -> str:
    return problem.diagnostics[0].code if isinstance(problem, WhyrunError) else type(problem).__name__


def first_line(problem: BaseException, path: str | None) -> str:
    """What went wrong with publishing at `path`, without a path of this machine in it."""
    if isinstance(problem, WhyrunError):
        first = problem.diagnostics[0]
        return f"{first.message} ({first.hint})" if first.hint else first.message
    reason = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem).split("\n", 1)[0]
    return f"`{path}`: {reason}"
