"""`whyrun compare`: execute jobs again on their recorded inputs, and report how the new results differ.

This is a run of mode `compare`. It leaves the evidence of any run, but has no plan. Planning ignores it unless the new
results are accepted: then each counts as the latest success of its step, and is published.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from msgspec import UNSET

from whyrun.artifacts.compare.result import Comparison
from whyrun.artifacts.hashing import canonical_json
from whyrun.console.files import output_label
from whyrun.console.lines import TaskStatus, file_text, listed, seconds, task_text
from whyrun.console.preview import task_name
from whyrun.execution.backends.base import Backend
from whyrun.execution.backends.registry import RunOptions, backend_for
from whyrun.execution.compare.preview import ComparisonPreview, Subject, subjects_of
from whyrun.execution.dispatch.dispatch import ActiveStep, PreparedStep, Recalled
from whyrun.execution.dispatch.run_secrets import RunSecrets, needed_secrets
from whyrun.execution.dispatch.step_builder import manifest
from whyrun.execution.dispatch.watch import WatchPolicy
from whyrun.execution.protocol.messages import EarlierVersion, RequestRemembered, StepFinished
from whyrun.execution.recording.publisher import Publisher
from whyrun.execution.recording.recorded import RecordedArtifact, recorded_artifacts
from whyrun.execution.recording.recorder import Recorder, Reporter
from whyrun.execution.recording.totals import CompareCounts, Usage
from whyrun.execution.run.lifecycle import MANIFEST, FinishedRun, OnFinish, RunEnvironment, execute_run
from whyrun.execution.run.preflight import check_folders, check_limits, check_resources, resource_limits
from whyrun.execution.run.runner import Runner
from whyrun.execution.run.session import code_guard, repair_killed_run
from whyrun.execution.run.stages import Work
from whyrun.execution.run.step_outcomes import StepOutcomes
from whyrun.execution.run.termination import Interrupts, Policy
from whyrun.graph.tables import ArtifactAt, JobTable
from whyrun.ids import by_number
from whyrun.log import events as ev
from whyrun.log.journal import Clock, utc_now
from whyrun.log.lock import RunLock
from whyrun.log.runs import RunRef
from whyrun.planning.answers.listing import narrow_patterns
from whyrun.planning.id_matching import match_nodes
from whyrun.planning.plan import Plan, PlannedJob, PlanOptions
from whyrun.project import Project
from whyrun.snapshot.records import Output, Records, run_name
from whyrun.snapshot.snapshot import PlanningSnapshot

# --- the runner of a comparison ----------------------------------------------------------------------------------
#
# It executes each chosen step on recorded artifacts, and no step waits for another.
# Deadlines, retries, resources, interruption and evidence are those of any run. Unlike in other runs, the inputs of
# each step are known beforehand, nothing is reused or remembered, and the outcome of a step says how its outputs
# differ.


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
        wholes = {s.output: table.artifact_id(a, position) for a, s in enumerate(table.artifacts) if not s.is_leaf}
        made = {name: recorded[id_] for name, id_ in wholes.items() if id_ in recorded}
        versions = dict[str, EarlierVersion]()
        for key, one in recorded_artifacts(table, position, made).items():
            if (output := recorded.get(one.id)) is not None:
                run, lost = run_name(subject.against.source_of(output.id)[0]), not self.has_bytes(output)
                versions[key] = EarlierVersion(output.id, output.sha256, output.type, run, lost)
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

    def published_at(self, recorded: RecordedArtifact) -> str | None:
        """Outputs are published only if they are accepted."""
        return super().published_at(recorded) if self.comparison.accept else None

    def not_comparable(self, table: JobTable, position: int, reason: str) -> None:
        self.recorder.event(ev.StepSkipped(step_id=table.job_id(position), why="not_comparable", reason=reason))
        self.lines.skips(table, position, f"not comparable: {reason}")

    def succeeded(self, active: ActiveStep, message: StepFinished) -> None:
        table, position = active.table, active.position
        earlier = self.comparison.earlier[active.node]
        against = self.comparison.subjects[active.node].against
        decided = {id_: how for id_, (_, how) in (against.own_sources if against is not None else {}).items()}
        for output, result in message.comparisons.items():
            self.recorder.event(
                ev.Comparison(
                    artifact=earlier[output].id,
                    step_id=message.step_id if output.endswith("]") else None,
                    status="IDENTICAL" if result.identical else "DIFFERENT",
                    against=earlier[output].from_run,
                    summary=result.summary,
                    details=list(result.details),
                    more=result.more,
                    adopted=decided.get(earlier[output].id) == "adopted",
                    kept=decided.get(earlier[output].id) == "kept",
                )
            )
            if result.details:
                more = [f"… and {result.more} more"] if result.more else []
                self.recorder.debug("\n  ".join([f"{earlier[output].id}: {result.summary}", *result.details, *more]))
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
            outputs=_outputs_text(table, position, message.comparisons, decided),
            details=["accepted"] if self.comparison.accept else [],
        )
        status = TaskStatus.IDENTICAL if same else TaskStatus.DIFFERENT
        self.recorder.status(table.decl.uses, status, text)


def _outputs_text(
    table: JobTable, position: int, comparisons: Mapping[str, Comparison], decided: Mapping[str, str]
) -> str:
    """Each output with how it compares, those that differ first."""
    named = []
    for a, spec in enumerate(table.artifacts):
        if not spec.is_leaf:
            result = comparisons.get(spec.output)
            note = NOTHING_BEFORE if result is None else result.summary
            origin = decided.get(table.artifact_id(a, position))
            note += f", {origin} before" if origin is not None else ""
            named.append((result is None or result.identical, file_text(output_label(table, a, position), note)))
    return listed([text for _, text in sorted(named, key=lambda each: each[0])])


# --- the comparison ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """`ids`: jobs and artifacts, or patterns of them; empty: all jobs with a result. `against`: the run after which the
    recorded results are taken; None: the present ones."""

    ids: tuple[str, ...] = ()
    against: str | None = None
    accept: bool = False

    def to_json(self) -> dict[str, Any]:
        return {"ids": sorted(set(self.ids)), "against": self.against, "accept": self.accept}


@dataclass(frozen=True, slots=True)
class ComparedArtifact:
    artifact: str
    status: str  # IDENTICAL DIFFERENT
    against: str
    summary: str
    details: tuple[str, ...] = ()
    more: int = 0
    adopted: bool = False  # the recorded version was adopted; the job did not make it
    kept: bool = False  # the recorded version was kept after a change

    def to_json(self) -> dict[str, Any]:
        fields = {**asdict(self), "details": list(self.details)}
        return {name: value for name, value in fields.items() if value or name not in ("adopted", "kept")}


@dataclass(frozen=True, slots=True, repr=False)
class CompareResult:
    """What a comparison found. `run` is None if there was nothing to compare: then no run folder was made."""

    run: str | None
    state: str  # succeeded failed interrupted, or nothing
    exit_code: int
    counts: CompareCounts
    duration: float
    artifacts: tuple[ComparedArtifact, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)  # job → why
    executed: tuple[str, ...] = ()  # jobs without a recorded result
    accepted: tuple[str, ...] = ()  # jobs whose new results are the latest now
    outdated: tuple[str, ...] = ()  # identical jobs that are not up to date, because their action has changed
    usage: Usage = field(default_factory=Usage)

    @property
    def statuses(self) -> dict[str, int]:
        """How many jobs ended with which status. Interrupted and unstarted jobs have none; see `counts`."""
        counts = self.counts
        numbers = {
            TaskStatus.IDENTICAL: counts.identical,
            TaskStatus.DIFFERENT: counts.different,
            TaskStatus.EXECUTES: counts.completed - counts.identical - counts.different,
            TaskStatus.SKIPS: counts.inactive + counts.not_comparable,
            TaskStatus.FAILED: counts.failed,
            TaskStatus.TIMED_OUT: counts.timed_out,
        }
        return {status.value: number for status, number in numbers.items() if number}

    def __repr__(self) -> str:
        if self.run is None:
            return "<whyrun: nothing to compare>"
        counts = [f"{number} {name.replace('_', ' ')}" for name, number in self.counts.to_json().items() if number]
        return f"<whyrun {self.run} {self.state} in {seconds(self.duration)}: {', '.join(counts)}>"

    def to_json(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "state": self.state,
            "exit_code": self.exit_code,
            "counts": self.counts.to_json(),
            "statuses": self.statuses,
            "duration": round(self.duration, 3),
            "artifacts": [artifact.to_json() for artifact in self.artifacts],
            "skipped": dict(self.skipped),
            "executed": list(self.executed),
            "accepted": list(self.accepted),
            "outdated": list(self.outdated),
            **self.usage.to_json(),
        }


def compare_workflow(
    project: Project,
    compare: CompareOptions,
    options: RunOptions,
    reporter: Reporter,
    *,
    backend: Backend | None = None,
    on_subjects: Callable[[ComparisonPreview], None] | None = None,
    clock: Clock = utc_now,
) -> CompareResult:
    """`on_subjects` gets what will be compared before any step starts."""
    project.config, project.graph, project.actions  # noqa: B018  # report every error before taking the lock
    limits = resource_limits(project, options)
    check_limits(project, options.limits or {})
    graph = project.settled_graph()
    for text in compare.ids:
        match_nodes(graph, text)
    with (
        OnFinish(project.config.on_finish, project.folder, reporter) as on_finish,
        RunLock.of(project.state, clock) as lock,
    ):
        repair_killed_run(project, lock, reporter.note, clock)
        snapshot = project.snapshot()
        records, subjects = subjects_of(project, snapshot, compare.ids, compare.against)
        if on_subjects is not None:
            on_subjects(ComparisonPreview(snapshot, subjects))
        for note in narrow_patterns(snapshot.dependency_graph, compare.ids):
            reporter.note(note)
        if not subjects:
            return CompareResult(None, "nothing", 0, CompareCounts(), 0.0)
        executing, rates = [subject.node for subject in subjects if subject.executes], project.config.rates
        check_resources(snapshot, executing, limits, rates)
        if compare.accept:  # else nothing is published
            check_folders(project.folder, project.graph, executing)
        secrets = needed_secrets(project, snapshot, executing)
        with Interrupts() as interrupts:
            chosen = backend or backend_for(options, project.graph, executing)
            policy = Policy(limits, options.fail_fast, options.grace, WatchPolicy(project.config.trace), None, rates)
            spec = ComparisonRun(project, snapshot, subjects, records, compare, secrets, policy, executing)
            environment = RunEnvironment(project, reporter, clock, lock, chosen, interrupts, options.jobs, on_finish)
            run = execute_run(spec, environment)
    assert isinstance(run.runner, CompareRunner)
    return _result(project.state.run(run.run), run, run.runner, compare)


@dataclass(frozen=True, slots=True)
class ComparisonRun:
    """Executes the subjects of a comparison: the `RunSpec` of `whyrun compare`."""

    project: Project
    snapshot: PlanningSnapshot
    subjects: Sequence[Subject]
    records: Records
    compare: CompareOptions
    secrets: RunSecrets
    policy: Policy
    executed: Sequence[int]  # nodes

    @property
    def mode(self) -> Literal["compare"]:
        return "compare"

    @property
    def options(self) -> Mapping[str, Any]:
        return {**self.compare.to_json(), "fail_fast": self.policy.fail_fast}

    @property
    def total(self) -> int:
        return len(self.subjects)

    def run_files(self) -> dict[str, bytes]:
        shown = ((subject.node, subject.consumed.shown) for subject in self.subjects if subject.executes)
        return {MANIFEST: manifest(self.snapshot.dependency_graph, shown, self.snapshot.actions)}

    def record_start(self, recorder: Recorder) -> None:
        """A comparison records neither inputs nor a plan."""

    def runner(self, backend: Backend, publisher: Publisher) -> CompareRunner:
        code = code_guard(self.project, self.snapshot)
        work = Work(self.snapshot, _as_plan(self.snapshot, self.subjects), code, self.secrets)
        comparison = ComparedSteps(self.subjects, self.records, self.compare.accept)
        return CompareRunner(comparison, work, self.policy, backend, publisher)


def _as_plan(snapshot: PlanningSnapshot, subjects: Sequence[Subject]) -> Plan:
    """The subjects in the form that the runner takes. Nothing in it was judged, and it is never written."""
    graph = snapshot.dependency_graph
    jobs = []
    for subject in subjects:
        table, position = graph.table_at(subject.node)
        jobs.append(PlannedJob(table.job_id(position), table.decl.uses, 0, "planned", node=subject.node))
    return Plan(graph.workflow.name, snapshot.log_position, PlanOptions(), {}, {}, tuple(jobs))


def _result(run: RunRef, finished: FinishedRun, runner: CompareRunner, compare: CompareOptions) -> CompareResult:
    """The result as the log has it."""
    artifacts: list[ComparedArtifact] = []
    skipped: dict[str, str] = {}
    executed: list[str] = []
    completed: dict[str, str] = {}  # job → status
    for event in run.events():
        match event:
            case ev.Comparison():
                fields = (event.artifact, event.status, event.against, event.summary, tuple(event.details), event.more)
                artifacts.append(ComparedArtifact(*fields, event.adopted, event.kept))
            case ev.StepSkipped():
                skipped[event.step_id] = event.reason or event.why.replace("_", " ")
            case ev.StepComplete():
                completed[event.step_id] = event.status
                if event.status == "EXECUTES":
                    executed.append(event.step_id)
    return CompareResult(
        run=run.name,
        state=finished.state,
        exit_code=finished.exit_code,
        counts=runner.counts,
        duration=finished.duration,
        artifacts=tuple(sorted(artifacts, key=lambda each: by_number(each.artifact))),
        skipped=dict(sorted(skipped.items())),
        executed=tuple(sorted(executed)),
        accepted=tuple(sorted(completed)) if compare.accept else (),
        outdated=tuple(sorted(_outdated(runner, completed))) if compare == CompareOptions(compare.ids) else (),
        usage=runner.usage,
    )


def _outdated(runner: CompareRunner, completed: Mapping[str, str]) -> Iterator[str]:
    """Identical jobs whose recorded result has another fingerprint than the job has now."""
    for subject in runner.comparison.subjects.values():
        job = runner.graph.job_id(subject.node)
        made_by = subject.fingerprint if subject.against is None else subject.against.fingerprint
        if completed.get(job) == "IDENTICAL" and made_by != subject.fingerprint:
            yield job
