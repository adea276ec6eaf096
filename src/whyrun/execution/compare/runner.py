"""The runner of a comparison: it executes each chosen step on recorded artifacts, and nothing waits for another.

Deadlines, retries, resources, interruption and evidence are those of any run. What differs: what a step consumes is
known beforehand, nothing is reused or remembered, and the end of a step says what differs.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from msgspec import UNSET

from whyrun.artifacts.compare.result import Comparison
from whyrun.artifacts.hashing import canonical_json
from whyrun.console.files import output_label
from whyrun.console.foretold import task_name
from whyrun.console.lines import TaskStatus, file_text, listed, seconds, task_text
from whyrun.execution.commands import EarlierVersion, RequestRemembered, StepFinished
from whyrun.execution.comparable import Subject
from whyrun.execution.counts import CompareCounts
from whyrun.execution.endings import Active, Endings
from whyrun.execution.handing import Recalled
from whyrun.execution.runner import Runner
from whyrun.graph.graph import ArtifactAt, JobTable
from whyrun.log import events as ev
from whyrun.snapshot.records import Output, Records, run_name

NOTHING_BEFORE = "nothing to compare with"


class CompareRunner(Runner):
    gated = False

    def __init__(self, *, subjects: Sequence[Subject], records: Records, accept: bool, **rest: Any) -> None:
        super().__init__(**rest)
        self.subjects = {subject.node: subject for subject in subjects}
        self.records = records
        self.counts: CompareCounts = CompareCounts()
        self.to_compare: dict[int, dict[str, EarlierVersion]] = {}
        self.endings: CompareEndings = CompareEndings(self, accept)

    def from_run(self, node: int) -> str | None:
        record = self.records.steps.get(self.graph.job_id(node))
        return run_name(record.latest.run) if record is not None else None

    def examine(self, node: int) -> bool:
        """Like that of any run, with everything decided already but whether the bytes are still to be had."""
        subject = self.subjects[node]
        table, position = self.graph.table_at(node)
        if subject.found.inactive:
            self.endings.inactive(table, position, subject.found)
            self.counts.inactive += 1
            self.end(node, "inactive")
            return False
        why = subject.not_comparable or self.lost_input(subject)
        if why is not None:
            self.endings.not_comparable(table, position, why)
            self.counts.not_comparable += 1
            self.end(node, "inactive")
            return False
        if node not in self.attempts:
            self.to_compare[node] = self.earlier_versions(subject, table, position)
        return self.submit(node, table, position, subject.found, subject.fingerprint)

    def lost_input(self, subject: Subject) -> str | None:
        """An artifact that it consumes, and whose bytes are neither stored nor at their path any more."""
        self.earlier.put_back(subject.found)
        for entries in subject.found.entries.values():
            for entry in entries if isinstance(entries, list) else (entries,):
                if isinstance(entry.source, ArtifactAt) and entry.value is UNSET:
                    type_ = self.graph.tables[entry.source.table].artifacts[entry.source.artifact].type
                    if not self.earlier.is_there(entry.sha256, type_, None):
                        return f"the bytes of {entry.id} are gone"
        return None

    def earlier_versions(self, subject: Subject, table: JobTable, position: int) -> dict[str, EarlierVersion]:
        """By output: the recorded versions. Of one whose bytes are gone the hash still tells whether it differs."""
        if subject.against is None:
            return {}
        recorded = {output.id: output for output in subject.against.outputs}
        found: dict[str, EarlierVersion] = {}
        for a, spec in enumerate(table.artifacts):
            output = None if spec.is_leaf else recorded.get(table.artifact_id(a, position))
            if output is not None:
                run, gone = run_name(subject.against.source_of(output.id)[0]), not self.has_bytes(output)
                found[spec.output] = EarlierVersion(output.id, output.sha256, output.type, run, gone)
        return found

    def has_bytes(self, output: Output) -> bool:
        if output.value is not UNSET:  # it stands in the log, whatever became of its stored bytes
            self.recorder.store.put_bytes(canonical_json(output.value))
        return self.earlier.is_there(output.sha256, output.type, output.path, output.size)

    def recalled(self, node: int, step: str, fingerprint: str) -> Recalled:
        del node, step, fingerprint
        return Recalled()  # a comparison asks anew: an answer that was remembered would be compared with itself

    def remember(self, active: Active, message: RequestRemembered) -> None:
        """Acknowledged and not kept: what a comparison asked for is nobody's to pick up again."""
        del active
        self.backend.acknowledge(message.step_id, message.key)


class CompareEndings(Endings):
    def __init__(self, runner: CompareRunner, accept: bool) -> None:
        super().__init__(runner.snapshot, runner.recorder, runner.earlier.publisher, runner.backend.name)
        self.runner, self.accept = runner, accept

    def place_of(self, table: JobTable, artifact: int, position: int) -> str | None:
        """Nothing is published, unless it is accepted."""
        return super().place_of(table, artifact, position) if self.accept else None

    def not_comparable(self, table: JobTable, position: int, why: str) -> None:
        self.recorder.event(ev.StepSkipped(step_id=table.job_id(position), why="not_comparable", reason=why))
        self.lines.skips(table, position, f"not comparable: {why}")

    def succeeded(self, active: Active, message: StepFinished) -> None:
        table, position = active.table, active.position
        earlier = self.runner.to_compare[active.node]
        against = self.runner.subjects[active.node].against
        adopted = against.adopted if against is not None else {}
        for output, found in message.comparisons.items():
            self.recorder.event(
                ev.Comparison(
                    artifact=earlier[output].id,
                    status="IDENTICAL" if found.identical else "DIFFERENT",
                    against=earlier[output].from_run,
                    summary=found.summary,
                    details=list(found.details),
                    more=found.more,
                    adopted=earlier[output].id in adopted,
                )
            )
            if found.details:
                more = f"\n  … and {found.more} more" if found.more else ""
                details = "".join(f"\n  {detail}" for detail in found.details)
                self.recorder.debug(f"{earlier[output].id}: {found.summary}{details}{more}")
        if not message.comparisons:
            super().succeeded(active, message)
            return
        counts = self.runner.counts
        same = all(found.identical for found in message.comparisons.values())
        if same:
            counts.identical += 1
        else:
            counts.different += 1
        self.complete(active, message, "IDENTICAL" if same else "DIFFERENT")
        text = task_text(
            task_name(table, position),
            runtime=f"in {seconds(message.duration)}",
            outputs=_outputs_text(table, position, message.comparisons, adopted),
            details=["accepted"] if self.accept else [],
        )
        status = TaskStatus.IDENTICAL if same else TaskStatus.DIFFERENT
        self.recorder.status(table.decl.uses, status, text)


def _outputs_text(
    table: JobTable, position: int, comparisons: Mapping[str, Comparison], adopted: Container[str]
) -> str:
    """Each output with what is to be said of it, those that differ first."""
    named = []
    for a, spec in enumerate(table.artifacts):
        if not spec.is_leaf:
            found = comparisons.get(spec.output)
            note = NOTHING_BEFORE if found is None else found.summary
            note += ", adopted before" if table.artifact_id(a, position) in adopted else ""
            named.append((found is None or found.identical, file_text(output_label(table, a, position), note)))
    return listed([text for _, text in sorted(named, key=lambda each: each[0])])
