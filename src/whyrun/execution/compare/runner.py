"""The runner of a comparison: it executes each chosen step on recorded artifacts, and no step waits for another.

Deadlines, retries, resources, interruption and evidence are those of any run. Unlike in other runs, the inputs of each
step are known beforehand, nothing is reused or remembered, and the outcome of a step says how its outputs differ.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from msgspec import UNSET

from whyrun.artifacts.compare.result import Comparison
from whyrun.artifacts.hashing import canonical_json
from whyrun.console.files import output_label
from whyrun.console.lines import TaskStatus, file_text, listed, seconds, task_text
from whyrun.console.preview import task_name
from whyrun.execution.backends.base import Backend
from whyrun.execution.compare.comparable import Subject
from whyrun.execution.dispatch.dispatch import ActiveStep, PreparedStep, Recalled
from whyrun.execution.protocol.messages import EarlierVersion, RequestRemembered, StepFinished
from whyrun.execution.recording.publisher import Publisher
from whyrun.execution.recording.totals import CompareCounts
from whyrun.execution.run.runner import Policy, Runner, Work
from whyrun.execution.run.step_outcomes import StepOutcomes
from whyrun.graph.tables import ArtifactAt, JobTable
from whyrun.log import events as ev
from whyrun.snapshot.records import Output, Records, run_name
from whyrun.snapshot.snapshot import PlanningSnapshot

NOTHING_BEFORE = "nothing to compare with"


class ComparedSteps:
    """The subjects of a comparison by node, the versions to compare with, and how many steps were equal."""

    def __init__(self, subjects: Sequence[Subject], records: Records, accept: bool) -> None:
        self.subjects = {subject.node: subject for subject in subjects}
        self.records, self.accept = records, accept
        self.earlier: dict[int, dict[str, EarlierVersion]] = {}  # node → output → recorded version
        self.identical = self.different = 0  # steps


class CompareRunner(Runner):
    gated = False

    def __init__(
        self, comparison: ComparedSteps, work: Work, policy: Policy, backend: Backend, publisher: Publisher
    ) -> None:
        self.comparison = comparison
        super().__init__(work, policy, backend, publisher)

    def make_outcomes(self, publisher: Publisher) -> CompareOutcomes:
        return CompareOutcomes(self.comparison, self.work.snapshot, publisher, self.backend.name)

    @property
    def counts(self) -> CompareCounts:
        comparison, not_comparable = self.comparison, self.states.totals["not_comparable"]
        return CompareCounts(
            **self.ended_counts(),
            identical=comparison.identical,
            different=comparison.different,
            not_comparable=not_comparable,
        )

    def from_run(self, node: int) -> str | None:
        record = self.comparison.records.steps.get(self.graph.job_id(node))
        return run_name(record.latest.run) if record is not None else None

    def examine(self, node: int) -> bool:
        """Everything is decided already, except whether the bytes still exist."""
        subject = self.comparison.subjects[node]
        table, position = self.graph.table_at(node)
        if subject.consumed.inactive:
            self.outcomes.inactive(table, position, subject.consumed)
            self.scheduler.move(node, "deactivate")
            return False
        reason = subject.not_comparable or self.lost_input(subject)
        if reason is not None:
            assert isinstance(self.outcomes, CompareOutcomes)
            self.outcomes.not_comparable(table, position, reason)
            self.scheduler.move(node, "exclude")
            return False
        if node not in self.retries.attempts:
            self.comparison.earlier[node] = self.earlier_versions(subject, table, position)
        job = self.jobs[node].id
        return self.submit(PreparedStep(job, node, table, position, subject.consumed, subject.fingerprint))

    def lost_input(self, subject: Subject) -> str | None:
        """Why the step cannot be executed: an input is neither in the store nor at its published path any more."""
        self.reusable.restore_inputs(subject.consumed)
        for entries in subject.consumed.entries.values():
            for entry in entries if isinstance(entries, list) else (entries,):
                if isinstance(entry.source, ArtifactAt) and entry.value is UNSET:
                    type_ = self.graph.tables[entry.source.table].artifacts[entry.source.artifact].type
                    if not self.reusable.has_or_restores(entry.sha256, type_, None):
                        return f"the bytes of {entry.id} are gone"
        return None

    def earlier_versions(self, subject: Subject, table: JobTable, position: int) -> dict[str, EarlierVersion]:
        """By output: the recorded versions. If the bytes of one are lost, its hash still tells whether it differs."""
        if subject.against is None:
            return {}
        recorded = {output.id: output for output in subject.against.outputs}
        versions: dict[str, EarlierVersion] = {}
        for a, spec in enumerate(table.artifacts):
            output = None if spec.is_leaf else recorded.get(table.artifact_id(a, position))
            if output is not None:
                run, lost = run_name(subject.against.source_of(output.id)[0]), not self.has_bytes(output)
                versions[spec.output] = EarlierVersion(output.id, output.sha256, output.type, run, lost)
        return versions

    def has_bytes(self, output: Output) -> bool:
        if output.value is not UNSET:  # the log has the value, even if its stored bytes are lost
            self.recorder.store.put_bytes(canonical_json(output.value))
        return self.reusable.has_or_restores(output.sha256, output.type, output.path, output.size)

    def versions_to_compare(self, node: int) -> Mapping[str, EarlierVersion]:
        return self.comparison.earlier.get(node, {})

    def recall(self, step: PreparedStep) -> Recalled:
        """Nothing: a remembered answer would be compared with itself."""
        del step
        return Recalled()

    def remember(self, active: ActiveStep, message: RequestRemembered) -> None:
        """Acknowledged but not recorded: no later step may resume a request of a comparison."""
        del active
        self.backend.acknowledge(message.step_id, message.key)


class CompareOutcomes(StepOutcomes):
    def __init__(
        self, comparison: ComparedSteps, snapshot: PlanningSnapshot, publisher: Publisher, backend: str
    ) -> None:
        super().__init__(snapshot, publisher, backend)
        self.comparison = comparison

    def published_at(self, table: JobTable, artifact: int, position: int) -> str | None:
        """Outputs are published only if they are accepted."""
        return super().published_at(table, artifact, position) if self.comparison.accept else None

    def not_comparable(self, table: JobTable, position: int, reason: str) -> None:
        self.recorder.event(ev.StepSkipped(step_id=table.job_id(position), why="not_comparable", reason=reason))
        self.lines.skips(table, position, f"not comparable: {reason}")

    def succeeded(self, active: ActiveStep, message: StepFinished) -> None:
        table, position = active.table, active.position
        earlier = self.comparison.earlier[active.node]
        against = self.comparison.subjects[active.node].against
        adopted = against.adopted if against is not None else {}
        for output, result in message.comparisons.items():
            self.recorder.event(
                ev.Comparison(
                    artifact=earlier[output].id,
                    status="IDENTICAL" if result.identical else "DIFFERENT",
                    against=earlier[output].from_run,
                    summary=result.summary,
                    details=list(result.details),
                    more=result.more,
                    adopted=earlier[output].id in adopted,
                )
            )
            if result.details:
                more = f"\n  … and {result.more} more" if result.more else ""
                details = "".join(f"\n  {detail}" for detail in result.details)
                self.recorder.debug(f"{earlier[output].id}: {result.summary}{details}{more}")
        if not message.comparisons:
            super().succeeded(active, message)
            return
        same = all(result.identical for result in message.comparisons.values())
        if same:
            self.comparison.identical += 1
        else:
            self.comparison.different += 1
        self.complete(active, message, "IDENTICAL" if same else "DIFFERENT")
        text = task_text(
            task_name(table, position),
            runtime=f"in {seconds(message.duration)}",
            outputs=_outputs_text(table, position, message.comparisons, adopted),
            details=["accepted"] if self.comparison.accept else [],
        )
        status = TaskStatus.IDENTICAL if same else TaskStatus.DIFFERENT
        self.recorder.status(table.decl.uses, status, text)


def _outputs_text(
    table: JobTable, position: int, comparisons: Mapping[str, Comparison], adopted: Container[str]
) -> str:
    """Each output with how it compares, those that differ first."""
    named = []
    for a, spec in enumerate(table.artifacts):
        if not spec.is_leaf:
            result = comparisons.get(spec.output)
            note = NOTHING_BEFORE if result is None else result.summary
            note += ", adopted before" if table.artifact_id(a, position) in adopted else ""
            named.append((result is None or result.identical, file_text(output_label(table, a, position), note)))
    return listed([text for _, text in sorted(named, key=lambda each: each[0])])
