"""`whyrun run` from beginning to end: lock, repair, plan, check and execute."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from whyrun.artifacts.durable import remove_half_written
from whyrun.artifacts.store import Store
from whyrun.console.files import input_size
from whyrun.console.lines import TaskStatus, count, seconds
from whyrun.errors import WhyrunError, error, in_short
from whyrun.execution.backends.base import Backend
from whyrun.execution.backends.registry import RunOptions, backend_for
from whyrun.execution.dispatch.code_guard import CodeGuard, NamedCode
from whyrun.execution.dispatch.environments import resolve_tags
from whyrun.execution.dispatch.run_secrets import RunSecrets, needed_secrets
from whyrun.execution.dispatch.step_builder import manifest
from whyrun.execution.dispatch.watch import WatchPolicy
from whyrun.execution.files.scratch import remove_scratch_folders
from whyrun.execution.recording.composition import composition_section, keep_datasets
from whyrun.execution.recording.publisher import Publisher
from whyrun.execution.recording.recorder import Recorder, Reporter
from whyrun.execution.recording.totals import RunCounts, Usage
from whyrun.execution.run.budget import Budget, budget_of, told_budget
from whyrun.execution.run.lifecycle import MANIFEST, OnFinish, RunEnvironment, execute_run
from whyrun.execution.run.preflight import (
    allow_open_files,
    check_folders,
    check_limits,
    check_resources,
    complete_killed_run,
    resource_limits,
    unlimited_resources,
)
from whyrun.execution.run.runner import Runner
from whyrun.execution.run.shared_results import RunSharing
from whyrun.execution.run.stages import StagePlanner, Stages, Work
from whyrun.execution.run.termination import Interrupts, Policy
from whyrun.graph.tables import InputAt
from whyrun.log import events as ev
from whyrun.log.journal import STATUS_FILE, utc_now
from whyrun.log.lock import RunLock, running_run
from whyrun.log.repair import RepairReport, repair
from whyrun.log.runs import WorkflowState
from whyrun.log.tombstones import remove_pruned_folders
from whyrun.planning.answers.listing import narrow_patterns
from whyrun.planning.answers.plan_diff import told
from whyrun.planning.consume import is_small
from whyrun.planning.plan import Plan, PlanOptions, compute_execution_plan
from whyrun.project import Project
from whyrun.snapshot.history.replay import snapshot_blob, snapshot_identity
from whyrun.snapshot.results import is_over_results
from whyrun.snapshot.snapshot import PlanningSnapshot, changed_inputs, leaf_inputs

if TYPE_CHECKING:
    from whyrun.execution.sharing.sharing import Sharing, SharingCounts

Clock = Callable[[], datetime]
ABANDONED_AFTER = 86400.0  # seconds: a half-written blob that has not changed for so long has no writer any more
DIFFERENCES_SHOWN = 5  # between a saved plan and the present one


@dataclass(frozen=True, slots=True, repr=False)
class RunResult:
    """What a run did. `run` is None if there was nothing to do: then no run folder was made."""

    run: str | None
    plan: Plan
    state: str  # succeeded failed interrupted, or nothing
    exit_code: int
    counts: RunCounts
    duration: float
    repaired: RepairReport | None = None
    usage: Usage = field(default_factory=Usage)
    shared: SharingCounts | None = None  # None: the project has no shared store
    budget: Budget | None = None
    # Where loops over results became known while it went on:
    stages: tuple[Plan, ...] = ()
    whole: Plan | None = None  # `plan` with its stages
    snapshot: PlanningSnapshot | None = None  # with all instances

    @property
    def statuses(self) -> dict[str, int]:
        """How many jobs ended with which status, as their lines show it. `counts` and the plan's totals tell apart
        what a status sums up, such as blocked and up to date."""
        counts, totals = self.counts, self.totals
        idle = totals["clean"] + totals["inactive"]
        numbers = {
            TaskStatus.EXECUTES: counts.completed,
            TaskStatus.SKIPS: counts.reused + counts.inactive + counts.blocked + counts.held + idle,
            TaskStatus.FAILED: counts.failed + counts.interrupted,
            TaskStatus.TIMED_OUT: counts.timed_out,
        }
        return {status.value: number for status, number in numbers.items() if number}

    @property
    def totals(self) -> Mapping[str, int]:
        return (self.whole or self.plan).totals

    def __repr__(self) -> str:
        if self.run is None:
            return f"<whyrun: nothing to do, {self.plan.totals['clean']} of {self.plan.totals['jobs']} jobs up to date>"
        counts = [f"{number} {name.replace('_', ' ')}" for name, number in self.counts.to_json().items() if number]
        return f"<whyrun {self.run} {self.state} in {seconds(self.duration)}: {', '.join(counts)}>"

    def _repr_html_(self) -> str:
        from whyrun.notebook import run_html

        if self.run is None:
            return run_html("nothing to do", self.state, {"up to date": self.plan.totals["clean"]})
        counts = {name.replace("_", " "): number for name, number in self.counts.to_json().items()}
        return run_html(f"{self.run} {self.state} in {seconds(self.duration)}", self.state, counts)

    def to_json(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "state": self.state,
            "exit_code": self.exit_code,
            "counts": self.counts.to_json(),
            "statuses": self.statuses,
            "totals": dict(self.totals),
            "duration": round(self.duration, 3),
            "plan_digest": self.plan.digest,
            **({"stages": [_stage_json(stage) for stage in self.stages]} if self.stages else {}),
            **self.usage.to_json(),
            **({"shared_store": self.shared.to_json()} if self.shared is not None else {}),
        }


def _stage_json(stage: Plan) -> dict[str, Any]:
    return {"source": stage.source, "plan_digest": stage.digest, "totals": dict(stage.totals)}


def run_workflow(
    project: Project,
    plan_options: PlanOptions,
    options: RunOptions,
    reporter: Reporter,
    *,
    saved_plan: Mapping[str, Any] | None = None,
    backend: Backend | None = None,
    on_plan: Callable[[Plan, PlanningSnapshot], None] | None = None,
    clock: Clock = utc_now,
) -> RunResult:
    """Plan and execute. If `saved_plan` is given and the plan differs from it, raise `PLAN_STALE`.

    `on_plan` gets the plan before any step of it starts.
    """
    project.config, project.graph, project.actions  # noqa: B018  # report every error before taking the lock
    told_budget(project, options)  # a wrong one is refused although there may be nothing to do
    resolve_tags(project, reporter.note)
    limits = resource_limits(project, options)
    check_limits(project, options.limits or {})
    with (
        OnFinish(project.config.on_finish, project.folder, reporter) as on_finish,
        _shared_store(project, reporter) as sharing,
        RunLock.of(project.state, clock) as lock,
    ):
        report = repair_killed_run(project, lock, reporter.note, clock)
        planner = StagePlanner(project) if is_over_results(project.workflow) else None
        if planner is None:
            snapshot = project.snapshot(force=plan_options.force)
        else:
            snapshot = project.snapshot(planner.history, plan_options.force, planner.observer)
        if sharing is None:
            plan = compute_execution_plan(snapshot, plan_options)
        else:
            plan, snapshot = sharing.plan_to_run(snapshot, plan_options)
        check_expected(plan, snapshot, saved_plan)
        check_folders(project.folder, snapshot.dependency_graph, [job.node for job in (*plan.planned, *plan.open)])
        if on_plan is not None:
            on_plan(plan, snapshot)
        narrow = narrow_patterns(snapshot.dependency_graph, [*plan_options.force, *plan_options.targets])
        for note in (*narrow, *told(snapshot.reads)):
            reporter.note(note)
        for name in unlimited_resources(project, limits) if plan.planned else ():
            reporter.note(f"no limit is set for the resource {name}, so it restricts nothing")
        if not plan.planned:
            return RunResult(None, plan, "nothing", 0, RunCounts(), 0.0, report)
        may_run = [job.node for job in (*plan.planned, *plan.open)]
        check_resources(snapshot, may_run, limits, project.config.rates)
        budget, of_budget = budget_of(project, options, plan, snapshot)
        for note in of_budget:
            reporter.note(note)
        allow_open_files(options, None if plan.open else len(plan.planned))
        executed = [job.node for job in (*plan.planned, *plan.open) if job.reuse is None]
        secrets = needed_secrets(project, snapshot, executed)
        with Interrupts() as interrupts:
            chosen = backend or backend_for(options, project.graph, may_run)
            environment = RunEnvironment(project, reporter, clock, lock, chosen, interrupts, options.jobs, on_finish)
            watch = WatchPolicy(project.config.trace, project.config.strict)
            policy = Policy(limits, options.fail_fast, options.grace, watch, budget, project.config.rates)
            work = WorkflowRun.of(project, snapshot, plan, secrets, policy, sharing, planner)
            run = execute_run(work, environment)
        shared = None if sharing is None else sharing.counts  # final once the shared store is closed
        counts, usage = run.runner.counts, run.runner.usage
        result = RunResult(run.run, plan, run.state, run.exit_code, counts, run.duration, report, usage, shared, budget)
        if run.runner.stages is None or not run.runner.stages.plans:
            return result
        whole = run.runner.work
        stages = tuple(run.runner.stages.plans.values())
        return replace(result, stages=stages, whole=whole.plan, snapshot=whole.snapshot)


@contextmanager
def _shared_store(project: Project, reporter: Reporter) -> Iterator[Sharing | None]:
    """Closed after the lock is released: a waiting run need not wait for uploads."""
    if project.shared_store is None:
        yield None
        return
    from whyrun.execution.sharing.sharing import Sharing

    sharing = Sharing(project.shared_store, project.folder, project.store, reporter.note)
    try:
        yield sharing
    finally:
        sharing.close()


def repair_killed_run(
    project: Project, lock: RunLock, note: Callable[[str], None], clock: Clock
) -> RepairReport | None:
    """The first thing under the lock: repair what a killed run left, and report it."""
    store = project.store
    report = repair(project.state, lock, clock, lambda run: complete_killed_run(run, store, project.state.scratch))
    if report is not None:
        note(
            f"{report.run} was cut short; its log was repaired "
            f"({count(len(report.interrupted), 'open step')} counted as interrupted)"
        )
    removed = remove_pruned_folders(project.state)
    if removed:
        note(f"{count(removed, 'folder')} of pruned runs removed, which a killed prune had left")
    _remove_leftovers(project.state, store, clock)
    return report


def complete_last_run(project: Project, note: Callable[[str], None], clock: Clock = utc_now) -> None:
    """Repair a killed run for a command that shows runs, so that its evidence is there without another run.

    Where that is impossible, tell what is missing. Plans need no repair: they are the same before and after it.
    """
    runs = project.state.runs()
    if not runs or (runs[-1].path / STATUS_FILE).exists() or running_run(project.state) == runs[-1].name:
        return
    try:
        with RunLock.of(project.state, clock) as lock:
            repair_killed_run(project, lock, note, clock)
        return
    except WhyrunError as refused:
        if refused.diagnostics[0].code == "LOCKED":
            return  # whoever has the lock runs the workflow, which begins with the repair, or ends soon
        why = in_short(refused)
    except OSError as problem:
        why = in_short(problem)
    note(
        f"{runs[-1].name} was cut short, and its folder cannot be completed now (`status.json`, `artifacts/`): {why}. "
        "Mend that, then repeat the command; the next run completes it, too"
    )


def _remove_leftovers(state: WorkflowState, store: Store, clock: Clock) -> None:
    """Remove what killed runs left. Scratch folders belong to the holder of the lock alone; the store may serve other
    workflows, so only old leftovers are removed there."""
    remove_scratch_folders(state.scratch)
    before = clock().timestamp() - ABANDONED_AFTER
    store.remove_leftovers(before)
    for folder in (state.state_dir, state.index_dir):
        remove_half_written(folder, before)


def check_expected(plan: Plan, snapshot: PlanningSnapshot, saved: Mapping[str, Any] | None) -> None:
    """Refuse a plan that differs from the saved one, or that was made from other code or inputs."""
    if saved is None:
        return
    identity = snapshot_identity(snapshot)
    if plan.digest == saved["digest"] and identity["snapshot_sha256"] == saved["snapshot_sha256"]:
        return
    from whyrun.planning.answers.plan_diff import plan_differences

    differences = plan_differences(saved, {**plan.to_json(), **identity})
    lines = [f"\n   {difference}" for difference in differences[:DIFFERENCES_SHOWN]]
    if len(differences) > DIFFERENCES_SHOWN:
        lines.append(f"\n   … and {len(differences) - DIFFERENCES_SHOWN} more differences")
    raise error(
        "PLAN_STALE",
        f"the saved plan is {saved['digest']}, but what would be planned now is {plan.digest}{''.join(lines)}"
        if plan.digest != saved["digest"]
        else f"the saved plan was made from a different state{''.join(lines)}",
        hint="repeat `--set` and `--inputs` as they were when it was saved; or see `whyrun explain`, and save it again",
    )


@dataclass(frozen=True, slots=True)
class WorkflowRun:
    """Executes a plan: the `RunSpec` of `whyrun run`."""

    project: Project
    snapshot: PlanningSnapshot
    plan: Plan
    secrets: RunSecrets
    policy: Policy
    sharing: Sharing | None
    snapshot_sha256: str  # of the stored snapshot
    composition: Mapping[str, Any] | None  # section of the manifest
    planner: StagePlanner | None = None  # of loops over results

    @classmethod
    def of(
        cls,
        project: Project,
        snapshot: PlanningSnapshot,
        plan: Plan,
        secrets: RunSecrets,
        policy: Policy,
        sharing: Sharing | None,
        planner: StagePlanner | None = None,
    ) -> WorkflowRun:
        """Store the blobs that the plan and its snapshot refer to."""
        for data in plan.blobs.values():
            project.store.put_bytes(data)
        blob = project.store.put_bytes(snapshot_blob(snapshot))
        composition = composition_section(snapshot, plan)
        if composition is not None:
            keep_datasets(snapshot, project.store, str(project.folder))
        return cls(project, snapshot, plan, secrets, policy, sharing, blob, composition, planner)

    @property
    def mode(self) -> Literal["run"]:
        return "run"

    @property
    def options(self) -> Mapping[str, Any]:
        return {**self.plan.options.to_json(), "fail_fast": self.policy.fail_fast}

    @property
    def total(self) -> int:
        return len(self.plan.planned)

    @property
    def executed(self) -> Iterable[int]:
        return (job.node for job in (*self.plan.planned, *self.plan.open) if job.reuse is None)

    def run_files(self) -> dict[str, bytes]:
        jobs = ((job.node, bindings) for job, bindings in self.plan.written_bindings())
        graph, actions = self.snapshot.dependency_graph, self.snapshot.actions
        files = {MANIFEST: manifest(graph, jobs, actions, self.composition), "plan.json": self.plan.to_bytes()}
        self.plan.forget_written()
        return files

    def record_start(self, recorder: Recorder) -> None:
        _record_inputs(recorder, self.snapshot, self.project)
        plan = self.plan
        recorder.event(
            ev.PlanComputed(
                plan_sha256=plan.digest.removeprefix("sha256:"),
                snapshot_sha256=self.snapshot_sha256,
                planned=len(plan.planned),
                layers=len(plan.layers),
                log_position=dict(plan.log_position) if plan.log_position else None,
            )
        )

    def runner(self, backend: Backend, publisher: Publisher) -> Runner:
        work = Work(self.snapshot, self.plan, code_guard(self.project, self.snapshot), self.secrets)
        run = publisher.recorder.directory.path.name
        sharing = None if self.sharing is None else RunSharing(self.sharing, self.snapshot, run)
        stages = None
        if self.planner is not None and self.plan.open:
            stages = Stages(self.planner, self.snapshot, self.plan, self.snapshot_sha256)
        return Runner(work, self.policy, backend, publisher, sharing, stages)


def code_guard(project: Project, snapshot: PlanningSnapshot) -> CodeGuard:
    files = {job: list(action.files) for job, action in snapshot.actions.items()}
    named = NamedCode(project.folder, {table.name: table.decl.code for table in snapshot.dependency_graph.tables})
    return CodeGuard(str(project.folder), files, project.is_current, named)


KEPT_INPUT = 1 << 20  # bytes of an input file that is kept
KEPT_INPUTS = 64 << 20  # bytes that one run keeps
KEPT_FILES = 1000  # of one run: each is a file to be made


def _record_inputs(recorder: Recorder, snapshot: PlanningSnapshot, project: Project) -> None:
    """Record the inputs that have changed since the log last named them, and keep small files, to be shown later."""
    room, files = (KEPT_INPUTS, KEPT_FILES) if project.config.keep_inputs else (0, 0)
    inputs = dict(leaf_inputs(snapshot.dependency_graph.inputs))
    for id_ in sorted(changed_inputs(snapshot.dependency_graph.inputs, snapshot.records.inputs)):
        value = inputs.get(id_)
        if value is None:
            recorder.event(ev.InputRecorded(id=id_, sha256=""))  # the workflow does not have it any more
            continue
        small: Any = msgspec.UNSET
        if not value.type.is_path and is_small(value.value):
            small = value.value
        file_size = input_size(project.folder, InputAt(id_, value))
        if value.path is not None and file_size is not None and file_size <= min(room, KEPT_INPUT) and files:
            # A file that has changed since it was observed is not kept; its step will tell.
            kept = project.store.restore_from(project.folder / value.path, value.sha256)
            room, files = room - file_size * kept, files - kept
        recorder.event(ev.InputRecorded(id=id_, sha256=value.sha256, size=file_size, value=small))
