"""RESULTS → STAGES: once a run has made what a loop goes over, the instances of the loop are planned and join the run.

The plan of a stage is made by `planning.stages`. Here is what a run needs around it: what it has made so far, the
snapshot, the record, and the step states of the run in the graph that knows the new instances. Nothing waits for a
stage that does not need it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from whyrun.console.lines import count
from whyrun.errors import Diagnostic, InvalidError, WhyrunError
from whyrun.execution.dispatch.code_guard import CodeGuard
from whyrun.execution.dispatch.dispatch import PreparedStep
from whyrun.execution.dispatch.run_secrets import RunSecrets
from whyrun.execution.run.preflight import check_folders
from whyrun.execution.run.scheduler import Scheduler
from whyrun.execution.run.step_outcomes import StepResults
from whyrun.graph.tables import ArtifactAt, Graph, JobTable
from whyrun.log import events as ev
from whyrun.planning.consume import Consumption, Entry, Members
from whyrun.planning.judge import Judge
from whyrun.planning.plan import Plan, PlannedJob, PlanOptions
from whyrun.planning.reasons import Forced
from whyrun.planning.stages import compute_stage, open_source, settled_stage, steps_before, with_stages
from whyrun.snapshot.actions.known_inputs import with_estimates
from whyrun.snapshot.build import build_planning_snapshot
from whyrun.snapshot.history.replay import stage_blob
from whyrun.snapshot.observing.steady import SteadyObserver
from whyrun.snapshot.records import MadeOutput
from whyrun.snapshot.results import recorded_results
from whyrun.snapshot.snapshot import PlanningSnapshot

if TYPE_CHECKING:
    from whyrun.execution.run.runner import Runner
    from whyrun.project import Project
    from whyrun.snapshot.history.reader import History

_Made = dict[str, dict[str, MadeOutput] | None]


@dataclass(frozen=True, slots=True)
class Work:
    """What a runner executes: the plan, on the snapshot that it was made from."""

    snapshot: PlanningSnapshot
    plan: Plan
    code: CodeGuard
    secrets: RunSecrets


def forced_in(plan: Plan) -> set[int]:
    return {job.node for job in plan.planned if any(isinstance(reason, Forced) for reason in job.reasons)}


class StagePlanner:
    """Plans the stages of one run. It is made before the first plan, so that all of them see the same."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.history: History = project.history()
        self.observer = SteadyObserver(project.observer())

    def snapshot(self, first: PlanningSnapshot, made: _Made, known: frozenset[str]) -> PlanningSnapshot:
        """`first`: of the first plan of the run. `made`: what is known beside it. `known`: results of earlier runs that
        loops go over."""
        project = self.project
        graph = project.expand(project.workflow, project.inputs, recorded_results(self.history, known, made))
        graph = project.with_asked_outputs(graph)
        if problems := project.parameter_problems(graph):
            raise InvalidError(problems)
        with project.cache.with_parallel_stat():
            ask, running = project.ask_about_files, self.history.running
            snapshot = build_planning_snapshot(
                graph, self.history, self.observer, first.actions, None, ask, running, made
            )
        snapshot = snapshot.with_shared(first.shared)
        return with_estimates(snapshot, project.folder, project.store.path, project.infos, project.inspector)


class Stages:
    """The stages of one run, as its runner meets them."""

    def __init__(self, planner: StagePlanner, first: PlanningSnapshot, plan: Plan, snapshot_sha256: str) -> None:
        """`snapshot_sha256`: of the stored first snapshot."""
        self._planner, self._first, self._first_plan, self._first_sha256 = planner, first, plan, snapshot_sha256
        self.plans: dict[str, Plan] = {}  # by the job that is the source, in the order in which they were made
        self._made: _Made = {}  # all that stages know of
        self._known: dict[str, frozenset[str]] = {}  # by source as well: the results of earlier runs that it knows
        self._problems: dict[str, str] = {}  # result or job that is a source → why no instances could be planned

    def examine(self, runner: Runner, node: int, table: JobTable, position: int) -> None:
        """An entry `[?]` whose source has ended."""
        graph = runner.graph
        source = open_source(graph, table, position)
        assert source is not None
        id_, maker = graph.artifact_id(source), graph.node(source)
        job = graph.job_id(maker)
        if maker in runner.states and runner.states[maker] == "inactive":
            runner.outcomes.inactive(table, position, Consumption(inactive_by=id_))
            runner.scheduler.move(node, "deactivate")
        elif runner.states.has_failed(maker):
            runner.outcomes.blocked(table, position, [job])
            runner.scheduler.move(node, "block")
        elif (problem := self._problems.get(id_) or self._problems.get(job)) is not None:
            runner.outcomes.blocked(table, position, [job], problem)
            runner.scheduler.move(node, "block")
        else:
            try:
                self._start(runner, maker, job)
            except WhyrunError as refused:
                self._problems[job] = _told(refused.diagnostics[0])
                self.examine(runner, node, table, position)

    def _start(self, runner: Runner, source: int, job: str) -> None:
        """Plan the instances that this step decides about."""
        graph, results = runner.graph, runner.results
        steps = sorted(steps_before(graph, source, runner.states))
        made = {graph.job_id(node): results.made_by(node) for node in steps}
        by = [source for source in self.plans if source in made]
        before = {each.id: each for plan in (self._first_plan, *map(self.plans.__getitem__, by)) for each in plan.jobs}
        known = _known(self._first).union(*map(self._known.__getitem__, by))
        first, options = self._first, self._first_plan.options
        snapshot = settled_stage(lambda now: self._planner.snapshot(first, made, now), options, job, before, known)
        stage = compute_stage(snapshot, options, job, before)
        known, all_made = _known(snapshot), self._made | made
        all_known = snapshot
        if len(all_made) > len(made):
            all_known = self._planner.snapshot(first, all_made, known.union(*self._known.values()))
        instances = {each.id for each in stage.plan.planned}
        in_all = all_known.dependency_graph
        check_folders(self._planner.project.folder, in_all, sorted(map(in_all.node_of.__getitem__, instances)))
        # Only now: what a refused stage knows counts for no other one.
        self._made, self._known[job] = all_made, known
        self._problems |= {id_: _told(problem) for id_, problem in stage.refused.items()}
        self.plans[job] = stage.plan
        self._record(runner, snapshot, stage.plan, told=bool(stage.plan.totals["jobs"] or not stage.refused))
        plan = with_stages(self._first_plan, self.plans.values(), all_known.dependency_graph)
        go_on_with(runner, all_known, plan, {each.id for each in stage.plan.jobs})

    def _record(self, runner: Runner, snapshot: PlanningSnapshot, plan: Plan, *, told: bool) -> None:
        recorder, store = runner.recorder, runner.recorder.store
        for data in plan.blobs.values():
            store.put_bytes(data)
        number = len(self.plans)
        recorder.directory.append_stage(plan.to_bytes({"stage": number}))
        recorder.event(
            ev.PlanComputed(
                plan_sha256=plan.digest.removeprefix("sha256:"),
                snapshot_sha256=store.put_bytes(stage_blob(snapshot, self._first_sha256)),
                planned=len(plan.planned),
                layers=len(plan.layers),
                log_position=dict(plan.log_position) if plan.log_position else None,
                stage=number,
                source=plan.source,
            )
        )
        plan.forget_written()
        if told:
            text = f"{plan.source} has ended: {_in_words(plan)}"
            recorder.reporter.planned([job.id for job in plan.planned], text)


def _known(snapshot: PlanningSnapshot) -> frozenset[str]:
    """The results of earlier runs and of this one that loops go over."""
    results = snapshot.dependency_graph.results
    return frozenset((*results.taken, *results.refused))


def _told(problem: Diagnostic) -> str:
    return f"{problem.code}: {problem.message}" + (f"; {problem.hint}" if problem.hint else "")


def _in_words(stage: Plan) -> str:
    """What is known now."""
    totals = stage.totals
    if not totals["jobs"]:
        return "its loops have no values"
    names = ("planned", "to run"), ("reused", "reused"), ("clean", "up to date"), ("inactive", "inactive")
    more = ("deferred", "deferred"), ("open", "open until their loops are known")
    parts = [f"{totals[name]} {text}" for name, text in (*names, *more) if totals[name]]
    return f"{count(totals['jobs'], 'instance')} known now, {', '.join(parts)}"


# --- the same steps in a graph that knows more instances -------------------------------------------------------------


class Renumbering:
    """Their nodes and rows have other numbers there."""

    def __init__(self, before: Graph, now: Graph) -> None:
        self._before, self._now = before, now
        self._rows: dict[int, Sequence[int | None]] = {}  # by table: the new position of each row

    def node(self, before: int) -> int:
        """The node of a step that both graphs have."""
        found = self.find(before)
        assert found is not None, f"{self._before.job_id(before)} is gone"
        return found

    def find(self, before: int) -> int | None:
        """None: an entry `[?]` that became known."""
        table, position = self._before.table_at(before)
        row = self._row(table.number, position)
        return None if row is None else self._now.tables[table.number].base + row

    def step(self, step: PreparedStep) -> PreparedStep:
        node = self.node(step.node)
        table, position = self._now.table_at(node)
        return PreparedStep(step.id, node, table, position, self._consumption(step.consumed), step.fingerprint)

    def _row(self, table: int, position: int) -> int | None:
        rows = self._rows.get(table)
        if rows is None:
            before, now = self._before.tables[table], self._now.tables[table]
            assert before.name == now.name
            same = before.rows is now.rows or before.rows == now.rows
            rows = range(len(now)) if same else [now.position_of.get(row) for row in before.rows]
            self._rows[table] = rows
        return rows[position]

    def _consumption(self, consumed: Consumption) -> Consumption:
        entries = {
            name: self._members(one) if isinstance(one, Members) else self._entry(one)
            for name, one in consumed.entries.items()
        }
        observed = None if consumed.observed is None else self._members(consumed.observed)
        return replace(consumed, entries=entries, observed=observed, singles={}, groups=[])

    def _members(self, members: Members) -> Members:
        return Members(map(self._entry, members))

    def _entry(self, entry: Entry) -> Entry:
        source = entry.source
        if not isinstance(source, ArtifactAt):
            return entry
        row = self._row(source.table, source.position)
        assert row is not None, "a step has consumed what no step has made"
        return replace(entry, source=source._replace(position=row))


def go_on_with(runner: Runner, snapshot: PlanningSnapshot, plan: Plan, new: set[str]) -> None:
    """The runner goes on with the plan that has the jobs of a stage (`new`), in the graph that knows them."""
    graph = snapshot.dependency_graph
    moved = Renumbering(runner.graph, graph)
    runner.look_at(snapshot, plan)
    states = {node: state for old, state in runner.states.items() if (node := moved.find(old)) is not None}
    rates = runner.scheduler.rates
    rates.renumber(moved.node)
    runner.scheduler = Scheduler(graph, plan, runner.policy.limits, rates, states=states)
    runner.states = runner.scheduler.states
    runner.retries.renumber(moved.node)
    results = {moved.node(node): made for node, made in runner.results.made().items()}
    runner.results = StepResults(snapshot, plan, runner.states, results)
    runner.judge = Judge(snapshot, {})
    stage = _part(plan, new)
    runner.reusable.look_at(snapshot)
    runner.reusable.announce_sections(stage)
    runner.reusable.restore_planned(stage)
    runner.watch.look_at(snapshot, stage.planned)
    runner.dispatcher.look_at(snapshot)
    runner.requests.look_at(snapshot, forced_in(plan))
    runner.outcomes.look_at(snapshot)
    runner.spending.look_at(snapshot, stage)
    if runner.sharing is not None:
        runner.sharing.look_at(snapshot, moved.node)
    for active in (*runner.active.values(), *runner.pending_sections.steps):
        active.step = moved.step(active.step)


def _part(plan: Plan, ids: set[str]) -> Plan:
    jobs: tuple[PlannedJob, ...] = tuple(job for job in plan.jobs if job.id in ids)
    return Plan(plan.workflow, plan.log_position, PlanOptions(), plan.totals, None, jobs, "")
