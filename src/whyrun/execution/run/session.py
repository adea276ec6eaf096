"""One run from beginning to end: lock, repair, plan, execute, and the evidence complete whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from whyrun.artifacts.durable import remove_half_written
from whyrun.artifacts.store import Store
from whyrun.console.files import input_size
from whyrun.console.lines import TaskStatus, count, seconds
from whyrun.errors import error
from whyrun.execution.backends.choose import place_for
from whyrun.execution.checks import (
    RunOptions,
    check_folders,
    check_limits,
    check_resources,
    resource_limits,
    unlimited_resources,
)
from whyrun.execution.code_guard import CodeGuard
from whyrun.execution.commands import Backend
from whyrun.execution.composed import composition_section, keep_datasets
from whyrun.execution.conduct import MANIFEST, Surroundings, Undertaking, conduct
from whyrun.execution.counts import RunCounts
from whyrun.execution.interrupts import Interrupts
from whyrun.execution.leftovers import complete_killed_run
from whyrun.execution.named_code import NamedCode
from whyrun.execution.on_finish import OnFinish
from whyrun.execution.prepare import manifest
from whyrun.execution.recorder import Recorder, Reporter
from whyrun.execution.run_secrets import RunSecrets, needed_secrets
from whyrun.execution.run_sharing import Traffic
from whyrun.execution.runner import Runner
from whyrun.execution.scratch import remove_scratch_folders
from whyrun.execution.usage import Usage
from whyrun.graph.graph import InputAt
from whyrun.log import events as ev
from whyrun.log.journal import utc_now
from whyrun.log.lock import RunLock
from whyrun.log.pruned_folders import remove_pruned_folders
from whyrun.log.repair import RepairReport, repair
from whyrun.log.runs import WorkflowState
from whyrun.planning.consume import is_small
from whyrun.planning.plan import Plan, PlanOptions, compute_execution_plan
from whyrun.snapshot.replay import snapshot_blob
from whyrun.snapshot.snapshot import PlanningSnapshot, changed_inputs, leaf_inputs
from whyrun.snapshot.world import World

if TYPE_CHECKING:
    from whyrun.execution.sharing import Sharing

Clock = Callable[[], datetime]
STORE_LEFTOVERS = 86400.0  # seconds: a half-written blob that nobody has touched for so long has no writer any more
DIFFERENCES = 5  # between a saved plan and the present one that are told


@dataclass(frozen=True, slots=True, repr=False)
class RunResult:
    """What a run did. `run` is None where there was nothing to do: then no run folder was made."""

    run: str | None
    plan: Plan
    state: str  # succeeded failed interrupted, or nothing
    exit_code: int
    counts: RunCounts
    duration: float
    repaired: RepairReport | None = None
    usage: Usage = field(default_factory=Usage)
    shared: Traffic | None = None  # with the shared store, where the project has one

    @property
    def statuses(self) -> dict[str, int]:
        """How many jobs ended with which status, as their lines have it. What is up to date, blocked or interrupted is
        counted apart too, in `counts` and the plan's totals."""
        counts, totals = self.counts, self.plan.totals
        idle = totals["clean"] + totals["inactive"]
        found = {
            TaskStatus.EXECUTES: counts.completed,
            TaskStatus.SKIPS: counts.reused + counts.inactive + counts.blocked + idle,
            TaskStatus.FAILED: counts.failed + counts.interrupted,
            TaskStatus.TIMED_OUT: counts.timed_out,
        }
        return {status.value: number for status, number in found.items() if number}

    def __repr__(self) -> str:
        if self.run is None:
            return f"<whyrun: nothing to do, {self.plan.totals['clean']} of {self.plan.totals['jobs']} jobs up to date>"
        counts = [f"{number} {name.replace('_', ' ')}" for name, number in asdict(self.counts).items() if number]
        return f"<whyrun {self.run} {self.state} in {seconds(self.duration)}: {', '.join(counts)}>"

    def to_json(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "state": self.state,
            "exit_code": self.exit_code,
            "counts": asdict(self.counts),
            "statuses": self.statuses,
            "totals": dict(self.plan.totals),
            "duration": round(self.duration, 3),
            "plan_digest": self.plan.digest,
            **self.usage.to_json(),
            **({"shared_store": self.shared.to_json()} if self.shared is not None else {}),
        }


def run_workflow(
    world: World,
    plan_options: PlanOptions,
    options: RunOptions,
    reporter: Reporter,
    *,
    saved_plan: Mapping[str, Any] | None = None,
    backend: Backend | None = None,
    on_plan: Callable[[Plan, PlanningSnapshot], None] | None = None,
    clock: Clock = utc_now,
) -> RunResult:
    """Plan and execute. With `saved_plan` (as written) the plan must be that one, or it is `PLAN_STALE`.

    `on_plan` is told the plan before anything of it is executed.
    """
    world.config, world.graph, world.actions  # noqa: B018  # all that is invalid is found before the lock is taken
    limits = resource_limits(world, options)
    check_limits(world, options.limits or {})
    with (
        OnFinish(world.config.on_finish, world.project, reporter) as on_finish,
        _shared_store(world, reporter) as sharing,
        RunLock.of(world.state, clock) as lock,
    ):
        report = repaired(world, lock, reporter, clock)
        snapshot = world.snapshot()
        compute = compute_execution_plan if sharing is None else sharing.plan_to_run
        plan = compute(snapshot, plan_options)
        check_expected(plan, saved_plan)
        check_folders(world, [job.node for job in plan.planned])
        if on_plan is not None:
            on_plan(plan, snapshot)
        for name in unlimited_resources(world, limits) if plan.planned else ():
            reporter.note(f"no limit is set for the resource {name}, so it restricts nothing")
        if not plan.planned:
            return RunResult(None, plan, "nothing", 0, RunCounts(), 0.0, report)
        check_resources(snapshot, [job.node for job in plan.planned], limits)
        secrets = needed_secrets(world, snapshot, [job.node for job in plan.planned if job.reuse is None])
        with Interrupts() as interrupts:
            place = backend or place_for(options, world.graph, [job.node for job in plan.planned])
            around = Surroundings(world, reporter, clock, lock, place, interrupts, options.jobs, on_finish)
            done = conduct(_undertaking(world, snapshot, plan, options, limits, secrets, place, sharing), around)
        runner = done.runner
        traffic = None if sharing is None else sharing.traffic  # complete once the shared store is closed
        return RunResult(
            done.run, plan, done.state, done.exit_code, runner.counts, done.duration, report, runner.usage, traffic
        )


@contextmanager
def _shared_store(world: World, reporter: Reporter) -> Iterator[Sharing | None]:
    """Closed after the lock: whoever waits for that need not wait for what is given to others."""
    if world.shared_store is None:
        yield None
        return
    from whyrun.execution.sharing import Sharing

    sharing = Sharing(world.shared_store, world.project, world.store, reporter.note)
    try:
        yield sharing
    finally:
        sharing.close()


def repaired(world: World, lock: RunLock, reporter: Reporter, clock: Clock) -> RepairReport | None:
    """Before anything else under the lock: what a killed run left is put in order, and the user is told."""
    store = world.store
    report = repair(world.state, lock, clock, lambda run: complete_killed_run(run, store, world.state.scratch))
    if report is not None:
        reporter.note(
            f"{report.run} was cut short; its log was repaired "
            f"({count(len(report.interrupted), 'open step')} counted as interrupted)"
        )
    removed = remove_pruned_folders(world.state)
    if removed:
        reporter.note(f"{count(removed, 'folder')} of pruned runs removed, which a killed prune had left")
    _remove_leftovers(world.state, store, clock)
    return report


def _remove_leftovers(state: WorkflowState, store: Store, clock: Clock) -> None:
    """What killed runs left in scratch folders: ours alone, since we hold the lock. The store may serve others too."""
    remove_scratch_folders(state.scratch)
    before = clock().timestamp() - STORE_LEFTOVERS
    store.remove_leftovers(before)
    for folder in (state.state_dir, state.index_dir):
        remove_half_written(folder, before)


def check_expected(plan: Plan, saved: Mapping[str, Any] | None) -> None:
    """A saved plan is run as it was saved, or not at all."""
    if saved is None or plan.digest == saved["digest"]:
        return
    from whyrun.planning.stale import plan_differences

    differences = plan_differences(saved, plan.to_json())
    told = [f"\n   {difference}" for difference in differences[:DIFFERENCES]]
    if len(differences) > DIFFERENCES:
        told.append(f"\n   … and {len(differences) - DIFFERENCES} more differences")
    raise error(
        "PLAN_STALE",
        f"the saved plan is {saved['digest']}, but what would be planned now is {plan.digest}{''.join(told)}",
        hint="repeat `--set` and `--inputs` as they were when it was saved; or see `whyrun explain`, and save it again",
    )


def _undertaking(
    world: World,
    snapshot: PlanningSnapshot,
    plan: Plan,
    options: RunOptions,
    limits: Mapping[str, float],
    secrets: RunSecrets,
    backend: Backend,
    sharing: Sharing | None,
) -> Undertaking:
    store = world.store
    for data in plan.blobs.values():
        store.put_bytes(data)
    blob = store.put_bytes(snapshot_blob(snapshot))
    section = composition_section(snapshot, plan)
    if section is not None:
        keep_datasets(snapshot, store, str(world.project))
    return Undertaking(
        mode="run",
        options={**plan.options.to_json(), "fail_fast": options.fail_fast},
        papers=lambda: _papers(snapshot, plan, section),
        total=len(plan.planned),
        begin=lambda recorder: _record_beginning(recorder, snapshot, plan, world.project, blob),
        runner=lambda recorder, publisher: Runner(
            snapshot=snapshot,
            plan=plan,
            backend=backend,
            recorder=recorder,
            publisher=publisher,
            code=code_guard(world, snapshot),
            limits=limits,
            secrets=secrets,
            fail_fast=options.fail_fast,
            grace=options.grace,
            sharing=None if sharing is None else sharing.of_run(snapshot, recorder.directory.path.name),
        ),
        secrets=secrets,
    )


def _papers(snapshot: PlanningSnapshot, plan: Plan, composition: Mapping[str, Any] | None) -> dict[str, bytes]:
    jobs = ((job.node, bindings) for job, bindings in plan.written_bindings())
    graph, actions = snapshot.dependency_graph, snapshot.actions
    papers = {MANIFEST: manifest(graph, jobs, actions, composition), "plan.json": plan.to_bytes()}
    plan.forget_written()
    return papers


def code_guard(world: World, snapshot: PlanningSnapshot) -> CodeGuard:
    files = {job: list(action.files) for job, action in snapshot.actions.items()}
    named = NamedCode(world.project, {table.name: table.decl.code for table in snapshot.dependency_graph.tables})
    return CodeGuard(str(world.project), files, world.is_current, named)


def _record_beginning(recorder: Recorder, snapshot: PlanningSnapshot, plan: Plan, project: Path, blob: str) -> None:
    inputs = dict(leaf_inputs(snapshot.dependency_graph.inputs))
    for id_ in sorted(changed_inputs(snapshot.dependency_graph.inputs, snapshot.records.inputs)):
        value = inputs.get(id_)
        if value is None:
            recorder.event(ev.InputRecorded(id=id_, sha256=""))  # it is gone
            continue
        small: Any = msgspec.UNSET
        if not value.type.is_path and is_small(value.value):
            small = value.value
        file_size = input_size(project, InputAt(id_, value))
        recorder.event(ev.InputRecorded(id=id_, sha256=value.sha256, size=file_size, value=small))
    recorder.event(
        ev.PlanComputed(
            plan_sha256=plan.digest.removeprefix("sha256:"),
            snapshot_sha256=blob,
            planned=len(plan.planned),
            layers=len(plan.layers),
            log_position=dict(plan.log_position) if plan.log_position else None,
        )
    )
