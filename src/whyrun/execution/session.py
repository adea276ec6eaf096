"""One run from beginning to end: lock, repair, plan, execute, and the evidence complete whatever happens."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

import msgspec

from whyrun import __version__
from whyrun.artifacts.hashing import bytes_sha256, canonical_json
from whyrun.artifacts.store import Store
from whyrun.console.lines import seconds
from whyrun.errors import Diagnostic, InvalidError, WhyrunError, did_you_mean, error
from whyrun.evidence.run_directory import RunDirectory, complete_run, source_files
from whyrun.execution.backends.local import LocalBackend
from whyrun.execution.code_guard import CodeGuard
from whyrun.execution.commands import Backend, Session
from whyrun.execution.interrupts import Interrupts
from whyrun.execution.prepare import manifest
from whyrun.execution.publisher import Publisher
from whyrun.execution.recorder import Recorder, Reporter
from whyrun.execution.runner import RunCounts, Runner
from whyrun.execution.scratch import remove_scratch_folders
from whyrun.log import events as ev
from whyrun.log.journal import utc_now
from whyrun.log.lock import RunLock
from whyrun.log.outcomes import fold_outcome
from whyrun.log.repair import RepairReport, interruption, repair
from whyrun.log.runs import RunRef, WorkflowState, create_run
from whyrun.planning.consume import is_small
from whyrun.planning.plan import Plan, PlanOptions, compute_execution_plan
from whyrun.snapshot.replay import snapshot_blob
from whyrun.snapshot.snapshot import PlanningSnapshot, changed_inputs, leaf_inputs
from whyrun.snapshot.world import World

Clock = Callable[[], datetime]
STORE_LEFTOVERS = 86400.0  # seconds: a half-written blob that nobody has touched for so long has no writer any more
RunState = Literal["succeeded", "failed", "interrupted"]
DIFFERENCES = 5  # between a saved plan and the present one that are told
EXIT_CODES: dict[RunState, int] = {"succeeded": 0, "failed": 1, "interrupted": 130}


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
            "totals": dict(self.plan.totals),
            "duration": round(self.duration, 3),
            "plan_digest": self.plan.digest,
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
    _check_limits(world, options.limits or {})
    with RunLock(world.state.lock_path, clock) as lock:
        store = world.store
        report = repair(world.state, lock, clock, lambda run: complete_run(run, store))
        if report is not None:
            reporter.note(
                f"{report.run} ended without a word; its log was repaired "
                f"({len(report.interrupted)} open steps count as interrupted)"
            )
        _remove_leftovers(world.state, store, clock)
        snapshot = world.snapshot()
        plan = compute_execution_plan(snapshot, plan_options)
        check_expected(plan, saved_plan)
        if on_plan is not None:
            on_plan(plan, snapshot)
        if not plan.planned:
            return RunResult(None, plan, "nothing", 0, RunCounts(), 0.0, report)
        _check_resources(snapshot, plan, limits)
        secrets = _secrets(snapshot, plan)
        with Interrupts() as interrupts:
            place = backend or LocalBackend()
            return _execute(
                world, snapshot, plan, options, limits, secrets, reporter, clock, lock, report, place, interrupts
            )


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


def _execute(
    world: World,
    snapshot: PlanningSnapshot,
    plan: Plan,
    options: RunOptions,
    limits: Mapping[str, float],
    secrets: Mapping[str, str],
    reporter: Reporter,
    clock: Clock,
    lock: RunLock,
    report: RepairReport | None,
    backend: Backend,
    interrupts: Interrupts,
) -> RunResult:
    started = time.monotonic()
    store = world.store
    state = world.state
    for data in plan.blobs.values():
        store.put_bytes(data)
    blob = store.put_bytes(snapshot_blob(snapshot))
    graph = snapshot.dependency_graph
    bindings = {job["id"]: job.get("bindings", {}) for job in plan.to_json()["jobs"] if job["state"] == "planned"}
    manifest_data = canonical_json(
        manifest(graph, {job.node: bindings[job.id] for job in plan.planned}, snapshot.actions)
    )
    run, journal = create_run(
        state,
        ev.RunStart(
            workflow=plan.workflow,
            workflow_sha256=bytes_sha256(canonical_json(dict(graph.workflow.sources))),
            mode="run",
            options={**plan.options.to_json(), "fail_fast": options.fail_fast},
            backend=backend.name,
            engine_version=__version__,
            host=platform.node(),
            pid=os.getpid(),
            previous_chain="",
        ),
        clock,
        {"manifest.yaml": manifest_data, "plan.json": plan.to_bytes(), **source_files(dict(graph.workflow.sources))},
    )
    lock.announce(run.name)
    directory = RunDirectory(run.path)
    recorder = Recorder(journal, directory, store, reporter, clock)
    publisher = Publisher(store, str(world.project), world.cache, recorder, state)
    try:
        _record_beginning(recorder, snapshot, plan, blob, manifest_data)
        recorder.sync()
        reporter.started(run.name, len(plan.planned))
        runner = Runner(
            snapshot=snapshot,
            plan=plan,
            backend=backend,
            recorder=recorder,
            publisher=publisher,
            code=CodeGuard(
                str(world.project), {job: list(a.files) for job, a in snapshot.actions.items()}, world.is_current
            ),
            limits=limits,
            secrets=secrets,
            fail_fast=options.fail_fast,
        )
        backend.open(
            Session(run.name, run.path, world.project, state.store, state.scratch, options.jobs or os.cpu_count() or 1)
        )
        try:
            with interrupts.reaching(runner):
                runner.run()
        finally:
            backend.close()
    except BaseException as original:
        # An error of our own or of the machine (a full disk). The evidence is completed as far as it can be, and
        # whatever goes wrong with that never hides what went wrong first.
        try:
            _finish(run, recorder, directory, store, "failed", started, _counts_of_broken(run, recorder))
        except (OSError, WhyrunError) as second:
            original.add_note(f"completing the evidence of {run.name} failed as well: {second}")
        raise
    counts = runner.counts
    # Without an order to stop nothing is left over; a run that left something over has not succeeded.
    bad = counts.failed or counts.timed_out or counts.blocked or counts.not_started
    outcome: RunState = "interrupted" if runner.interrupts else "failed" if bad else "succeeded"
    _finish(run, recorder, directory, store, outcome, started, counts.by_outcome())
    world.cache.settle()
    world.save_cache()
    return RunResult(run.name, plan, outcome, EXIT_CODES[outcome], counts, time.monotonic() - started, report)


def _record_beginning(
    recorder: Recorder, snapshot: PlanningSnapshot, plan: Plan, blob: str, manifest_data: bytes
) -> None:
    inputs = dict(leaf_inputs(snapshot.dependency_graph.inputs))
    for id_ in sorted(changed_inputs(snapshot.dependency_graph.inputs, snapshot.records.inputs)):
        value = inputs.get(id_)
        if value is None:
            recorder.event(ev.InputRecorded(id=id_, sha256=""))  # it is gone
            continue
        small: Any = msgspec.UNSET
        if not value.type.is_path and is_small(value.value):
            small = value.value
        recorder.event(ev.InputRecorded(id=id_, sha256=value.sha256, size=value.size, value=small))
    recorder.event(
        ev.PlanComputed(
            plan_sha256=plan.digest.removeprefix("sha256:"),
            snapshot_sha256=blob,
            planned=len(plan.planned),
            layers=len(plan.layers),
            log_position=dict(plan.log_position) if plan.log_position else None,
        )
    )
    recorder.event(
        ev.ManifestMaterialized(path="manifest.yaml", size=len(manifest_data), sha256=bytes_sha256(manifest_data))
    )


def _finish(
    run: RunRef,
    recorder: Recorder,
    directory: RunDirectory,
    store: Store,
    outcome: RunState,
    started: float,
    counts: dict[str, int],
) -> None:
    """The last event and the rest of the folder; also when the run itself broke."""
    duration = round(time.monotonic() - started, 6)
    recorder.event(ev.RunComplete(state=outcome, counts=counts, duration=duration))
    recorder.close()
    directory.finish(store, recorder.seen)


def _counts_of_broken(run: RunRef, recorder: Recorder) -> dict[str, int]:
    """End what an error of our own left open: the runner itself ends all it started."""
    recorder.flush()
    found = fold_outcome(run.events())
    for step in found.open_steps:
        recorder.event(interruption(step, found.drivers[step]))
        found.steps[step] = "interrupted"
    return found.counts()


def _check_limits(world: World, given: Mapping[str, float]) -> None:
    """A limit for something that no job uses is a mistake, not a wish."""
    used = sorted({name for table in world.graph.tables for name in table.decl.resources})
    for name in given:
        if name not in used:
            hint = did_you_mean(name, used) or "no job of this workflow has `resources:`"
            raise error("USAGE", f"`--limit {name}`: no job uses the resource `{name}`", hint=hint)


def _check_resources(snapshot: PlanningSnapshot, plan: Plan, limits: Mapping[str, float]) -> None:
    """A job that wants more than there is could never start."""
    problems: dict[str, Diagnostic] = {}
    for job in plan.planned:
        table, _ = snapshot.dependency_graph.table_at(job.node)
        for name, amount in table.decl.resources.items():
            if name in limits and amount > limits[name]:
                place = table.decl.places.get("resources", table.decl.place)
                message = f"`{table.name}` wants {name}: {amount:g}, but the limit is {limits[name]:g}"
                problems[table.name] = place.diagnostic("USAGE", message, "raise the limit, or lower the job's share")
    if problems:
        raise InvalidError(problems.values())


def _secrets(snapshot: PlanningSnapshot, plan: Plan) -> dict[str, str]:
    """The values of all secrets that planned jobs name; they must be in the environment before anything runs."""
    found: dict[str, str] = {}
    missing: list[Diagnostic] = []
    names: set[str] = set()
    for job in plan.planned:
        table, _ = snapshot.dependency_graph.table_at(job.node)
        for name in table.decl.secrets:
            if name in names or job.reuse is not None:
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
