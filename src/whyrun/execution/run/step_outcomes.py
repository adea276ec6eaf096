"""How steps end: each outcome records its events, prints its line, publishes its files and returns its results.

Also keeps those results, which later steps of the run consume.
"""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from msgspec import UNSET, to_builtins

from whyrun.artifacts.hashing import canonical_json
from whyrun.console.lines import listed
from whyrun.errors import WhyrunError
from whyrun.execution.dispatch.dispatch import ActiveStep, PreparedStep
from whyrun.execution.dispatch.step_builder import recorded_bindings
from whyrun.execution.protocol.messages import StepFinished, StepLost
from whyrun.execution.recording.failure_notes import FailedStep, failure_note
from whyrun.execution.recording.observed import NOTHING_OBSERVED, ObservedFields
from whyrun.execution.recording.publisher import Publisher, path_and_section
from whyrun.execution.recording.recorded import RecordedArtifact, recorded_artifacts
from whyrun.execution.recording.step_lines import StepFailure, StepLines
from whyrun.execution.run.scheduler import SUCCEEDED, StepStates
from whyrun.execution.worker.failure import MADE_AGAIN
from whyrun.execution.worker.materialize import CHANGED_DURING_RUN
from whyrun.graph.tables import ArtifactAt, Graph, InputAt, JobTable
from whyrun.ids import file_name
from whyrun.log import events as ev
from whyrun.planning.artifact_states import ArtifactState, Available, Pending
from whyrun.planning.consume import Consumer, Consumption, Entry
from whyrun.planning.plan import Plan
from whyrun.planning.reuse import Reuse
from whyrun.snapshot.records import MadeOutput, run_name
from whyrun.snapshot.snapshot import PlanningSnapshot
from whyrun.workflow.arrays import is_value_type

# --- results of the run ------------------------------------------------------------------------------------------
#
# What the steps of a run may consume: results of this run, recorded results, and which sources failed.


class StepResults:
    """Answers `consume` with what is known now: the planner's own function decides, on the results of this run."""

    def __init__(
        self,
        snapshot: PlanningSnapshot,
        plan: Plan,
        states: StepStates,
        made: Mapping[int, dict[str, Available]] | None = None,
    ) -> None:
        """`made`: the results so far, by node."""
        self._snapshot, self._graph, self._states = snapshot, snapshot.dependency_graph, states
        self._inactive = {job.node for job in plan.jobs if job.state == "inactive"}
        # node → output → result, where a later step may read it
        self._made: dict[int, dict[str, Available]] = dict(made or {})
        self._failed_of: dict[int, set[int]] = {}  # table → its failed or blocked steps, once all have ended
        self.consumer = Consumer(self._graph, self.look, lambda at: states.has_ended(self._graph.node(at)))

    def look(self, at: ArtifactAt) -> ArtifactState:
        node = self._graph.node(at)
        if node in self._states:
            state = self._states[node]
            if state in SUCCEEDED:
                return self._made[node][self._graph.tables[at.table].artifacts[at.artifact].key_at(at.position)]
            if state == "inactive":
                return None
            # A failed candidate of `first` has failed; it is not absent.
            return Pending(maybe=not self._states.has_ended(node))
        if node in self._inactive:
            return None
        sha = self._snapshot.shas[at.table][at.artifact][at.position]
        assert sha is not None, "an instance outside the plan is clean or inactive"
        spec = self._graph.tables[at.table].artifacts[at.artifact]
        return Available(sha, self._snapshot.output(at).value if spec.is_leaf or is_value_type(spec.type) else UNSET)

    def add(self, node: int, made: dict[str, Available]) -> None:
        self._made[node] = made

    def made(self) -> Mapping[int, dict[str, Available]]:
        return self._made

    def made_by(self, node: int) -> dict[str, MadeOutput] | None:
        """By artifact: what a step has made; None if it is inactive."""
        if self._states[node] == "inactive":
            return None
        table, position = self._graph.table_at(node)
        made: dict[str, MadeOutput] = {}
        for a, spec in enumerate(table.artifacts):
            result = self._made[node][spec.key_at(position)]
            made[table.artifact_id(a, position)] = MadeOutput(result.sha256, spec.type, result.value)
        return made

    def drop(self, node: int) -> None:
        """The step has failed after all."""
        self._made.pop(node, None)

    def from_run(self, node: int) -> str | None:
        """The run that made a node's artifacts; None: this one."""
        record = self._snapshot.record(node) if node not in self._states else None
        return run_name(record.latest.run) if record is not None else None

    def failed_needs(self, table: JobTable) -> set[int]:
        """The failed steps among those that this job `needs`. All of them have ended, so each job is searched once."""
        for number in table.needs:
            if number not in self._failed_of:
                needed = self._graph.tables[number]
                nodes = range(needed.base, needed.base + len(needed))
                self._failed_of[number] = {n for n in nodes if self._states.has_failed(n)}
        return {node for number in table.needs for node in self._failed_of[number]}


# --- outcomes ----------------------------------------------------------------------------------------------------


FinishedStep = tuple[ActiveStep, StepFinished]


def edited_code(action: str, file: str, consequence: str, duration: float) -> StepFailure:
    """The failure of a step whose code is not the code of the plan any more."""
    message = f"the code of `{action}` was edited since the plan was made (`{file}`): {consequence}; run again"
    return StepFailure("FAILED", CHANGED_DURING_RUN, message, "", duration)


class StepOutcomes:
    def __init__(self, snapshot: PlanningSnapshot, publisher: Publisher, backend: str) -> None:
        """`backend`: its name."""
        self.snapshot, self.publisher, self.backend = snapshot, publisher, backend
        self.recorder = publisher.recorder
        self.graph: Graph = snapshot.dependency_graph
        self.lines = StepLines(self.graph, self.recorder, publisher.store, publisher.project)

    def look_at(self, snapshot: PlanningSnapshot) -> None:
        """More instances are known from now on."""
        self.snapshot, self.graph = snapshot, snapshot.dependency_graph
        self.lines.graph = self.graph

    # -- without executing --

    def condition(self, table: JobTable, step: str, consumed: Consumption) -> None:
        assert table.condition is not None
        assert consumed.decision is not None
        self.recorder.event(
            ev.ConditionEvaluated(
                step_id=step,
                expression=table.condition.expression.text,
                inputs=consumed.decision.inputs,
                result=consumed.decision.result,
            )
        )

    def inactive(self, table: JobTable, position: int, consumed: Consumption) -> None:
        step = table.job_id(position)
        by_condition = consumed.inactive_by is None
        self.recorder.event(
            ev.StepSkipped(
                step_id=step,
                why="condition_false" if by_condition else "source_inactive",
                reason=consumed.inactive_by,
            )
        )
        why = "condition is false" if by_condition else f"source is inactive: {consumed.inactive_by}"
        self.lines.skips(table, position, why)

    def blocked(self, table: JobTable, position: int, because: list[str], problem: str | None = None) -> None:
        """`problem`: why the instances of an entry `[?]` could not be planned."""
        self.recorder.event(ev.StepBlocked(step_id=table.job_id(position), because=because, problem=problem))
        why = f"blocked by {listed(because)}"
        self.lines.skips(table, position, f"{why}: {problem}" if problem else why, always=problem is not None)

    def held(self, prepared: PreparedStep) -> Literal["hold"]:
        """The budget does not allow an attempt."""
        self.recorder.event(ev.StepSkipped(step_id=prepared.id, why="budget"))
        self.lines.skips(prepared.table, prepared.position, "held back by the budget")
        return "hold"

    def reused(self, prepared: PreparedStep, reuse: Reuse) -> dict[str, Available] | None:
        """Record an earlier result as this step's; None if its published file cannot be put in place.

        In that case the step has failed. The result stays in the log and the store, and the next run reuses it.
        """
        step, table, position = prepared.id, prepared.table, prepared.position
        self.recorder.event(
            ev.StepSkipped(
                step_id=step,
                why="reused",
                fingerprint=prepared.fingerprint,
                bindings=self.bindings(table, position, prepared.consumed),
                from_run=reuse.run if reuse.shared is None else None,
                recorded_in=reuse.recorded_in,
                from_step=reuse.step if reuse.shared is None else None,
                shared=None if reuse.shared is None else to_builtins(reuse.shared.origin),
            )
        )
        made: dict[str, Available] = {}
        to_publish: list[tuple[str, str, str]] = []
        for key, recorded in recorded_artifacts(table, position, reuse.outputs).items():
            output = reuse.outputs[key]
            file, section = path_and_section(recorded.site)
            self.recorder.event(
                ev.ArtifactAvailable(
                    artifact=recorded.id,
                    step_id=step,
                    sha256=output.sha256,
                    size=output.size,
                    type=output.type,
                    suffix=recorded.suffix,
                    path=file,
                    section=section,
                    value=output.value,
                    reused_from=reuse.run,
                )
            )
            made[key] = Available(output.sha256, output.value)
            if recorded.site is not None:
                to_publish.append((recorded.site, output.sha256, output.type))
                if output.value is not UNSET:  # the log has the value, even if its stored bytes are lost
                    self.publisher.store.put_bytes(canonical_json(output.value))
        self.recorder.flush()
        for path, sha256, type_ in to_publish:
            try:
                self.publisher.publish(path, sha256, type_)
            except (WhyrunError, OSError) as problem:
                failure = self.not_published(problem, path, sha256, type_, 0.0)
                self.record_failure(step, table.decl.uses, failure, will_retry=False)
                self.print_failure(table, position, failure)
                return None
        self.lines.skips(table, position, f"reused from {reuse.describe(step)}", reuse)
        return made

    def bindings(self, table: JobTable, position: int, consumed: Consumption) -> dict[str, Any]:
        action = self.snapshot.actions[table.name]
        return recorded_bindings(table, position, consumed, action, self.publisher.store.put_bytes)

    # -- of an attempt --

    def began(self, active: ActiveStep, ts: str | None = None) -> None:
        self.recorder.event(
            ev.StepStart(
                step_id=active.id,
                driver=active.action,
                attempt=active.attempt,
                fingerprint=active.step.fingerprint,
                bindings=active.bindings,
            ),
            ts=ts,
        )

    def outputs(self, active: ActiveStep, message: StepFinished) -> dict[str, Available]:
        """Record every output (`artifact_available`). Publishing and `step_complete` come after that."""
        table, position = active.table, active.position
        outputs = {output.key: output for output in message.outputs}
        made: dict[str, Available] = {}
        for key, recorded in recorded_artifacts(table, position, outputs).items():
            output = outputs[key]
            made[key] = Available(output.sha256, output.value)
            path, section = path_and_section(site := self.published_at(recorded))
            if site is not None and section is not None:
                self.publisher.announce(site, output.sha256)
            self.recorder.event(
                ev.ArtifactAvailable(
                    artifact=recorded.id,
                    step_id=message.step_id,
                    sha256=output.sha256,
                    size=output.size,
                    type=output.type,
                    suffix=recorded.suffix,
                    path=path,
                    section=section,
                    value=output.value,
                ),
                ts=message.ts,
            )
        return made

    def completed(self, active: ActiveStep, message: StepFinished) -> StepFailure | None:
        """Publish the outputs and complete the step; a failure if publishing does not succeed.

        A result that cannot be published is not lost: its outputs are recorded and stored. The next run recognizes it
        by `NOT_PUBLISHED` and publishes it without executing the step again.
        """
        table, position = active.table, active.position
        if any(output.paths is not None for output in table.outputs):
            outputs = {output.key: output for output in message.outputs}
            for key, recorded in recorded_artifacts(table, position, outputs).items():
                path, output = self.published_at(recorded), outputs[key]
                if path is None:
                    continue
                try:
                    self.publisher.publish(path, output.sha256, output.type)
                except (WhyrunError, OSError) as problem:
                    return self.not_published(problem, path, output.sha256, output.type, message.duration)
        self.succeeded(active, message)
        return None

    def published_at(self, recorded: RecordedArtifact) -> str | None:
        """The path of an output of an executed step; None if it is not published."""
        return recorded.site

    def succeeded(self, active: ActiveStep, message: StepFinished) -> None:
        table, position = active.table, active.position
        self.complete(active, message, "EXECUTES")
        self.lines.executes(table, position, active.step.consumed, message.outputs, message.duration)

    def complete(self, active: ActiveStep, message: StepFinished, status: ev.Success) -> None:
        table, position = active.table, active.position
        self.recorder.event(
            ev.StepComplete(
                step_id=message.step_id,
                driver=active.action,
                output_dir=f"artifacts/{file_name(table.path(position))}",
                duration=round(message.duration, 6),
                status=status,
                **active.observed.to_event(),
            )
        )

    def failed(self, active: ActiveStep, failure: StepFailure, will_retry: bool) -> None:
        if failure.error_type == CHANGED_DURING_RUN:
            self._distrust_inputs(active.step.consumed)
        self.record_failure(active.id, active.action, failure, will_retry, active.observed)
        self.print_failure(active.table, active.position, failure, active.attempt if will_retry else None)

    def _distrust_inputs(self, consumed: Consumption) -> None:
        """The worker found another content than the plan saw. If the plan's hash came from the stat cache, and the
        times of a file lie, every further run would fail in the same way."""
        for entries in consumed.entries.values():
            for entry in (entries,) if isinstance(entries, Entry) else entries:
                if isinstance(entry.source, InputAt):
                    value = entry.source.value
                    for each in (value,) if value.elements is None else value.elements:
                        if each.path is not None:
                            self.publisher.cache.distrust(os.path.join(self.publisher.project, each.path))

    def print_failure(
        self, table: JobTable, position: int, failure: StepFailure, retry_after: int | None = None
    ) -> None:
        note = ""
        if failure.status == "FAILED":
            project = Path(self.publisher.project)
            failed = FailedStep(self.graph, table, self.backend, failure.error_type, failure.message, project)
            note = failure_note(failed)
        self.lines.failed(table, position, failure, note=note, retry_after=retry_after)

    def record_failure(
        self,
        step: str,
        action: str,
        failure: StepFailure,
        will_retry: bool,
        observed: ObservedFields = NOTHING_OBSERVED,
    ) -> None:
        self.recorder.event(
            ev.StepFailed(
                step_id=step,
                driver=action,
                error=failure.message,
                error_type=failure.error_type,
                traceback=failure.traceback,
                duration=round(failure.duration, 6),
                status=failure.status,
                will_retry=will_retry,
                **observed.to_event(),
            )
        )

    def not_published(
        self, problem: WhyrunError | OSError, path: str, sha256: str, type_: str, duration: float
    ) -> StepFailure:
        if isinstance(problem, WhyrunError) and problem.diagnostics[0].code == "STORE_DAMAGED":
            self.publisher.store.drop_damaged(sha256, type_)
        text = "".join(traceback.format_exception(problem))
        here, message = f"{self.publisher.project}/", publishing_error(problem, path)
        return StepFailure("FAILED", ev.NOT_PUBLISHED, message.replace(here, ""), text.replace(here, ""), duration)

    def killed(self, active: ActiveStep, duration: float, text: str) -> StepFailure:
        """The failure of a step that got a signal from us."""
        table, position = active.table, active.position
        if active.killed_for == "TIMED_OUT":
            limit = f"{active.timeout or 0.0:g}s"
            scratch = self.recorder.directory.step_dir(table.path(position)) / "scratch"
            partial = f", partial outputs may exist: {scratch.relative_to(self.recorder.directory.path)}"
            message = f"timeout: {limit}{partial if scratch.exists() else ''}"
            return StepFailure("TIMED_OUT", "TimedOut", message, text, duration)
        # Its traceback shows only where the signal arrived, often in the worker's own code.
        return StepFailure("INTERRUPTED", "Interrupted", "interrupted", "", duration)

    def lost(self, message: StepLost) -> StepFailure:
        """The failure of a step whose worker died without reporting."""
        self.recorder.event(
            ev.StatusContractViolation(step_id=message.step_id, reason=message.reason, last_stderr=message.last_stderr)
        )
        tail = f"\n{message.last_stderr}" if message.last_stderr else ""
        return StepFailure("FAILED", "WorkerDied", message.reason, message.reason + tail, message.duration)


class PendingSections:
    """Finished steps whose sections wait to be merged into a shared file, so that it is not rewritten for each step.

    A step is complete once its sections are in their files. It waits until the next merge is due
    (`Publisher.next_merge`) while others join it, but never longer than the run has other work.
    """

    def __init__(self, graph: Graph, publisher: Publisher) -> None:
        self._publisher = publisher
        self._writes_sections = [any(output.append for output in table.outputs) for table in graph.tables]
        self._pending: list[FinishedStep] = []

    def __bool__(self) -> bool:
        return bool(self._pending)

    @property
    def steps(self) -> Iterable[ActiveStep]:
        return [active for active, _ in self._pending]

    def seconds_left(self) -> float:
        return max(0.0, self._publisher.next_merge - time.monotonic())

    def release(self, finished: list[FinishedStep], *, at_once: bool) -> list[FinishedStep]:
        """The steps to complete now, of those that have just finished and those that are pending."""
        if at_once or not self.seconds_left():
            ready, self._pending = [*self._pending, *finished], []
            return ready
        self._pending += [step for step in finished if self._has_sections(step)]
        return [step for step in finished if not self._has_sections(step)]

    def _has_sections(self, finished: FinishedStep) -> bool:
        return self._writes_sections[finished[0].table.number]


def publishing_error(problem: WhyrunError | OSError, path: str) -> str:
    """Why `path` could not be published, and what happens next."""
    if isinstance(problem, WhyrunError):
        first = problem.diagnostics[0]
        if first.code == "SECTION_FILE_INVALID":  # reported for each step with a section in the file, so keep it short
            return f"{first.code}: {first.message}; correct it or move it away, and the next run publishes the result"
        if first.code == "PATH_OUTSIDE":  # the next run would meet the same link
            return f"`{path}` could not be written: {first.code}: {first.message}; the result is kept: {first.hint}"
        if first.code == "STORE_DAMAGED":
            return f"`{path}` could not be written: {first.code}: {first.message}; {MADE_AGAIN}"
        kind, reason = first.code, f"{first.message} ({first.hint})" if first.hint else first.message
    else:
        kind, reason = type(problem).__name__, problem.strerror or str(problem).split("\n", 1)[0]
    return f"`{path}` could not be written: {kind}: {reason}; the result is kept, and the next run publishes it"
