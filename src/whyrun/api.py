"""Whyrun from Python: `load`, `plan`, `explain`, `run`, `validate`. The commands go the same way.

import whyrun

flow = whyrun.load("then-now.yaml", inputs={"Topic": "theatre"})
flow.plan(up=1).headlines()     # {"Job:ThenImage[0]": "MISSING_OUTPUT", …}
print(flow.explain())
result = flow.run()             # result.exit_code, result.counts, result.run
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from whyrun.errors import Diagnostic, InvalidError, WhyrunError, error
from whyrun.planning.explain import estimate_seconds, expected_durations, render_explain
from whyrun.planning.plan import Plan, PlanOptions, compute_execution_plan
from whyrun.snapshot.build import build_planning_snapshot
from whyrun.snapshot.snapshot import PlanningSnapshot
from whyrun.snapshot.world import World

if TYPE_CHECKING:
    from whyrun.console.logger import WorkflowLogger
    from whyrun.execution.compare import CompareResult
    from whyrun.execution.session import RunResult
    from whyrun.planning.whatif import Assumption

PathLike = str | os.PathLike[str]
Inputs = Mapping[str, Any] | str | os.PathLike[str] | None
Ids = str | Sequence[str]
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class LoadedWorkflow:
    """A workflow file with the inputs given to it. It holds no state: each call looks at the world as it is then."""

    file: PathLike
    inputs: Inputs = None
    state: PathLike | None = None
    manifest: PathLike | None = None

    def world(self) -> World:
        """The file parsed and its inputs looked at, afresh."""
        if self.inputs is None or isinstance(self.inputs, Mapping):
            return World.open(self.file, given=self.inputs, state=self.state, manifest=self.manifest)
        return World.open(self.file, inputs=self.inputs, state=self.state, manifest=self.manifest)

    @property
    def name(self) -> str:
        return self.world().workflow.name

    def snapshot(self) -> PlanningSnapshot:
        return self.world().snapshot()

    def plan(
        self, *, up: int | None = None, targets: Ids = (), force: Ids = (), assume: Ids = (), at: str | None = None
    ) -> Plan:
        """What would run, with every reason. `assume=["Input:X=changed"]`: what if; `at="r0002"`: that run's plan."""
        return planned(self.world(), plan_options(up, targets, force), assume=_several(assume), at=at).plan

    def explain(
        self, *, up: int | None = None, targets: Ids = (), force: Ids = (), assume: Ids = (), at: str | None = None
    ) -> str:
        """What would run, and every reason why, as text."""
        found = planned(self.world(), plan_options(up, targets, force), assume=_several(assume), at=at)
        return render_explain(found.plan, estimate=found.estimate())

    def run(
        self,
        *,
        up: int | None = None,
        targets: Ids = (),
        force: Ids = (),
        jobs: int = 0,
        fail_fast: bool = False,
        limits: Mapping[str, float] | None = None,
        backend: str = "local",
        dask_address: str | None = None,
        logger: WorkflowLogger | None = None,
    ) -> RunResult:
        """Run what the plan says. A failed job is a result with `exit_code` 1, not an exception.

        `jobs`: how many at a time, 0 for as many as there are processors. `logger`: who tells how it goes, such as
        `WorkflowLogger()`; without one nothing is told.
        """
        from whyrun.console.logger import WorkflowLogger
        from whyrun.execution.checks import RunOptions
        from whyrun.execution.session import run_workflow

        options = RunOptions(jobs, fail_fast, limits, backend, dask_address)
        teller = WorkflowLogger(terminal=False) if logger is None else logger
        try:
            return run_workflow(self.world(), plan_options(up, targets, force), options, teller)
        finally:
            teller.finish()

    def compare(
        self,
        ids: Ids = (),
        *,
        against: str | None = None,
        accept: bool = False,
        jobs: int = 0,
        fail_fast: bool = False,
        limits: Mapping[str, float] | None = None,
        backend: str = "local",
        dask_address: str | None = None,
        logger: WorkflowLogger | None = None,
    ) -> CompareResult:
        """Execute jobs again on the recorded artifacts, and compare. A difference is a result with `exit_code` 1.

        `ids`: which jobs or artifacts; without any, all that have a result. `against="r0002"`: with the results as they
        were after that run. `accept`: the new results are recorded as the latest, and published.
        """
        from whyrun.console.logger import WorkflowLogger
        from whyrun.execution.checks import RunOptions
        from whyrun.execution.compare import CompareOptions, compare_workflow

        options = RunOptions(jobs, fail_fast, limits, backend, dask_address)
        teller = WorkflowLogger(terminal=False) if logger is None else logger
        try:
            return compare_workflow(self.world(), CompareOptions(_several(ids), against, accept), options, teller)
        finally:
            teller.finish()

    def __repr__(self) -> str:
        return f"<whyrun workflow {os.fspath(self.file)!r}>"


def load(
    file: PathLike | None = None,
    *,
    inputs: Inputs = None,
    state: PathLike | None = None,
    manifest: PathLike | None = None,
) -> LoadedWorkflow:
    """A workflow file (`workflow.yaml` without a name), checked. `inputs`: values by name, or a YAML file of them.

    Relative paths of inputs are relative to the project folder. `state` is where runs are kept instead of `.whyrun`.
    A dataset plan (`plan.json`) needs the `manifest` of its datasets.
    """
    from whyrun.snapshot.world import DEFAULT_FILE

    # Made absolute, so that it stays the same file when a notebook changes its working folder.
    path = os.path.abspath(DEFAULT_FILE if file is None else file)
    if not (inputs is None or isinstance(inputs, Mapping)):
        inputs = os.path.abspath(inputs)
    state, manifest = (None if name is None else os.path.abspath(name) for name in (state, manifest))
    loaded = LoadedWorkflow(path, inputs, state, manifest)
    loaded.world().workflow  # noqa: B018  # a file that is wrong is refused here, not at the first use
    return loaded


def plan(
    file: PathLike | None = None,
    *,
    inputs: Inputs = None,
    state: PathLike | None = None,
    manifest: PathLike | None = None,
    up: int | None = None,
    targets: Ids = (),
    force: Ids = (),
    assume: Ids = (),
    at: str | None = None,
) -> Plan:
    loaded = load(file, inputs=inputs, state=state, manifest=manifest)
    return loaded.plan(up=up, targets=targets, force=force, assume=assume, at=at)


def explain(
    file: PathLike | None = None,
    *,
    inputs: Inputs = None,
    state: PathLike | None = None,
    manifest: PathLike | None = None,
    up: int | None = None,
    targets: Ids = (),
    force: Ids = (),
    assume: Ids = (),
    at: str | None = None,
) -> str:
    loaded = load(file, inputs=inputs, state=state, manifest=manifest)
    return loaded.explain(up=up, targets=targets, force=force, assume=assume, at=at)


def run(
    file: PathLike | None = None,
    *,
    inputs: Inputs = None,
    state: PathLike | None = None,
    manifest: PathLike | None = None,
    up: int | None = None,
    targets: Ids = (),
    force: Ids = (),
    jobs: int = 0,
    fail_fast: bool = False,
    limits: Mapping[str, float] | None = None,
    backend: str = "local",
    dask_address: str | None = None,
    logger: WorkflowLogger | None = None,
) -> RunResult:
    return load(file, inputs=inputs, state=state, manifest=manifest).run(
        up=up,
        targets=targets,
        force=force,
        jobs=jobs,
        fail_fast=fail_fast,
        limits=limits,
        backend=backend,
        dask_address=dask_address,
        logger=logger,
    )


def compare(
    file: PathLike | None = None,
    ids: Ids = (),
    *,
    inputs: Inputs = None,
    state: PathLike | None = None,
    manifest: PathLike | None = None,
    against: str | None = None,
    accept: bool = False,
    jobs: int = 0,
    fail_fast: bool = False,
    limits: Mapping[str, float] | None = None,
    backend: str = "local",
    dask_address: str | None = None,
    logger: WorkflowLogger | None = None,
) -> CompareResult:
    return load(file, inputs=inputs, state=state, manifest=manifest).compare(
        ids,
        against=against,
        accept=accept,
        jobs=jobs,
        fail_fast=fail_fast,
        limits=limits,
        backend=backend,
        dask_address=dask_address,
        logger=logger,
    )


def validate(
    file: PathLike | None = None,
    *,
    inputs: Inputs = None,
    state: PathLike | None = None,
    manifest: PathLike | None = None,
) -> tuple[Diagnostic, ...]:
    """Everything that is wrong with a workflow, its inputs and its actions; nothing if all is well."""
    from whyrun.snapshot.world import DEFAULT_FILE

    try:
        return problems(LoadedWorkflow(DEFAULT_FILE if file is None else file, inputs, state, manifest).world())
    except WhyrunError as wrong:  # there is no such file
        return wrong.diagnostics


# --- what the commands are made of -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan with the snapshot that it was made from."""

    plan: Plan
    snapshot: PlanningSnapshot
    assumptions: Sequence[Assumption] = ()

    def estimate(self, workers: int = 0) -> float | None:
        """Seconds that it may take, from logged durations; None where they do not say."""
        durations = expected_durations(self.plan, self.snapshot)
        return estimate_seconds(self.plan, durations, workers or os.cpu_count() or 1)


def plan_options(up: int | None = None, targets: Ids = (), force: Ids = ()) -> PlanOptions:
    return PlanOptions(up, _several(targets), _several(force))


def _several(texts: Ids) -> tuple[str, ...]:
    """One ID or many: a string is not a list of letters."""
    return (texts,) if isinstance(texts, str) else tuple(texts)


def planned(
    world: World,
    options: PlanOptions,
    *,
    assume: Sequence[str] = (),
    at: str | None = None,
    tell: Tell | None = None,
) -> Planned:
    """The plan for now, for assumed inputs, or of an earlier run. `tell` hears what a person should know of it."""
    if at is not None:
        if assume or options != PlanOptions():
            raise error(
                "USAGE",
                f"the plan of {at} has the options of that run; no others can be given with it",
                hint="leave `--up`, `--target`, `--force` and `--assume` away",
            )
        return plan_of_run(world, at)
    if assume:
        return assumed_plan(world, options, assume)
    snapshot = world.snapshot()
    return Planned(plan_now(world, snapshot, options, tell), snapshot)


def plan_now(world: World, snapshot: PlanningSnapshot, options: PlanOptions, tell: Tell | None = None) -> Plan:
    """The plan; where the project shares a store, with what others have of its results."""
    if world.shared_store is None:
        return compute_execution_plan(snapshot, options)
    from whyrun.execution.sharing import Sharing

    sharing = Sharing(world.shared_store, world.project, world.store, tell or _warn)
    try:
        return sharing.plan(snapshot, options)
    finally:
        sharing.close()


def _warn(text: str) -> None:
    import warnings

    warnings.warn(text, RuntimeWarning, stacklevel=2)


def assumed_plan(world: World, options: PlanOptions, assume: Sequence[str]) -> Planned:
    from whyrun.graph.expand import expand
    from whyrun.planning import whatif
    from whyrun.snapshot.observe import InputObserver

    inputs, assumptions = whatif.assume(world.workflow, world.inputs, assume, InputObserver(world.project, world.cache))
    graph = expand(world.workflow, inputs)
    of_values = world.parameter_problems(graph)
    if of_values:
        raise InvalidError(of_values)
    graph = world.with_asked_outputs(graph)
    snapshot = build_planning_snapshot(
        graph, world.history(), world.observer(), world.actions, ask=world.ask_about_files
    )
    return Planned(compute_execution_plan(snapshot, options), snapshot, assumptions)


def plan_of_run(world: World, name: str) -> Planned:
    """The plan of a run, computed again from the log as it was and the recorded snapshot; it must be the same."""
    from whyrun.log import events as ev
    from whyrun.snapshot.replay import replay_snapshot

    run = world.state.run(name)
    start: ev.RunStart | None = None
    computed: ev.PlanComputed | None = None
    for event in run.events():
        if isinstance(event, ev.RunStart):
            start = event
        elif isinstance(event, ev.PlanComputed):
            computed = event
            break
    if start is not None and start.mode != "run":
        raise error("USAGE", f"{name} is a run of mode `{start.mode}`: it has no plan", hint="see `whyrun runs`")
    if start is None or computed is None:
        raise error(
            "LOG_INCOMPLETE",
            f"{name} has no `plan_computed`",
            file=str(run.events_path),
            hint="the run was killed before its plan was recorded" if start else "restore the file from a copy",
        )
    log = world.history(through=run.number - 1)
    snapshot = replay_snapshot(world.store.read(computed.snapshot_sha256), log)
    given = start.options
    options = PlanOptions(given.get("up"), tuple(given.get("targets", ())), tuple(given.get("force", ())))
    plan = compute_execution_plan(snapshot, options)
    if plan.digest != f"sha256:{computed.plan_sha256}":
        pruned = [stone.run for stone in log.tombstones]
        if pruned:
            some = pruned[0] if len(pruned) == 1 else f"{len(pruned)} from {pruned[0]} to {pruned[-1]}"
            raise error(
                "RUN_PRUNED",
                f"the plan of {name} cannot be computed again: runs that it was made from were pruned ({some})",
                file=str(run.events_path),
                hint=f"`{run.path / 'plan.json'}` has it as it was recorded, with its reasons",
            )
        raise error(
            "LOG_DAMAGED",
            f"the plan of {name} is not reproduced: recorded is sha256:{computed.plan_sha256}, computed {plan.digest}",
            file=str(run.events_path),
            hint=f"the log before {name} is not what it was; restore the runs from a copy",
        )
    return Planned(plan, snapshot)


def problems(world: World) -> tuple[Diagnostic, ...]:
    """Everything that is wrong before a plan can be made: file, inputs, graph and actions, in reading order."""
    return world.problems
