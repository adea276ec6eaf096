"""One run from beginning to end: lock, repair, plan, execute, and the evidence complete whatever happens."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from whyrun.artifacts.hashing import canonical_json
from whyrun.artifacts.store import Store
from whyrun.console.files import input_size
from whyrun.console.lines import TaskStatus, seconds
from whyrun.errors import Diagnostic, InvalidError, did_you_mean, error
from whyrun.execution.backends.local import LocalBackend
from whyrun.execution.code_guard import CodeGuard
from whyrun.execution.commands import Backend
from whyrun.execution.composed import composition_section, keep_datasets
from whyrun.execution.conduct import Surroundings, Undertaking, conduct
from whyrun.execution.counts import RunCounts
from whyrun.execution.interrupts import Interrupts
from whyrun.execution.leftovers import complete_killed_run
from whyrun.execution.on_finish import OnFinish
from whyrun.execution.prepare import manifest
from whyrun.execution.recorder import Recorder, Reporter
from whyrun.execution.runner import Runner
from whyrun.execution.scratch import remove_scratch_folders
from whyrun.execution.usage import Usage
from whyrun.graph.graph import InputAt
from whyrun.log import events as ev
from whyrun.log.journal import utc_now
from whyrun.log.lock import RunLock
from whyrun.log.repair import RepairReport, repair
from whyrun.log.runs import WorkflowState
from whyrun.planning.consume import is_small
from whyrun.planning.plan import Plan, PlanOptions, compute_execution_plan
from whyrun.snapshot.replay import snapshot_blob
from whyrun.snapshot.snapshot import PlanningSnapshot, changed_inputs, leaf_inputs
from whyrun.snapshot.world import World

Clock = Callable[[], datetime]
STORE_LEFTOVERS = 86400.0  # seconds: a half-written blob that nobody has touched for so long has no writer any more
DIFFERENCES = 5  # between a saved plan and the present one that are told


@dataclass(frozen=True, slots=True)
class RunOptions:
    jobs: int = 0  # 0: as many as there are processors
    fail_fast: bool = False
    limits: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        if self.jobs < 0:
            raise error("USAGE", f"{self.jobs} jobs at a time is not possible", hint="0 means one for each processor")
        for name, limit in (self.limits or {}).items():
            if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 <= limit < float("inf"):
                raise error("USAGE", f"the limit of `{name}` is {limit!r}", hint="a limit is a number from 0 up")


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

    @property
    def statuses(self) -> dict[str, int]:
        """How many jobs ended with which status; up-to-date and inactive ones are skipped. What was blocked, deferred,
        interrupted or not started is counted apart, in `counts` and the plan's totals."""
        counts, totals = self.counts, self.plan.totals
        found = {
            TaskStatus.EXECUTES: counts.completed,
            TaskStatus.SKIPS: counts.reused + counts.inactive + totals["clean"] + totals["inactive"],
            TaskStatus.FAILED: counts.failed,
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
    limits = {**(world.config.resources or {}), **(options.limits or {})}
    check_limits(world, options.limits or {})
    with (
        OnFinish(world.config.on_finish, world.project, reporter) as on_finish,
        RunLock(world.state.lock_path, clock) as lock,
    ):
        report = repaired(world, lock, reporter, clock)
        snapshot = world.snapshot()
        plan = compute_execution_plan(snapshot, plan_options)
        check_expected(plan, saved_plan)
        if on_plan is not None:
            on_plan(plan, snapshot)
        if not plan.planned:
            return RunResult(None, plan, "nothing", 0, RunCounts(), 0.0, report)
        check_resources(snapshot, [job.node for job in plan.planned], limits)
        secrets = needed_secrets(snapshot, [job.node for job in plan.planned if job.reuse is None])
        with Interrupts() as interrupts:
            place = backend or LocalBackend()
            around = Surroundings(world, reporter, clock, lock, place, interrupts, options.jobs, on_finish)
            done = conduct(_undertaking(world, snapshot, plan, options, limits, secrets, place), around)
        runner = done.runner
        return RunResult(done.run, plan, done.state, done.exit_code, runner.counts, done.duration, report, runner.usage)


def repaired(world: World, lock: RunLock, reporter: Reporter, clock: Clock) -> RepairReport | None:
    """Before anything else under the lock: what a killed run left is put in order, and the user is told."""
    store = world.store
    report = repair(world.state, lock, clock, lambda run: complete_killed_run(run, store, world.state.scratch))
    if report is not None:
        reporter.note(
            f"{report.run} ended without a word; its log was repaired "
            f"({len(report.interrupted)} open steps count as interrupted)"
        )
    _remove_leftovers(world.state, store, clock)
    return report


def _remove_leftovers(state: WorkflowState, store: Store, clock: Clock) -> None:
    """What killed runs left in scratch folders: ours alone, since we hold the lock. The store may serve others too."""
    remove_scratch_folders(state.scratch)
    store.remove_leftovers(clock().timestamp() - STORE_LEFTOVERS)


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
    secrets: Mapping[str, str],
    backend: Backend,
) -> Undertaking:
    store = world.store
    for data in plan.blobs.values():
        store.put_bytes(data)
    blob = store.put_bytes(snapshot_blob(snapshot))
    graph = snapshot.dependency_graph
    section = composition_section(snapshot, plan)
    if section is not None:
        keep_datasets(snapshot, store, str(world.project))
    bindings = {job["id"]: job.get("bindings", {}) for job in plan.to_json()["jobs"] if job["state"] == "planned"}
    return Undertaking(
        mode="run",
        options={**plan.options.to_json(), "fail_fast": options.fail_fast},
        manifest=canonical_json(
            {
                **({"composition": section} if section is not None else {}),
                **manifest(graph, {job.node: bindings[job.id] for job in plan.planned}, snapshot.actions),
            }
        ),
        files={"plan.json": plan.to_bytes()},
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
        ),
    )


def code_guard(world: World, snapshot: PlanningSnapshot) -> CodeGuard:
    files = {job: list(action.files) for job, action in snapshot.actions.items()}
    return CodeGuard(str(world.project), files, world.is_current)


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


def check_limits(world: World, given: Mapping[str, float]) -> None:
    """A limit for something that no job uses is a mistake, not a wish."""
    used = sorted({name for table in world.graph.tables for name in table.decl.resources})
    for name in given:
        if name not in used:
            hint = did_you_mean(name, used) or "no job of this workflow has `resources:`"
            raise error("USAGE", f"`--limit {name}`: no job uses the resource `{name}`", hint=hint)


def check_resources(snapshot: PlanningSnapshot, nodes: Sequence[int], limits: Mapping[str, float]) -> None:
    """A job that wants more than there is could never start."""
    problems: dict[str, Diagnostic] = {}
    for node in nodes:
        table, _ = snapshot.dependency_graph.table_at(node)
        for name, amount in table.decl.resources.items():
            if name in limits and amount > limits[name]:
                place = table.decl.places.get("resources", table.decl.place)
                message = f"`{table.name}` wants {name}: {amount:g}, but the limit is {limits[name]:g}"
                problems[table.name] = place.diagnostic("USAGE", message, "raise the limit, or lower the job's share")
    if problems:
        raise InvalidError(problems.values())


def needed_secrets(snapshot: PlanningSnapshot, nodes: Sequence[int]) -> dict[str, str]:
    """The values of all secrets that these jobs name; they must be in the environment before anything runs."""
    found: dict[str, str] = {}
    missing: list[Diagnostic] = []
    names: set[str] = set()
    for node in nodes:
        table, _ = snapshot.dependency_graph.table_at(node)
        for name in table.decl.secrets:
            if name in names:
                continue
            names.add(name)
            value = os.environ.get(name)
            if value is None:
                place = table.decl.places.get("secrets", table.decl.place)
                hint = f"`export {name}=…` before `whyrun run`; `whyrun plan` does not need it"
                missing.append(
                    place.diagnostic("SECRET_MISSING", f"the secret `{name}` is not in the environment", hint)
                )
            else:
                found[name] = value
    if missing:
        raise InvalidError(missing)
    return found
