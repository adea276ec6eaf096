"""`whyrun compare`: execute jobs again on their recorded inputs, and report how the new results differ.

This is a run of mode `compare`. It leaves the evidence of any run, but has no plan. Planning ignores it unless the new
results are accepted: then each counts as the latest success of its step, and is published.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from whyrun.console.lines import TaskStatus, seconds
from whyrun.execution.backends.base import Backend
from whyrun.execution.backends.registry import backend_for
from whyrun.execution.compare.comparable import Subject
from whyrun.execution.compare.preview import ComparisonPreview, subjects_of
from whyrun.execution.compare.runner import ComparedSteps, CompareRunner
from whyrun.execution.dispatch.run_secrets import RunSecrets, needed_secrets
from whyrun.execution.dispatch.step_builder import manifest
from whyrun.execution.protocol.run_options import RunOptions
from whyrun.execution.recording.publisher import Publisher
from whyrun.execution.recording.recorder import Recorder, Reporter
from whyrun.execution.recording.totals import CompareCounts, Usage
from whyrun.execution.run.lifecycle import MANIFEST, FinishedRun, RunEnvironment, execute_run
from whyrun.execution.run.on_finish import OnFinish
from whyrun.execution.run.preflight import check_folders, check_limits, check_resources, resource_limits
from whyrun.execution.run.runner import Policy, Work
from whyrun.execution.run.session import code_guard, repair_killed_run
from whyrun.execution.run.termination import Interrupts
from whyrun.log import events as ev
from whyrun.log.journal import Clock, utc_now
from whyrun.log.lock import RunLock
from whyrun.log.runs import RunRef
from whyrun.planning.plan import Plan, PlannedJob, PlanOptions, match_nodes
from whyrun.project import Project
from whyrun.snapshot.records import Records
from whyrun.snapshot.snapshot import PlanningSnapshot


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

    def to_json(self) -> dict[str, Any]:
        fields = {**asdict(self), "details": list(self.details)}
        return fields if self.adopted else {name: value for name, value in fields.items() if name != "adopted"}


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
        counts = [f"{number} {name.replace('_', ' ')}" for name, number in asdict(self.counts).items() if number]
        return f"<whyrun {self.run} {self.state} in {seconds(self.duration)}: {', '.join(counts)}>"

    def to_json(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "state": self.state,
            "exit_code": self.exit_code,
            "counts": asdict(self.counts),
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
    for text in compare.ids:
        match_nodes(project.graph, text)
    with (
        OnFinish(project.config.on_finish, project.folder, reporter) as on_finish,
        RunLock.of(project.state, clock) as lock,
    ):
        repair_killed_run(project, lock, reporter, clock)
        snapshot = project.snapshot()
        records, subjects = subjects_of(project, snapshot, compare.ids, compare.against)
        if on_subjects is not None:
            on_subjects(ComparisonPreview(snapshot, subjects))
        if not subjects:
            return CompareResult(None, "nothing", 0, CompareCounts(), 0.0)
        executing = [subject.node for subject in subjects if subject.executes]
        check_resources(snapshot, executing, limits)
        if compare.accept:  # else nothing is published
            check_folders(project, executing)
        secrets = needed_secrets(project, snapshot, executing)
        with Interrupts() as interrupts:
            chosen = backend or backend_for(options, project.graph, executing)
            policy = Policy(limits, options.fail_fast, options.grace)
            spec = ComparisonRun(project, snapshot, subjects, records, compare, secrets, policy)
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
        bindings = ((subject.node, subject.consumed.shown) for subject in self.subjects if subject.executes)
        return {MANIFEST: manifest(self.snapshot.dependency_graph, bindings, self.snapshot.actions)}

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
                artifacts.append(ComparedArtifact(*fields, event.adopted))
            case ev.StepSkipped():
                skipped[event.step_id] = event.reason or event.why.replace("_", " ")
            case ev.StepComplete():
                completed[event.step_id] = event.status
                if event.status == "EXECUTES":
                    executed.append(event.step_id)
            case _:
                continue
    return CompareResult(
        run=run.name,
        state=finished.state,
        exit_code=finished.exit_code,
        counts=runner.counts,
        duration=finished.duration,
        artifacts=tuple(sorted(artifacts, key=lambda each: each.artifact)),
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
