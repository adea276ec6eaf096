"""`whyrun plan`: what would run, in short or as JSON; also for an earlier run, or for assumed inputs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import click

from whyrun.cli.options import plan_options, project_options
from whyrun.cli.output import note_lost_runs, note_narrow_patterns, note_running, print_bytes, print_note
from whyrun.facts.subjects import command_arguments

if TYPE_CHECKING:
    from whyrun.facts.plans import Planned
    from whyrun.planning.answers.listing import Listing
    from whyrun.planning.plan import Plan, PlanOptions
    from whyrun.project import Project

MOST_KEPT = 3  # notes about earlier results
Function = TypeVar("Function", bound=Callable[..., Any])


def listing_options(function: Function) -> Function:
    """--at, --assume, and the options that choose jobs. The command gets the latter as `wanted`, a ListingOptions."""
    decorated: Any = function
    for option in reversed(
        [
            click.option("--at", metavar="RUN", help="Show the plan of this run, computed again from the log."),
            click.option(
                "--assume", multiple=True, metavar="Input:X=changed|VALUE", help="Assume this for an input. Repeatable."
            ),
            click.option(
                "--all", "show_all", is_flag=True,
                help="List every job; with --job, also every detail of its reasons.",
            ),
            click.option(
                "--summary", is_flag=True, help="Count jobs by name and reason. The default for more than 1000 jobs."
            ),
            click.option(
                "--job", "jobs", multiple=True, metavar="ID",
                help="Only this job; `*` stands for a name or index. Repeatable.",
            ),
            click.option(
                "--reason", "reasons", multiple=True, metavar="CODE", callback=_reason_codes,
                help="Only jobs with this reason, such as INPUT_CHANGED. Repeatable.",
            ),
            click.option(
                "--status", "statuses", multiple=True,
                type=click.Choice(["planned", "reused", "open", "deferred", "inactive"]),
                help="Only jobs in this state. Repeatable.",
            ),
            click.option("--limit", type=click.IntRange(min=1), metavar="N", help="List at most N jobs."),
            click.option("--offset", type=click.IntRange(min=0), default=0, metavar="N", help="Skip the first N jobs."),
        ]
    ):  # fmt: skip
        decorated = option(decorated)

    @wraps(decorated)
    def collect(
        *args: Any,
        show_all: bool,
        summary: bool,
        jobs: tuple[str, ...],
        reasons: tuple[str, ...],
        statuses: tuple[str, ...],
        limit: int | None,
        offset: int,
        **rest: Any,
    ) -> Any:
        wanted = ListingOptions(show_all, summary, jobs, reasons, statuses, limit, offset)
        return function(*args, wanted=wanted, **rest)

    collect.__click_params__ = decorated.__click_params__  # type: ignore[attr-defined]
    result: Any = collect
    return cast(Function, result)


def _reason_codes(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    del context, parameter
    if not given:
        return ()
    from whyrun.planning.reasons import CODES

    for code in given:
        if code.upper() not in CODES:
            raise click.BadParameter(f"`{code}` is not a reason; the reasons are {', '.join(CODES)}")
    return tuple(code.upper() for code in given)


class ListingOptions(NamedTuple):
    """Which jobs of a plan are listed."""

    show_all: bool
    summary: bool
    jobs: tuple[str, ...]
    reasons: tuple[str, ...]
    statuses: tuple[str, ...]
    limit: int | None
    offset: int

    @property
    def is_part(self) -> bool:
        return bool(self.jobs or self.reasons or self.statuses or self.limit or self.offset or self.summary)

    def listing(self, planned: Planned) -> Listing:
        from whyrun.planning.answers.listing import Listing

        graph = planned.snapshot.dependency_graph
        note_narrow_patterns(graph, self.jobs)
        nodes = None
        if self.jobs:
            from whyrun.planning.id_matching import match_nodes

            nodes = frozenset(node for text in self.jobs for node in match_nodes(graph, text, "--job"))
        whole = None
        if self.show_all and self.jobs:
            # Only with `--job`: a thousand jobs that each read a thousand results would give a million lines.
            from whyrun.planning.answers.why import PlanView

            whole = PlanView(planned.snapshot, planned.plan).with_all_reasons
        return Listing(
            self.reasons, nodes, self.statuses, self.limit, self.offset, self.show_all and not self.summary,
            self.summary, whole,
        )  # fmt: skip


def requested_plan(project: Project, options: PlanOptions, at: str | None, assume: tuple[str, ...]) -> Planned:
    """The current plan, the plan of an earlier run, or the plan for assumed inputs."""
    from whyrun.errors import error
    from whyrun.facts.plans import planned

    if at is not None and (project.sets or project.inputs_file is not None):
        raise error(
            "USAGE",
            f"the plan of {at} has the inputs of that run; `--set` and `--inputs` have no effect on it",
            hint="omit them, or omit `--at`",
        )
    if at is None:
        with project.cache.with_parallel_stat():  # check the input files while the workflow is parsed
            note_running(project)
            note_lost_runs(project, print_note)
            found = planned(project, options, assume=assume, tell=print_note)
            note_kept_results(project, found.plan)
    else:
        found = planned(project, options, assume=assume, at=at)
    note_narrow_patterns(found.snapshot.dependency_graph, [*options.force, *options.targets])
    for assumption in found.assumptions:
        note = read_by_conditions(project, assumption.id)
        if note is not None:
            print_note(note)
    return found


def note_kept_results(project: Project, plan: Plan) -> None:
    """Tell which jobs failed with the inputs of an earlier success, and how to take its result again."""
    kept = [job for job in plan.jobs if job.restorable]
    if not kept:
        return
    from whyrun.facts.subjects import command_context
    from whyrun.planning.answers.explain import kept_lines

    context = command_context(project)
    for job in kept[:MOST_KEPT]:
        (_, what), (_, command) = kept_lines(job, context)
        print_note(f"{job.id} failed, and an earlier result is kept: {what} {command}")
    if len(kept) > MOST_KEPT:
        print_note(f"earlier results are kept for {len(kept) - MOST_KEPT} more jobs; `whyrun why ID` names the command")


def read_by_conditions(project: Project, id_: str) -> str | None:
    """A note on an assumed input that no job reads, or only conditions; None for any other input."""
    from whyrun.console.lines import listed
    from whyrun.facts.why import readers_of_input

    readers = readers_of_input(project, project.graph, id_)
    if not readers:
        return f"no job reads {id_}"
    if all(reader.condition_only for reader in readers):
        jobs = listed([reader.job for reader in readers])
        return f"only the conditions of {jobs} read {id_}; its value decides whether they run"
    return None


def print_plan(found: Planned, text: str) -> None:
    """Print a plan as text, in colour on a terminal. The assumptions come first: it is not the real plan. What is only
    told comes last."""
    from whyrun.console.paint import Paint
    from whyrun.errors import printable

    for assumption in found.assumptions:
        click.echo(f"assuming {assumption}")
    click.echo(Paint.for_stream(sys.stdout, os.environ).explained(text), color=True)
    reads = found.snapshot.reads
    if reads.unbound or reads.outdated:
        from whyrun.planning.answers.plan_diff import told

        for line in told(reads):
            click.echo(printable(line))


@click.command("plan")
@project_options
@plan_options
@listing_options
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON, with every reason and its digest.")
@click.option(
    "--save", metavar="FILE", type=click.Path(dir_okay=False), help="Save the plan for `whyrun run --plan FILE`."
)
def command(
    project: Project,
    options: PlanOptions,
    at: str | None,
    assume: tuple[str, ...],
    wanted: ListingOptions,
    as_json: bool,
    save: str | None,
) -> None:
    """Show what would run, layer by layer, with the first reason of each job. Nothing is executed.

    \b
    Example:
      whyrun plan
      whyrun plan --up 1 --json
      whyrun plan --target Job:Montage --save montage.json
      whyrun plan --at r0002
      whyrun plan --assume 'Input:ThenImages[2]=changed'
      whyrun plan --reason INPUT_CHANGED --limit 50
    """
    from whyrun.errors import error
    from whyrun.planning.answers.explain import render_plan

    if save is not None and (at is not None or assume):
        raise error(
            "USAGE",
            "the plan of an earlier run or of an assumption cannot be run, so it cannot be saved",
            hint="omit `--save`, or redirect the output of `--json`",
        )
    if as_json and wanted.is_part:
        raise error(
            "USAGE",
            "`--json` prints the whole plan, because its digest covers all jobs",
            hint="`whyrun explain --json` takes `--job`, `--reason`, `--status`, `--limit` and `--offset`",
        )
    found = requested_plan(project, options, at, assume)
    if save is not None:
        save_plan(save, found, project)
    if as_json:
        print_bytes((found.first or found.plan).to_bytes())
    else:
        estimate, prices = (None, None) if at else (found.estimate(), found.prices())
        for note in () if at else found.price_notes():
            print_note(note)
        print_plan(found, render_plan(found.plan, estimate=estimate, listing=wanted.listing(found), prices=prices))


def save_plan(path: str, found: Planned, project: Project) -> None:
    import shlex

    from whyrun.artifacts.durable import write_output
    from whyrun.errors import error
    from whyrun.snapshot.history.replay import snapshot_identity

    check_overwrite(path)
    try:
        write_output(path, found.plan.to_bytes(snapshot_identity(found.snapshot)))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError) as problem:
        raise error("FILE_MISSING", f"`{path}` cannot be written: {problem.strerror}", hint="check the path") from None
    run = f"whyrun run --plan {shlex.quote(path)}{command_arguments(project)}"
    click.echo(f"saved; run exactly this plan with `{run}`", err=True)


def check_overwrite(path: str) -> None:
    """Refuse to overwrite a file that is not a saved plan."""
    from whyrun.cli.saved_plan import LARGEST_PLAN, decode_plan
    from whyrun.errors import WhyrunError, error

    if not os.path.isfile(path) or not os.path.getsize(path):
        return
    try:
        with open(path, "rb") as file:
            decode_plan(file.read(LARGEST_PLAN + 1), path)
    except PermissionError:
        return  # writing fails as well, and that error is reported
    except WhyrunError:
        hint = "choose another name, or remove the file first"
        raise error("USAGE", f"`{path}` exists and is not a saved plan: it is not overwritten", hint=hint) from None
