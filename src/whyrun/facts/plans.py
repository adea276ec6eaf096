"""Opens the project for a command, and the plan that its question is about: the current one, the plan for assumed
inputs, or that of an earlier run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from whyrun.errors import InvalidError, check_type, error
from whyrun.log.journal import STAGES_FILE
from whyrun.log.runs import with_scratch_folders
from whyrun.planning.answers.explain import estimate_seconds, expected_durations
from whyrun.planning.plan import Plan, PlanOptions, compute_execution_plan
from whyrun.snapshot.actions.known_inputs import with_estimates
from whyrun.snapshot.build import build_planning_snapshot
from whyrun.snapshot.results import recorded_results
from whyrun.snapshot.snapshot import ActionFacts, PlanningSnapshot

if TYPE_CHECKING:
    from whyrun.log import events as ev
    from whyrun.planning.answers.prices import Prices
    from whyrun.planning.answers.whatif import Assumption
    from whyrun.project import Project
    from whyrun.workflow.inputs import InputValue

Tell = Callable[[str], None]


def open_project(file: str | os.PathLike[str] | None, **given: Any) -> Project:
    """Open a workflow, for a command. Secrets that a killed run left in scratch folders are removed first, whatever the
    command does. `given`: as `Project.open` takes them."""
    from whyrun.project import Project

    project = Project.open(file, **given)
    for state in with_scratch_folders(project.state_dir):
        from whyrun.execution.run.preflight import remove_secret_leftovers

        remove_secret_leftovers(state)
    return project


class Planned(msgspec.Struct, frozen=True):
    """A plan with the snapshot that it was made from."""

    plan: Plan
    snapshot: PlanningSnapshot
    assumptions: Sequence[Assumption] = ()
    first: Plan | None = None  # of an earlier run whose stages are in `plan`, too: its plan before it began

    def estimate(self, workers: int = 0) -> float | None:
        """Expected seconds, from recorded durations; None if there are none."""
        durations = expected_durations(self.plan, self.snapshot)
        return estimate_seconds(self.plan, durations, workers or os.cpu_count() or 1)

    def prices(self) -> Prices | None:
        """What the plan would cost; None where nothing says that it costs something."""
        if not self.plan.planned:
            return None  # nearly always: nothing is imported
        from whyrun.planning.answers.prices import expected_prices

        return expected_prices(self.plan, self.snapshot)

    def price_notes(self) -> list[str]:
        """What is probably a mistake in the price list, or in what actions estimate."""
        executed = [job.node for job in self.plan.planned if job.reuse is None]
        return self.snapshot.pricer().notes(executed) if executed and self.snapshot.pricer is not None else []


def planned(
    project: Project,
    options: PlanOptions,
    *,
    assume: Sequence[str] = (),
    at: str | None = None,
    tell: Tell | None = None,
) -> Planned:
    """The current plan, the plan for assumed inputs, or the plan of an earlier run. `tell` receives notes."""
    check_type("at", at, (str, type(None)), "the name of a run, such as 'r0002'")
    if at is not None:
        if assume or options != PlanOptions():
            raise error(
                "USAGE",
                f"the plan of {at} has the options of that run; other options have no effect on it",
                hint="omit `--up`, `--target`, `--force` and `--assume`",
            )
        return plan_of_run(project, at)
    if assume:
        return assumed_plan(project, options, assume)
    snapshot = project.snapshot(force=options.force)
    return plan_now(project, snapshot, options, tell)


def plan_now(project: Project, snapshot: PlanningSnapshot, options: PlanOptions, tell: Tell | None = None) -> Planned:
    """The current plan. If the project has a shared store, its results can be reused."""
    if project.shared_store is None:
        return Planned(compute_execution_plan(snapshot, options), snapshot)
    from whyrun.execution.sharing.sharing import Sharing

    sharing = Sharing(project.shared_store, project.folder, project.store, tell or _warn)
    try:
        return Planned(*sharing.plan(snapshot, options))
    finally:
        sharing.close()


def _warn(text: str) -> None:
    import warnings

    warnings.warn(text, RuntimeWarning, stacklevel=2)


def assumed_plan(project: Project, options: PlanOptions, assume: Sequence[str]) -> Planned:
    from whyrun.planning.answers import whatif
    from whyrun.planning.settling import settled
    from whyrun.snapshot.observing.observe import InputObserver

    inputs, assumptions = whatif.assume(
        project.workflow, project.inputs, assume, InputObserver(project.folder, project.cache)
    )
    log, observer, ask = project.history(), project.observer(), project.ask_about_files

    def build(known: frozenset[str]) -> PlanningSnapshot:
        graph = project.expand(project.workflow, inputs, recorded_results(log, known))
        parameter_problems = project.parameter_problems(graph)
        if parameter_problems:
            raise InvalidError(parameter_problems)
        graph = project.with_asked_outputs(graph)
        actions = _actions_with(project, inputs)
        return build_planning_snapshot(graph, log, observer, actions, ask=ask, running=log.running)

    snapshot = settled(build, options.force)
    snapshot = with_estimates(snapshot, project.folder, project.store.path, project.infos, project.inspector)
    return Planned(compute_execution_plan(snapshot, options), snapshot, assumptions)


def _actions_with(project: Project, inputs: Mapping[str, InputValue]) -> Mapping[str, ActionFacts]:
    """The actions, which may depend on inputs: `uses: ${{ inputs.Model }}`."""
    from whyrun.graph.slots import declared_jobs
    from whyrun.snapshot.actions.lookup import look_up_actions

    jobs = dict(declared_jobs(project.workflow, inputs, []))
    if all(decl.uses_by is None for decl in jobs.values()):
        return project.actions
    looked_up = look_up_actions(jobs, project.folder, project.inspector, project.state_dir)
    if problems := [problem for found in looked_up.values() for problem in found.problems]:
        raise InvalidError(problems)
    return {name: found.facts for name, found in looked_up.items() if found.facts is not None}


def plan_of_run(project: Project, name: str) -> Planned:
    """The plan of a run, computed again from the earlier log and the recorded snapshot. It must be the same."""
    from whyrun.log import events as ev
    from whyrun.planning.stages import compute_stage, with_stages
    from whyrun.snapshot.history.replay import replay_snapshot

    run = project.state.run(name)
    start: ev.RunStart | None = None
    computed: ev.PlanComputed | None = None
    stages: list[ev.PlanComputed] = []
    for event in run.events():
        if isinstance(event, ev.RunStart):
            start = event
        elif isinstance(event, ev.PlanComputed):
            if event.stage is not None:
                stages.append(event)
                continue
            computed = event
            if not (run.path / STAGES_FILE).exists():
                break  # the rest of the log may be long
    if start is not None and start.mode != "run":
        raise error("USAGE", f"{name} is a run of mode `{start.mode}`: it has no plan", hint="see `whyrun runs`")
    if start is None or computed is None:
        raise error(
            "LOG_INCOMPLETE",
            f"{name} has no `plan_computed`",
            file=str(run.events_path),
            hint="the run was killed before its plan was recorded" if start else "restore the file from a copy",
        )
    log = project.history(through=run.number - 1)
    blob = project.store.read(computed.snapshot_sha256)
    snapshot = replay_snapshot(blob, log)
    recorded = start.options
    options = PlanOptions(recorded.get("up"), tuple(recorded.get("targets", ())), tuple(recorded.get("force", ())))
    first = compute_execution_plan(snapshot, options)
    plans: dict[str, Plan] = {}  # by the source of the stage
    blobs: list[bytes] = []
    try:
        _check_reproduced(first, computed, "plan")
        for stage in stages:
            blobs.append(project.store.read(stage.snapshot_sha256))
            of_stage = replay_snapshot(blob, log, blobs[-1])
            before = [first, *(plan for source, plan in plans.items() if source in of_stage.made)]
            known = {job.id: job for plan in before for job in plan.jobs}
            plans[stage.source or ""] = compute_stage(of_stage, options, stage.source or "", known).plan
            _check_reproduced(plans[stage.source or ""], stage, f"stage {stage.stage}")
    except _Otherwise as different:
        pruned = [stone.run for stone in log.tombstones]
        if pruned:
            some = pruned[0] if len(pruned) == 1 else f"{len(pruned)} from {pruned[0]} to {pruned[-1]}"
            raise error(
                "RUN_PRUNED",
                f"the plan of {name} cannot be computed again: it depends on runs that were pruned ({some})",
                file=str(run.events_path),
                hint=f"`{run.path / 'plan.json'}` has the recorded plan with its reasons",
            ) from None
        raise error(
            "LOG_DAMAGED",
            f"the {different.what} of {name} is not reproduced: recorded is sha256:{different.recorded}, "
            f"computed {different.computed}",
            file=str(run.events_path),
            hint=f"the log before {name} was changed, or whyrun planned otherwise when it was recorded (by version "
            f"{start.engine_version}): `{run.path / 'plan.json'}` has the recorded plan",
        ) from None
    if not stages:
        return Planned(first, snapshot)
    snapshot = replay_snapshot(blob, log, *blobs)
    return Planned(with_stages(first, plans.values(), snapshot.dependency_graph), snapshot, first=first)


class _Otherwise(Exception):
    """A plan is computed otherwise than it is recorded."""

    def __init__(self, what: str, recorded: str, computed: str) -> None:
        self.what, self.recorded, self.computed = what, recorded, computed


def _check_reproduced(plan: Plan, recorded: ev.PlanComputed, what: str) -> None:
    if plan.digest != f"sha256:{recorded.plan_sha256}":
        raise _Otherwise(what, recorded.plan_sha256, plan.digest)
