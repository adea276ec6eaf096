"""`whyrun run`: compute the plan, print it, execute it, and print the outcome."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, replace
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from whyrun.cli.options import (
    OutputOptions,
    backend_arguments,
    execution_options,
    output_options,
    plan_options,
    project_options,
    report_misfits,
)
from whyrun.cli.output import note_lost_runs, note_narrow_patterns, note_running, print_json, print_note
from whyrun.cli.saved_plan import saved_plan
from whyrun.facts.show import failure_location
from whyrun.facts.subjects import command_arguments

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from whyrun.console.logger import WorkflowLogger
    from whyrun.console.render import Failure
    from whyrun.execution.backends.registry import RunOptions
    from whyrun.execution.compare.compare import CompareResult
    from whyrun.execution.run.session import RunResult
    from whyrun.graph.tables import Graph
    from whyrun.log.events import StepSkipped
    from whyrun.money import Totals
    from whyrun.planning.plan import Plan, PlanOptions
    from whyrun.project import Project
    from whyrun.snapshot.snapshot import PlanningSnapshot


def _budget_in_one_word(function: Any) -> Any:
    """Refuse `--budget 5 EUR` without quotes, where `EUR` would be the workflow file."""

    @wraps(function)
    def checked(file: str | None, budget: str | None, **rest: Any) -> Any:
        if budget is not None and file is not None and not os.path.exists(file):
            from whyrun.errors import error
            from whyrun.money import is_amount

            if is_amount(amount := f"{budget} {file.upper()}"):
                what = f"`--budget {budget} {file}` is two arguments"
                raise error("USAGE", what, hint=f"write `--budget '{amount}'`")
        return function(file=file, budget=budget, **rest)

    return checked


@click.command("run")
@_budget_in_one_word
@project_options
@plan_options
@execution_options
@click.option("--plan", "plan_file", metavar="FILE", help="Run a plan saved by `whyrun plan --save`.")
@click.option("--budget", metavar="AMOUNT", help="What the run may spend at most: 5, or '5 EUR'.")
@click.option("--dry-run", is_flag=True, help="Show what would be done; execute and record nothing.")
@click.option("--otel", metavar="URL", help="Send the trace of the run to this OTLP receiver while it goes on.")
@output_options
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on stdout; progress is on stderr.")
@click.pass_context
def command(
    context: click.Context,
    project: Project,
    options: PlanOptions,
    run_options: RunOptions,
    plan_file: str | None,
    budget: str | None,
    dry_run: bool,
    otel: str | None,
    output: OutputOptions,
    as_json: bool,
) -> None:
    """Run the jobs of the plan.

    A failure stops only the jobs that depend on it. A saved plan that is out of date is refused.

    Ctrl-C starts no further step, asks the running steps to stop (SIGTERM) and waits up to 10 seconds for them; a
    second Ctrl-C kills them.

    Exit status: 0 success, also if there was nothing to do; 1 a job failed or timed out; 2 something is invalid and
    nothing ran; 3 the state does not allow it: locked, damaged, or the saved plan is out of date; 130 interrupted.

    \b
    Example:
      whyrun run
      whyrun run --jobs 4 --limit gpu=1
      whyrun run --backend sandbox
      whyrun run --budget 5
      whyrun run --otel http://localhost:4318
      whyrun run --target Job:Montage --force 'Job:Clip[*]'
      whyrun run --log-level all --log-file today.log
      whyrun plan --save today.json && whyrun run --plan today.json
    """
    run_options = replace(run_options, budget=budget)
    saved = None
    with report_misfits(project, output):
        if plan_file is not None:
            options, saved = saved_plan(plan_file, options, project)
        if dry_run:
            print_dry_run(project, options, saved, run_options, output, as_json=as_json)
            return
        code = execute(project, options, saved, run_options, output, as_json=as_json, otel=otel)
    context.exit(code)


# --- a dry run ---------------------------------------------------------------------------------------------------


def print_dry_run(
    project: Project,
    options: PlanOptions,
    saved: dict[str, Any] | None,
    run_options: RunOptions,
    output: OutputOptions,
    *,
    as_json: bool,
) -> None:
    """Print what a run would do, from the same plan. Nothing is locked, executed or recorded."""
    from whyrun.console.lines import LogLevel, TaskStatus
    from whyrun.console.preview import dry_run_lines, untouched_lines
    from whyrun.console.render import expectation
    from whyrun.evidence.run_directory import expected_peak
    from whyrun.execution.dispatch.run_secrets import missing_secrets
    from whyrun.execution.run.budget import budget_of
    from whyrun.execution.run.preflight import check_folders, check_limits, check_resources, resource_limits
    from whyrun.execution.run.session import check_expected
    from whyrun.facts.plans import plan_now
    from whyrun.log.journal import utc_now
    from whyrun.planning.answers.explain import expected_durations, headline

    note_running(project)
    note_lost_runs(project, print_note)
    planned = plan_now(project, project.snapshot(force=options.force), options, print_note)
    plan, snapshot = planned.plan, planned.snapshot
    note_narrow_patterns(snapshot.dependency_graph, [*options.force, *options.targets])
    check_expected(plan, snapshot, saved)
    check_limits(project, run_options.limits or {})
    nodes = [job.node for job in (*plan.planned, *plan.open)]
    check_resources(snapshot, nodes, resource_limits(project, run_options), project.config.rates)
    check_folders(project.folder, snapshot.dependency_graph, nodes)
    for note in (*planned.price_notes(), *budget_of(project, run_options, plan, snapshot).notes):
        print_note(note)
    estimate, prices = planned.estimate(run_options.jobs), planned.prices()
    workers = run_options.jobs or os.cpu_count() or 1
    peak = expected_peak(plan, snapshot, project.state.runs(), workers)
    if as_json:
        print_json(
            {
                "dry_run": True,
                "estimate_seconds": estimate,
                "estimate_peak_memory_bytes": peak,
                **({"prices": prices.to_json()} if prices is not None else {}),
                "plan": plan.to_json(),
            }
        )
        return
    logger = output.logger(sys.stdout)  # these lines are the answer, so they go to stdout
    logger.say(headline(plan, estimate, prices), "bold")
    now = utc_now().astimezone()
    for line in dry_run_lines(plan, snapshot, expected_durations(plan, snapshot), prices, project.folder, now):
        logger.line(line)
    if logger.log_level >= LogLevel.ALL:
        for line in untouched_lines(plan, snapshot, project.folder, now, TaskStatus.WOULD_SKIP):
            logger.line(line)
    if any(job.reuse is None for job in plan.planned):
        logger.say(expectation(estimate, peak, "" if prices is None else prices.text()))
    for name in missing_secrets(project, snapshot, plan):
        logger.note(f"the variable `{name}` is not in the environment; `whyrun run` needs it")
    click.echo("dry run: nothing was executed or recorded", err=True)


# --- a run -------------------------------------------------------------------------------------------------------


def execute(
    project: Project,
    options: PlanOptions,
    saved: dict[str, Any] | None,
    run_options: RunOptions,
    output: OutputOptions,
    *,
    as_json: bool,
    otel: str | None = None,
) -> int:
    from whyrun.evidence.queries.current import count_leftover_files
    from whyrun.execution.run.session import run_workflow

    logger = output.logger(sys.stderr)
    workers = run_options.jobs or os.cpu_count() or 1
    snapshots: list[PlanningSnapshot] = []

    def on_plan(plan: Plan, snapshot: PlanningSnapshot) -> None:
        snapshots.append(snapshot)
        announce_plan(logger, plan, snapshot, project.folder, workers)

    note_lost_runs(project, logger.note)
    trace = None
    if otel is not None:
        from whyrun.exports.live_trace import LiveTrace, endpoint_of

        trace = LiveTrace(project, endpoint_of(otel), logger.note)
    try:
        result = run_workflow(project, options, run_options, logger, saved_plan=saved, on_plan=on_plan)
    finally:
        if trace is not None:
            trace.finish()
        logger.finish()
    snapshot = result.snapshot or snapshots[0]
    failures = failures_of(project, result, snapshot.dependency_graph)
    saved_time = seconds_saved(project, result, snapshot)
    saved_money = money_saved(project, result, snapshot)
    if result.run is not None:
        style = "green" if result.exit_code == 0 else "red"
        forced = unfinished_forced(project, result)
        again = [rerun_options(options, each, forced) for each in (run_options, replace(run_options, budget=None))]
        logger.say(summary(project, result, failures, saved_time, again, saved_money), style)
        left = count_leftover_files(snapshot.records, snapshot.dependency_graph, project.observer().stands)
        if left:
            what, them = ("file or section belongs", "it") if left == 1 else ("files or sections belong", "them")
            status = f"`whyrun status{command_arguments(project)}` lists {them}"
            logger.note(f"{left} published {what} to no job any more: {status}")
    if as_json:
        body = {**result.to_json(), "saved_seconds": round(saved_time, 3)}
        body |= {"saved": saved_money.to_json()} if saved_money else {}
        print_json({**body, "failed": [failure.to_json() for failure in failures]})
    return result.exit_code


def announce_plan(logger: WorkflowLogger, plan: Plan, snapshot: PlanningSnapshot, project: Path, workers: int) -> None:
    """Print the headline of the plan and, at level `all`, the jobs that are up to date."""
    from whyrun.console.lines import LogLevel, TaskStatus, listed
    from whyrun.console.preview import untouched_lines
    from whyrun.facts.plans import Planned
    from whyrun.log.journal import utc_now
    from whyrun.planning.answers.explain import Fate, estimate_seconds, expected_durations, fate_of_adopted, headline

    durations = expected_durations(plan, snapshot)
    logger.expect(durations, workers)
    planned = Planned(plan, snapshot)
    logger.say(headline(plan, estimate_seconds(plan, durations, workers), planned.prices()), "bold")
    for note in planned.price_notes():
        logger.note(note)
    fates = {
        Fate.EXECUTED: "will be made again",
        Fate.REUSED: "will be replaced by an earlier result",
        Fate.OPEN: "will be kept only if the results of upstream jobs do not change",
    }
    for fate, text in fates.items():
        replaced = [artifact for job in plan.planned if fate_of_adopted(job) == fate for artifact in job.replaces]
        if replaced:
            logger.note(
                f"adopted artifacts that {text}: {listed(replaced)}; `whyrun restore` brings an adopted version back"
            )
    if logger.log_level >= LogLevel.ALL:
        for line in untouched_lines(plan, snapshot, project, utc_now().astimezone(), TaskStatus.SKIPS):
            logger.line(line)


FORCED_SHOWN = 5  # if more forced jobs are unfinished, the hint repeats the `--force` options of this run


def rerun_options(options: PlanOptions, run_options: RunOptions, unfinished: list[str]) -> str:
    """The options that repeat this run. `unfinished` are the forced jobs that this run did not complete."""
    import shlex

    words = [] if options.up is None else ["--up", str(options.up)]
    for forced in unfinished if len(unfinished) <= FORCED_SHOWN else options.force:
        words += ["--force", forced]
    for target in options.targets:
        words += ["--target", target]
    words += ["--jobs", str(run_options.jobs)] if run_options.jobs else []
    for name, limit in (run_options.limits or {}).items():
        words += ["--limit", f"{name}={limit:g}"]
    words += ["--budget", run_options.budget] if run_options.budget is not None else []
    words += ["--fail-fast"] if run_options.fail_fast else []
    words += backend_arguments(run_options)
    return "".join(f" {shlex.quote(word)}" for word in words)


def summary(
    project: Project,
    result: RunResult,
    failures: list[Failure],
    saved_time: float,
    again: Sequence[str],
    saved_money: Totals,
) -> str:
    """`again`: the options that repeat the run, with its budget and without."""
    from whyrun.console.files import relative
    from whyrun.console.render import NextCommands, SummaryFacts, run_summary

    assert result.run is not None
    facts = SummaryFacts(
        run=result.run,
        state=result.state,
        counts=asdict(result.counts),
        totals=result.totals,
        statuses=result.statuses,
        duration=result.duration,
        saved=saved_time,
        usage=result.usage.to_json(),
        failures=failures,
        spent=result.usage.spent.text(),
        budget="" if result.budget is None else str(result.budget),
        spared=saved_money.text(),
        evidence=relative(project.state.runs_dir / result.run),
        shared="" if result.shared is None else result.shared.summary(),
    )
    return run_summary(facts, NextCommands(command_arguments(project), *again))


def seconds_saved(project: Project, result: RunResult, snapshot: PlanningSnapshot) -> float:
    """How long the reused results took when they were made, here or by the others who share them."""
    from whyrun.console.render import saved_seconds

    reused = reused_steps(project, result) if result.counts.reused else []
    own = [event.step_id for event in reused if event.shared is None]
    shared: list[float] = [event.shared.get("duration", 0.0) for event in reused if event.shared is not None]
    return saved_seconds(result.whole or result.plan, snapshot, own) + sum(shared)


def money_saved(project: Project, result: RunResult, snapshot: PlanningSnapshot) -> Totals:
    """What the results cost that this run did not buy again."""
    from whyrun.planning.answers.prices import saved_costs

    reused = reused_steps(project, result) if result.counts.reused else []
    own = [event.step_id for event in reused if event.shared is None]
    return saved_costs(result.whole or result.plan, snapshot, own)


def failures_of(project: Project, result: RunResult | CompareResult, graph: Graph) -> list[Failure]:
    """The final failures, read from the log. `graph`: with all instances that were executed."""
    from whyrun.console.render import Failure
    from whyrun.execution.recording.failure_notes import FailedStep, failure_note
    from whyrun.log.outcomes import fold_outcome

    if result.run is None or result.exit_code == 0:
        return []
    outcome = fold_outcome(project.state.run(result.run).events())
    backend = outcome.start.backend if outcome.start is not None else ""
    failures = []
    for step, f in outcome.failures.items():
        table, _ = graph.table_at(graph.node_of[step])
        failed = FailedStep(graph, table, backend, f.error_type, f.error, project.folder)
        note = failure_note(failed) if f.status == "FAILED" else ""
        location = failure_location(f.traceback, project.folder)
        failures.append(Failure(step, f.status, f.error_type, f.error, location, note, bool(f.traceback)))
    return failures


def unfinished_forced(project: Project, result: RunResult) -> list[str]:
    """Forced jobs that an interrupted run, or one that a budget stopped, did not complete.

    The next run must force them again: neither invalidates the earlier result, so it would be reused.
    """
    from whyrun.log.outcomes import fold_outcome
    from whyrun.planning.reasons import Forced

    if result.run is None or not (result.state == "interrupted" or result.counts.held):
        return []
    outcome = fold_outcome(project.state.run(result.run).events())
    planned = (result.whole or result.plan).planned
    forced = [job.id for job in planned if any(isinstance(reason, Forced) for reason in job.reasons)]
    return [id_ for id_ in forced if outcome.steps.get(id_) != "completed"]


def reused_steps(project: Project, result: RunResult) -> list[StepSkipped]:
    from whyrun.log.events import StepSkipped

    assert result.run is not None
    events = project.state.run(result.run).events()
    return [event for event in events if isinstance(event, StepSkipped) and event.why == "reused"]
