"""`compare`: execute again what has a result, on the recorded artifacts, and say what differs.

A run of mode `compare`, with the evidence of any run but a plan. Planning does not see it, unless its new results are
accepted: then each counts as the latest success of its step, and is published.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from whyrun.artifacts.hashing import canonical_json
from whyrun.console.lines import TaskStatus, seconds
from whyrun.execution.backends.local import LocalBackend
from whyrun.execution.commands import Backend
from whyrun.execution.comparable import Subject, find_subjects
from whyrun.execution.compare_runner import CompareRunner
from whyrun.execution.conduct import Conducted, Surroundings, Undertaking, conduct
from whyrun.execution.counts import CompareCounts
from whyrun.execution.interrupts import Interrupts
from whyrun.execution.on_finish import OnFinish
from whyrun.execution.prepare import manifest
from whyrun.execution.recorder import Reporter
from whyrun.execution.session import (
    RunOptions,
    check_limits,
    check_resources,
    code_guard,
    needed_secrets,
    repaired,
)
from whyrun.execution.usage import Usage
from whyrun.log import events as ev
from whyrun.log.journal import Clock, utc_now
from whyrun.log.lock import RunLock
from whyrun.log.runs import RunRef
from whyrun.planning.plan import Plan, PlannedJob, PlanOptions, match_nodes
from whyrun.snapshot.records import Records
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

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "details": list(self.details)}


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
            **self.usage.to_json(),
        }


def compare_workflow(
    world: World,
    compare: CompareOptions,
    options: RunOptions,
    reporter: Reporter,
    *,
    backend: Backend | None = None,
    on_subjects: Callable[[Sequence[Subject], PlanningSnapshot], None] | None = None,
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
        RunLock(world.state.lock_path, clock) as lock,
    ):
        repaired(world, lock, reporter, clock)
        snapshot = world.snapshot()
        records, subjects = _subjects(world, snapshot, compare)
        if on_subjects is not None:
            on_subjects(subjects, snapshot)
        if not subjects:
            return CompareResult(None, "nothing", 0, CompareCounts(), 0.0)
        executing = [subject.node for subject in subjects if subject.executes]
        check_resources(snapshot, executing, limits)
        secrets = needed_secrets(snapshot, executing)
        with Interrupts() as interrupts:
            place = backend or LocalBackend()
            undertaking = Undertaking(
                mode="compare",
                options={**compare.to_json(), "fail_fast": options.fail_fast},
                manifest=_manifest(snapshot, subjects),
                files={},
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
                ),
            )
            around = Surroundings(world, reporter, clock, lock, place, interrupts, options.jobs, on_finish)
            done = conduct(undertaking, around)
    assert isinstance(done.runner, CompareRunner)
    return _result(world.state.run(done.run), done, done.runner)


def _subjects(world: World, snapshot: PlanningSnapshot, compare: CompareOptions) -> tuple[Records, Sequence[Subject]]:
    """With the records that they are compared with: of now, or as they were after an earlier run."""
    if compare.against is None:
        records, log = snapshot.records, world.history()
    else:
        log = world.history(through=world.state.run(compare.against).number)
        records = log.records
    return records, find_subjects(snapshot, records, log, compare.ids)


def _manifest(snapshot: PlanningSnapshot, subjects: Sequence[Subject]) -> bytes:
    bindings = {subject.node: subject.found.shown for subject in subjects if subject.executes}
    return canonical_json(manifest(snapshot.dependency_graph, bindings, snapshot.actions))


def _as_plan(snapshot: PlanningSnapshot, subjects: Sequence[Subject]) -> Plan:
    """What the runner goes through. It is no plan: nothing of it was judged, and it is written nowhere."""
    graph = snapshot.dependency_graph
    jobs = []
    for subject in subjects:
        table, position = graph.table_at(subject.node)
        jobs.append(PlannedJob(table.job_id(position), table.decl.uses, 0, "planned", node=subject.node))
    return Plan(graph.workflow.name, snapshot.log_position, PlanOptions(), {}, {}, tuple(jobs))


def _result(run: RunRef, done: Conducted, runner: CompareRunner) -> CompareResult:
    """From the log: it is the truth, also about what was found."""
    artifacts: list[ComparedArtifact] = []
    skipped: dict[str, str] = {}
    executed: list[str] = []
    for event in run.events():
        match event:
            case ev.Comparison():
                found = (event.artifact, event.status, event.against, event.summary, tuple(event.details), event.more)
                artifacts.append(ComparedArtifact(*found))
            case ev.StepSkipped():
                skipped[event.step_id] = event.reason or event.why.replace("_", " ")
            case ev.StepComplete() if event.status == "EXECUTES":
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
        usage=runner.usage,
    )
