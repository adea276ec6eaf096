"""`compare`: execute again what has a result, on the recorded artifacts, and say what differs.

A run of mode `compare`, with the evidence of any run but a plan. Planning does not see it, unless its new results are
accepted: then each counts as the latest success of its step, and is published.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from whyrun.console.lines import TaskStatus, seconds
from whyrun.execution.backends.choose import place_for
from whyrun.execution.checks import RunOptions, check_folders, check_limits, check_resources
from whyrun.execution.commands import Backend
from whyrun.execution.comparable import Subject
from whyrun.execution.compare_foretold import Foretold, subjects_of
from whyrun.execution.compare_runner import CompareRunner
from whyrun.execution.conduct import MANIFEST, Conducted, Surroundings, Undertaking, conduct
from whyrun.execution.counts import CompareCounts
from whyrun.execution.interrupts import Interrupts
from whyrun.execution.on_finish import OnFinish
from whyrun.execution.prepare import manifest
from whyrun.execution.recorder import Reporter
from whyrun.execution.run_secrets import needed_secrets
from whyrun.execution.session import code_guard, repaired
from whyrun.execution.usage import Usage
from whyrun.log import events as ev
from whyrun.log.journal import Clock, utc_now
from whyrun.log.lock import RunLock
from whyrun.log.runs import RunRef
from whyrun.planning.plan import Plan, PlannedJob, PlanOptions, match_nodes
from whyrun.snapshot.snapshot import PlanningSnapshot
from whyrun.snapshot.world import World


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """`ids`: jobs and artifacts, or patterns of them; none: all that have a result. `against`: as of which run."""

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
    adopted: bool = False  # what it was compared with is nothing that the job has made

    def to_json(self) -> dict[str, Any]:
        found = {**asdict(self), "details": list(self.details)}
        return found if self.adopted else {k: v for k, v in found.items() if k != "adopted"}


@dataclass(frozen=True, slots=True, repr=False)
class CompareResult:
    """What a comparison found. `run` is None where there was nothing to compare: then no run folder was made."""

    run: str | None
    state: str  # succeeded failed interrupted, or nothing
    exit_code: int
    counts: CompareCounts
    duration: float
    artifacts: tuple[ComparedArtifact, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)  # job → why
    executed: tuple[str, ...] = ()  # jobs for which there was nothing to compare with
    accepted: tuple[str, ...] = ()  # jobs whose new results count as the latest now
    outdated: tuple[str, ...] = ()  # jobs that came out the same, and are not up to date: their action has changed
    usage: Usage = field(default_factory=Usage)

    @property
    def statuses(self) -> dict[str, int]:
        """How many jobs ended with which status; what was interrupted or not started is counted apart."""
        counts = self.counts
        found = {
            TaskStatus.IDENTICAL: counts.identical,
            TaskStatus.DIFFERENT: counts.different,
            TaskStatus.EXECUTES: counts.completed - counts.identical - counts.different,
            TaskStatus.SKIPS: counts.inactive + counts.not_comparable,
            TaskStatus.FAILED: counts.failed,
            TaskStatus.TIMED_OUT: counts.timed_out,
        }
        return {status.value: number for status, number in found.items() if number}

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
    world: World,
    compare: CompareOptions,
    options: RunOptions,
    reporter: Reporter,
    *,
    backend: Backend | None = None,
    on_subjects: Callable[[Foretold], None] | None = None,
    clock: Clock = utc_now,
) -> CompareResult:
    """`on_subjects` is told what will be compared before anything is executed."""
    world.config, world.graph, world.actions  # noqa: B018  # all that is invalid is found before the lock is taken
    limits = {**(world.config.resources or {}), **(options.limits or {})}
    check_limits(world, options.limits or {})
    for text in compare.ids:
        match_nodes(world.graph, text)
    with (
        OnFinish(world.config.on_finish, world.project, reporter) as on_finish,
        RunLock.of(world.state, clock) as lock,
    ):
        repaired(world, lock, reporter, clock)
        snapshot = world.snapshot()
        records, subjects = subjects_of(world, snapshot, compare.ids, compare.against)
        if on_subjects is not None:
            on_subjects(Foretold(snapshot, subjects))
        if not subjects:
            return CompareResult(None, "nothing", 0, CompareCounts(), 0.0)
        executing = [subject.node for subject in subjects if subject.executes]
        check_resources(snapshot, executing, limits)
        if compare.accept:  # else nothing is published
            check_folders(world, executing)
        secrets = needed_secrets(world, snapshot, executing)
        with Interrupts() as interrupts:
            place = backend or place_for(options, world.graph, executing)
            undertaking = Undertaking(
                mode="compare",
                options={**compare.to_json(), "fail_fast": options.fail_fast},
                papers=lambda: {MANIFEST: _manifest(snapshot, subjects)},
                total=len(subjects),
                begin=lambda recorder: None,
                runner=lambda recorder, publisher: CompareRunner(
                    subjects=subjects,
                    records=records,
                    accept=compare.accept,
                    snapshot=snapshot,
                    plan=_as_plan(snapshot, subjects),
                    backend=place,
                    recorder=recorder,
                    publisher=publisher,
                    code=code_guard(world, snapshot),
                    limits=limits,
                    secrets=secrets,
                    fail_fast=options.fail_fast,
                    grace=options.grace,
                ),
                secrets=secrets,
            )
            around = Surroundings(world, reporter, clock, lock, place, interrupts, options.jobs, on_finish)
            done = conduct(undertaking, around)
    assert isinstance(done.runner, CompareRunner)
    return _result(world.state.run(done.run), done, done.runner, compare)


def _manifest(snapshot: PlanningSnapshot, subjects: Sequence[Subject]) -> bytes:
    bindings = ((subject.node, subject.found.shown) for subject in subjects if subject.executes)
    return manifest(snapshot.dependency_graph, bindings, snapshot.actions)


def _as_plan(snapshot: PlanningSnapshot, subjects: Sequence[Subject]) -> Plan:
    """What the runner goes through. It is no plan: nothing of it was judged, and it is written nowhere."""
    graph = snapshot.dependency_graph
    jobs = []
    for subject in subjects:
        table, position = graph.table_at(subject.node)
        jobs.append(PlannedJob(table.job_id(position), table.decl.uses, 0, "planned", node=subject.node))
    return Plan(graph.workflow.name, snapshot.log_position, PlanOptions(), {}, {}, tuple(jobs))


def _result(run: RunRef, done: Conducted, runner: CompareRunner, compare: CompareOptions) -> CompareResult:
    """From the log: it is the truth, also about what was found."""
    artifacts: list[ComparedArtifact] = []
    skipped: dict[str, str] = {}
    executed: list[str] = []
    completed: dict[str, str] = {}  # job → status
    for event in run.events():
        match event:
            case ev.Comparison():
                found = (event.artifact, event.status, event.against, event.summary, tuple(event.details), event.more)
                artifacts.append(ComparedArtifact(*found, event.adopted))
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
        state=done.state,
        exit_code=done.exit_code,
        counts=runner.counts,
        duration=done.duration,
        artifacts=tuple(sorted(artifacts, key=lambda each: each.artifact)),
        skipped=dict(sorted(skipped.items())),
        executed=tuple(sorted(executed)),
        accepted=tuple(sorted(completed)) if compare.accept else (),
        outdated=tuple(sorted(_outdated(runner, completed))) if compare == CompareOptions(compare.ids) else (),
        usage=runner.usage,
    )


def _outdated(runner: CompareRunner, completed: Mapping[str, str]) -> Iterator[str]:
    """The jobs that came out the same, although what the standing result was made by is not what would make it now."""
    for subject in runner.subjects.values():
        job = runner.graph.job_id(subject.node)
        made_by = subject.fingerprint if subject.against is None else subject.against.fingerprint
        if completed.get(job) == "IDENTICAL" and made_by != subject.fingerprint:
            yield job
