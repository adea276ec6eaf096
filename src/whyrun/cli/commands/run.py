"""`whyrun run`: plan, say so, execute exactly that, and say what came of it."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from whyrun.cli.main import note_lost_runs, note_running, plan_options, print_json, words_of, world_options
from whyrun.cli.place import place_options
from whyrun.cli.saved_plan import saved_plan
from whyrun.cli.talk import Talk, talk_options, telling_what_is_refused

if TYPE_CHECKING:
    from pathlib import Path

    from whyrun.console.logger import WorkflowLogger
    from whyrun.console.render import Failure
    from whyrun.execution.checks import RunOptions
    from whyrun.execution.compare import CompareResult
    from whyrun.execution.session import RunResult
    from whyrun.log.events import StepSkipped
    from whyrun.planning.plan import Plan, PlanOptions
    from whyrun.snapshot.snapshot import PlanningSnapshot
    from whyrun.snapshot.world import World


@click.command("run")
@world_options
@plan_options
@click.option(
    "--jobs", "-j", type=click.IntRange(min=0), default=0, metavar="N", help="Steps at a time; 0: one a core."
)
@place_options
@click.option("--fail-fast", is_flag=True, help="Stop everything at the first failure.")
@click.option("--limit", "limits", multiple=True, metavar="NAME=N", help="How much of a resource there is. Repeatable.")
@click.option("--plan", "plan_file", metavar="FILE", help="Run a plan saved by `whyrun plan --save`, or refuse it.")
@click.option("--dry-run", is_flag=True, help="Say what would be done; execute and record nothing.")
@talk_options
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on stdout; talk stays on stderr.")
@click.pass_context
def command(
    context: click.Context,
    world: World,
    options: PlanOptions,
    jobs: int,
    backend: str,
    dask_address: str | None,
    fail_fast: bool,
    limits: tuple[str, ...],
    plan_file: str | None,
    dry_run: bool,
    talk: Talk,
    as_json: bool,
) -> None:
    """Run what the plan says, and nothing else.

    A failure stops only what depends on it. Exit status: 0 all well (also: nothing to do), 1 a job failed or timed
    out, 2 something is invalid and nothing ran, 3 the state does not allow it (locked, damaged, a stale plan), 130
    interrupted.

    Ctrl-C starts nothing more and gives what runs 10 seconds to end; a second one ends it at once.

    \b
    Example:
      whyrun run
      whyrun run --jobs 4 --limit gpu=1
      whyrun run --backend sandbox
      whyrun run --target Job:Montage --force 'Job:Clip[*]'
      whyrun run --log-level all --log-file today.log
      whyrun plan --save today.json && whyrun run --plan today.json
    """
    from whyrun.execution.checks import RunOptions

    saved = None
    with telling_what_is_refused(world, talk):
        if plan_file is not None:
            options, saved = saved_plan(plan_file, options, world)
        run_options = RunOptions(
            jobs=jobs, fail_fast=fail_fast, limits=parse_limits(limits), backend=backend, dask_address=dask_address
        )
        if dry_run:
            would_run(world, options, saved, run_options, talk, as_json=as_json)
            return
        code = execute(world, options, saved, run_options, talk, as_json=as_json)
    context.exit(code)


# --- options -----------------------------------------------------------------------------------------------------


def parse_limits(texts: tuple[str, ...]) -> dict[str, float]:
    from whyrun.errors import error

    found: dict[str, float] = {}
    for text in texts:
        name, equals, number = text.partition("=")
        try:
            value = float(number)
        except ValueError:
            value = -1.0
        if not equals or not name or not 0 <= value < float("inf"):
            raise error("USAGE", f"`--limit {text}` is not NAME=N, with N from 0 up", hint="write `--limit gpu=1`")
        if name in found:
            raise error("USAGE", f"`--limit {name}=…` is given twice", hint="give one limit for each resource")
        found[name] = value
    return found


# --- a dry run ---------------------------------------------------------------------------------------------------


def would_run(
    world: World,
    options: PlanOptions,
    saved: dict[str, Any] | None,
    run_options: RunOptions,
    talk: Talk,
    *,
    as_json: bool,
) -> None:
    """What a run would do, from the same plan. Nothing is locked, executed or recorded."""
    from whyrun.api import Planned, plan_now
    from whyrun.cli.talk import tell_note
    from whyrun.console.foretold import dry_run_lines, untouched_lines
    from whyrun.console.lines import LogLevel, TaskStatus
    from whyrun.console.render import expectation
    from whyrun.evidence.metrics import expected_peak
    from whyrun.execution.checks import check_folders, check_limits, check_resources, resource_limits
    from whyrun.execution.run_secrets import missing_secrets
    from whyrun.execution.session import check_expected
    from whyrun.log.journal import utc_now
    from whyrun.planning.explain import expected_durations, headline

    note_running(world)
    note_lost_runs(world, tell_note)
    snapshot = world.snapshot()
    plan = plan_now(world, snapshot, options, tell_note)
    check_expected(plan, saved)
    check_limits(world, run_options.limits or {})
    nodes = [job.node for job in plan.planned]
    check_resources(snapshot, nodes, resource_limits(world, run_options))
    check_folders(world, nodes)
    estimate = Planned(plan, snapshot).estimate(run_options.jobs)
    workers = run_options.jobs or os.cpu_count() or 1
    peak = expected_peak(plan, snapshot, world.state.runs(), workers)
    if as_json:
        print_json(
            {
                "dry_run": True,
                "estimate_seconds": estimate,
                "estimate_peak_memory_bytes": peak,
                "plan": plan.to_json(),
            }
        )
        return
    logger = talk.logger(sys.stdout)  # the lines are what was asked for: data
    logger.say(headline(plan, estimate), "bold")
    now = utc_now().astimezone()
    for line in dry_run_lines(plan, snapshot, expected_durations(plan, snapshot), world.project, now):
        logger.line(line)
    if logger.log_level >= LogLevel.ALL:
        for line in untouched_lines(plan, snapshot, world.project, now, TaskStatus.WOULD_SKIP):
            logger.line(line)
    if any(job.reuse is None for job in plan.planned):
        logger.say(expectation(estimate, peak))
    for name in missing_secrets(world, snapshot, plan):
        logger.note(f"the variable `{name}` is not in the environment; `whyrun run` needs it")
    click.echo("dry run: nothing was executed or recorded", err=True)


# --- a run -------------------------------------------------------------------------------------------------------


def execute(
    world: World,
    options: PlanOptions,
    saved: dict[str, Any] | None,
    run_options: RunOptions,
    talk: Talk,
    *,
    as_json: bool,
) -> int:
    from whyrun.evidence.current import leftover_places
    from whyrun.execution.session import run_workflow

    logger = talk.logger(sys.stderr)
    workers = run_options.jobs or os.cpu_count() or 1
    seen: list[PlanningSnapshot] = []

    def on_plan(plan: Plan, snapshot: PlanningSnapshot) -> None:
        seen.append(snapshot)
        foretell(logger, plan, snapshot, world.project, workers)

    note_lost_runs(world, logger.note)
    try:
        result = run_workflow(world, options, run_options, logger, saved_plan=saved, on_plan=on_plan)
    finally:
        logger.finish()
    failures = failures_of(world, result)
    saved_time = seconds_saved(world, result, seen[0])
    if result.run is not None:
        style = "green" if result.exit_code == 0 else "red"
        again = option_words(options, run_options, unfinished_forced(world, result))
        logger.say(summary(world, result, failures, saved_time, again), style)
        left = leftover_places(seen[0].records, seen[0].dependency_graph, world.observer().stands)
        if left:
            what, them = ("file or section belongs", "it") if left == 1 else ("files or sections belong", "them")
            said = f"{left} published {what} to no job any more"
            logger.note(f"{said}: `whyrun status{words_of(world)}` lists {them}")
    if as_json:
        found = {**result.to_json(), "saved_seconds": round(saved_time, 3)}
        print_json({**found, "failed": [failure.to_json() for failure in failures]})
    return result.exit_code


def foretell(logger: WorkflowLogger, plan: Plan, snapshot: PlanningSnapshot, project: Path, workers: int) -> None:
    """What is to be done, and at level `all` what is not."""
    from whyrun.console.foretold import untouched_lines
    from whyrun.console.lines import LogLevel, TaskStatus, listed
    from whyrun.log.journal import utc_now
    from whyrun.planning.explain import Fate, estimate_seconds, expected_durations, fate_of_adopted, headline

    durations = expected_durations(plan, snapshot)
    logger.expect(durations, workers)
    logger.say(headline(plan, estimate_seconds(plan, durations, workers)), "bold")
    told = {
        Fate.EXECUTED: "made anew now",
        Fate.REUSED: "replaced by an earlier result now",
        Fate.OPEN: "kept only if what comes from upstream is as before",
    }
    for fate, how in told.items():
        replaced = [one for job in plan.planned if fate_of_adopted(job) == fate for one in job.replaces]
        if replaced:
            logger.note(f"adopted, and {how}: {listed(replaced)}; `whyrun restore` brings an adopted version back")
    if logger.log_level >= LogLevel.ALL:
        for line in untouched_lines(plan, snapshot, project, utc_now().astimezone(), TaskStatus.SKIPS):
            logger.line(line)


FORCED_SHOWN = 5  # jobs by name; more are named as they were


def option_words(options: PlanOptions, run_options: RunOptions, unfinished: list[str]) -> str:
    """What another `whyrun run` needs to be like this one. `unfinished`: forced jobs that did not come to their end."""
    import shlex

    words = [] if options.up is None else ["--up", str(options.up)]
    for forced in unfinished if len(unfinished) <= FORCED_SHOWN else options.force:
        words += ["--force", forced]
    for target in options.targets:
        words += ["--target", target]
    words += ["--jobs", str(run_options.jobs)] if run_options.jobs else []
    for name, limit in (run_options.limits or {}).items():
        words += ["--limit", f"{name}={limit:g}"]
    words += ["--fail-fast"] if run_options.fail_fast else []
    words += ["--backend", run_options.backend] if run_options.backend != "local" else []
    words += ["--dask-address", run_options.dask_address] if run_options.dask_address is not None else []
    return "".join(f" {shlex.quote(word)}" for word in words)


def summary(world: World, result: RunResult, failures: list[Failure], saved_time: float, options: str) -> str:
    from whyrun.console.render import relative, run_summary

    assert result.run is not None
    return run_summary(
        result.run,
        result.state,
        asdict(result.counts),
        result.plan.totals,
        result.statuses,
        result.duration,
        saved_time,
        result.usage.to_json(),
        failures,
        relative(world.state.runs_dir / result.run),
        words_of(world),
        options,
        "" if result.shared is None else result.shared.told(),
    )


def seconds_saved(world: World, result: RunResult, snapshot: PlanningSnapshot) -> float:
    """What it took to make what was not made again: here, as logged, or with others, as they say."""
    from whyrun.console.render import saved_seconds

    reused = reused_steps(world, result) if result.counts.reused else []
    own = [event.step_id for event in reused if event.shared is None]
    of_others: list[float] = [event.shared.get("duration", 0.0) for event in reused if event.shared is not None]
    return saved_seconds(result.plan, snapshot, own) + sum(of_others)


def failures_of(world: World, result: RunResult | CompareResult) -> list[Failure]:
    """The failures that were final, from the log: it is the truth, also about how we ended."""
    from whyrun.cli.failures import failure_place
    from whyrun.console.render import Failure
    from whyrun.execution.confined import sandbox_note
    from whyrun.log.outcomes import fold_outcome

    if result.run is None or result.exit_code == 0:
        return []
    outcome = fold_outcome(world.state.run(result.run).events())
    backend = outcome.start.backend if outcome.start is not None else ""
    found = []
    for step, f in outcome.failures.items():
        table, _ = world.graph.table_at(world.graph.node_of[step])
        note = sandbox_note(backend, table.decl.sandbox, f.error_type, f.error) if f.status == "FAILED" else ""
        place = failure_place(f.traceback, world.project)
        found.append(Failure(step, f.status, f.error_type, f.error, place, note, bool(f.traceback)))
    return found


def unfinished_forced(world: World, result: RunResult) -> list[str]:
    """Forced jobs that an interrupted run did not execute to the end. Without `--force` an earlier result of theirs
    would be taken, since an interruption says nothing against it."""
    from whyrun.log.outcomes import fold_outcome
    from whyrun.planning.reasons import Forced

    if result.run is None or result.state != "interrupted":
        return []
    outcome = fold_outcome(world.state.run(result.run).events())
    forced = [job.id for job in result.plan.planned if any(isinstance(reason, Forced) for reason in job.reasons)]
    return [id_ for id_ in forced if outcome.steps.get(id_) != "completed"]


def reused_steps(world: World, result: RunResult) -> list[StepSkipped]:
    from whyrun.log.events import StepSkipped

    assert result.run is not None
    events = world.state.run(result.run).events()
    return [event for event in events if isinstance(event, StepSkipped) and event.why == "reused"]
