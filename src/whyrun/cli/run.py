"""`whyrun run`: plan, say so, execute exactly that, and say what came of it."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from whyrun.cli.main import note_running, plan_options, print_json, words_of, world_options

if TYPE_CHECKING:
    from whyrun.console.render import Failure
    from whyrun.execution.session import RunOptions, RunResult
    from whyrun.planning.plan import Plan, PlanOptions
    from whyrun.snapshot.snapshot import PlanningSnapshot
    from whyrun.snapshot.world import World


@click.command("run")
@world_options
@plan_options
@click.option(
    "--jobs", "-j", type=click.IntRange(min=0), default=0, metavar="N", help="Steps at a time; 0: one a core."
)
@click.option("--fail-fast", is_flag=True, help="Stop everything at the first failure.")
@click.option("--limit", "limits", multiple=True, metavar="NAME=N", help="How much of a resource there is. Repeatable.")
@click.option("--plan", "plan_file", metavar="FILE", help="Run a plan saved by `whyrun plan --save`, or refuse it.")
@click.option("--dry-run", is_flag=True, help="Say what would be done; execute and record nothing.")
@click.option("--quiet", "-q", is_flag=True, help="Only failures and notes.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on stdout; talk stays on stderr.")
@click.pass_context
def command(
    context: click.Context,
    world: World,
    options: PlanOptions,
    jobs: int,
    fail_fast: bool,
    limits: tuple[str, ...],
    plan_file: str | None,
    dry_run: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Run what the plan says, and nothing else.

    A failure stops only what depends on it. Exit status: 0 all well (also: nothing to do), 1 a job failed or timed
    out, 2 something is invalid and nothing ran, 3 the state does not allow it (locked, damaged, a stale plan), 130
    interrupted.

    \b
    Example:
      whyrun run
      whyrun run --jobs 4 --limit gpu=1
      whyrun run --target Job:Montage --force 'Job:Clip[*]'
      whyrun plan --save today.json && whyrun run --plan today.json
    """
    from whyrun.execution.session import RunOptions

    saved = None
    if plan_file is not None:
        options, saved = saved_plan(plan_file, options, world)
    run_options = RunOptions(jobs=jobs, fail_fast=fail_fast, limits=parse_limits(limits))
    if dry_run:
        would_run(world, options, saved, run_options, quiet=quiet, as_json=as_json)
        return
    context.exit(execute(world, options, saved, run_options, quiet=quiet, as_json=as_json))


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


def saved_plan(path: str, options: PlanOptions, world: World) -> tuple[PlanOptions, dict[str, Any]]:
    """A saved plan and its options: with them the same plan must come out again."""
    from whyrun.errors import error
    from whyrun.planning.plan import PlanOptions

    if options != PlanOptions():
        raise error(
            "USAGE",
            "a saved plan has its own options",
            hint="leave `--up`, `--target` and `--force` away, or leave `--plan` away",
        )
    try:
        with open(path, "rb") as file:
            data = json.loads(file.read())
    except OSError as problem:
        hint = "save one with `whyrun plan --save FILE`"
        raise error("FILE_MISSING", f"the plan `{path}` cannot be read: {problem.strerror}", hint=hint) from None
    except ValueError:
        data = None
    if not _is_plan(data):
        raise error("USAGE", f"`{path}` is no saved plan", hint="save one with `whyrun plan --save FILE`")
    if data["workflow"] != world.workflow.name:
        raise error(
            "USAGE",
            f"`{path}` is a plan of `{data['workflow']}`, and this workflow is `{world.workflow.name}`",
            hint="name the workflow file that it was made for",
        )
    given = data["options"]
    return PlanOptions(given["up"], tuple(given["targets"]), tuple(given["force"])), data


def _is_plan(data: Any) -> bool:
    if not isinstance(data, dict) or not isinstance(data.get("options"), dict):
        return False
    options = data["options"]
    lists = [options.get("targets"), options.get("force")]
    return (
        data.get("version") == 1
        and isinstance(data.get("workflow"), str)
        and isinstance(data.get("digest"), str)
        and (options.get("up") is None or type(options.get("up")) is int)
        and all(isinstance(each, list) and all(isinstance(text, str) for text in each) for each in lists)
        and all(isinstance(data.get(name), dict) for name in ("snapshot", "totals"))
        and isinstance(data.get("jobs"), list)
        and all(_is_job(job) for job in data["jobs"])
    )


def _is_job(job: Any) -> bool:
    return (
        isinstance(job, dict)
        and all(isinstance(job.get(name), str) for name in ("id", "state"))
        and isinstance(job.get("reasons", []), list)
        and all(isinstance(each, dict) and "code" in each for each in job.get("reasons", []))
    )


# --- a dry run ---------------------------------------------------------------------------------------------------


def would_run(
    world: World,
    options: PlanOptions,
    saved: dict[str, Any] | None,
    run_options: RunOptions,
    *,
    quiet: bool,
    as_json: bool,
) -> None:
    """What a run would do, from the same plan. Nothing is locked, executed or recorded."""
    from whyrun.api import Planned
    from whyrun.console.render import Paint, dry_run_lines
    from whyrun.execution.session import check_expected
    from whyrun.log.journal import utc_now
    from whyrun.planning.explain import expected_durations, headline
    from whyrun.planning.plan import compute_execution_plan

    note_running(world)
    snapshot = world.snapshot()
    plan = compute_execution_plan(snapshot, options)
    check_expected(plan, saved)
    estimate = Planned(plan, snapshot).estimate(run_options.jobs)
    if as_json:
        print_json({"dry_run": True, "estimate_seconds": estimate, "plan": plan.to_json()})
        return
    paint = Paint.for_stream(sys.stdout, os.environ)
    click.echo(paint.styled(headline(plan, estimate), "bold"), color=True)
    if not quiet:
        for line, status in dry_run_lines(plan, expected_durations(plan, snapshot), utc_now().astimezone()):
            click.echo(paint.status_line(line, status), color=True)
    click.echo("dry run: nothing was executed or recorded", err=True)


# --- a run -------------------------------------------------------------------------------------------------------


def execute(
    world: World,
    options: PlanOptions,
    saved: dict[str, Any] | None,
    run_options: RunOptions,
    *,
    quiet: bool,
    as_json: bool,
) -> int:
    from whyrun.console.render import Paint
    from whyrun.execution.session import run_workflow

    teller = Teller(run_options, Paint.for_stream(sys.stderr, os.environ), quiet=quiet)
    try:
        result = run_workflow(world, options, run_options, teller, saved_plan=saved, on_plan=teller.on_plan)
    finally:
        teller.finish()
    failures = failures_of(world, result)
    if not quiet and result.run is not None:
        teller.inner.write(teller.summary(world, result, failures))
    if as_json:
        print_json({**result.to_json(), "failed": [failure.to_json() for failure in failures]})
    return result.exit_code


class Teller:
    """The reporter of a run: which form it takes is known only once there is a plan."""

    def __init__(self, run_options: RunOptions, paint: Any, *, quiet: bool) -> None:
        from whyrun.console.progress import LineReporter

        self.workers = run_options.jobs or os.cpu_count() or 1
        self.paint = paint
        self.quiet = quiet
        self.inner: Any = LineReporter(quiet=quiet, paint=paint)
        self.snapshot: PlanningSnapshot | None = None

    def on_plan(self, plan: Plan, snapshot: PlanningSnapshot) -> None:
        from whyrun.planning.explain import estimate_seconds, expected_durations, headline

        self.snapshot = snapshot
        if self.quiet:
            return
        durations = expected_durations(plan, snapshot)
        text = headline(plan, estimate_seconds(plan, durations, self.workers))
        self.inner.write(self.paint.styled(text, "bold"))
        if plan.planned and sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            from whyrun.console.progress import BarReporter

            self.inner = BarReporter(durations, self.workers, paint=self.paint)

    def started(self, run: str, total: int) -> None:
        self.inner.started(run, total)

    def line(self, text: str, status: str) -> None:
        self.inner.line(text, status)

    def progress(self, ended: int, running: list[str]) -> None:
        self.inner.progress(ended, running)

    def note(self, text: str) -> None:
        self.inner.note(text)

    def finish(self) -> None:
        self.inner.finish()

    def summary(self, world: World, result: RunResult, failures: list[Failure]) -> str:
        from whyrun.console.render import relative, run_summary, saved_seconds

        assert result.run is not None
        assert self.snapshot is not None
        reused = reused_steps(world, result) if result.counts.reused else []
        text = run_summary(
            result.run,
            result.state,
            asdict(result.counts),
            result.plan.totals,
            result.duration,
            saved_seconds(result.plan, self.snapshot, reused),
            failures,
            relative(world.state.runs_dir / result.run),
            words_of(world),
        )
        head, *rest = text.split("\n")
        style = "green" if result.exit_code == 0 else "red"
        return "\n".join([self.paint.styled(head, style), *rest])


def failures_of(world: World, result: RunResult) -> list[Failure]:
    """The failures that were final, from the log: it is the truth, also about how we ended."""
    from whyrun.cli.failures import failure_place
    from whyrun.console.render import Failure
    from whyrun.log.outcomes import fold_outcome

    if result.run is None or result.exit_code == 0:
        return []
    outcome = fold_outcome(world.state.run(result.run).events())
    return [
        Failure(step, f.status, f.error_type, f.error, failure_place(f.traceback, world.project))
        for step, f in outcome.failures.items()
    ]


def reused_steps(world: World, result: RunResult) -> list[str]:
    from whyrun.log.events import StepSkipped

    assert result.run is not None
    events = world.state.run(result.run).events()
    return [event.step_id for event in events if isinstance(event, StepSkipped) and event.why == "reused"]
