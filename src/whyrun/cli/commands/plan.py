"""`whyrun plan`: what would run, in short or as JSON. Also of an earlier run, or if something were different."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import click

from whyrun.cli.main import note_lost_runs, note_running, plan_options, print_bytes, words_of, world_options

if TYPE_CHECKING:
    from whyrun.api import Planned
    from whyrun.planning.listing import Listing
    from whyrun.planning.plan import PlanOptions
    from whyrun.snapshot.world import World

Function = TypeVar("Function", bound=Callable[..., Any])


def question_options(function: Function) -> Function:
    """--at, --assume and what of the answer is shown, for `plan` and `explain` alike."""
    decorated: Any = function
    for option in reversed(
        [
            click.option("--at", metavar="RUN", help="The plan of that run, computed again from the log."),
            click.option(
                "--assume", multiple=True, metavar="Input:X=changed|VALUE", help="As if an input were so. Repeatable."
            ),
            click.option(
                "--all", "show_all", is_flag=True,
                help="List every job, however many; with --job, every particular of its reasons too.",
            ),
            click.option("--summary", is_flag=True, help="Count jobs by name and reasons; so are more than 1000."),
            click.option("--job", "jobs", multiple=True, metavar="ID", help="Only these, `*` for any. Repeatable."),
            click.option(
                "--reason", "reasons", multiple=True, metavar="CODE", callback=_codes,
                help="Only jobs with this reason, such as INPUT_CHANGED. Repeatable.",
            ),
            click.option(
                "--status", "statuses", multiple=True, type=click.Choice(["planned", "reused", "deferred", "inactive"]),
                help="Only jobs in this state; `reused` are in the plan and not executed. Repeatable.",
            ),
            click.option("--limit", type=click.IntRange(min=1), metavar="N", help="List N jobs."),
            click.option("--offset", type=click.IntRange(min=0), default=0, metavar="N", help="After the first N."),
        ]
    ):  # fmt: skip
        decorated = option(decorated)

    @wraps(decorated)
    def asked(
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
        wanted = Wanted(show_all, summary, jobs, reasons, statuses, limit, offset)
        return function(*args, wanted=wanted, **rest)

    asked.__click_params__ = decorated.__click_params__  # type: ignore[attr-defined]
    result: Any = asked
    return cast(Function, result)


def _codes(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    from whyrun.planning.reasons import CODES

    del context, parameter
    for code in given:
        if code.upper() not in CODES:
            raise click.BadParameter(f"`{code}` is no reason; the reasons are {', '.join(CODES)}")
    return tuple(code.upper() for code in given)


class Wanted(NamedTuple):
    """Which jobs of a plan somebody wants to see."""

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

    def listing(self, found: Planned) -> Listing:
        from whyrun.planning.known import KnownState
        from whyrun.planning.listing import Listing
        from whyrun.planning.plan import match_nodes

        graph = found.snapshot.dependency_graph
        nodes = frozenset(node for text in self.jobs for node in match_nodes(graph, text)) if self.jobs else None
        whole = None
        if self.show_all and self.jobs:
            # Not without `--job`: thousands of jobs that read the same thousands of results would be millions of lines.
            whole = KnownState(found.snapshot, found.plan).whole
        return Listing(
            self.reasons, nodes, self.statuses, self.limit, self.offset, self.show_all and not self.summary,
            self.summary, whole,
        )  # fmt: skip


def answer(world: World, options: PlanOptions, at: str | None, assume: tuple[str, ...]) -> Planned:
    """The plan that the options ask for."""
    from whyrun.api import planned
    from whyrun.cli.talk import tell_note
    from whyrun.errors import error

    if at is not None and (world.sets or world.inputs_file is not None):
        raise error(
            "USAGE",
            f"the plan of {at} has the inputs of that run; `--set` and `--inputs` would change nothing",
            hint="leave them away, or leave `--at` away",
        )
    if at is None:
        with world.cache.with_second_look():  # files are looked at while the workflow is read
            note_running(world)
            note_lost_runs(world, tell_note)
            found = planned(world, options, assume=assume, tell=tell_note)
    else:
        found = planned(world, options, assume=assume, at=at)
    for assumption in found.assumptions:
        note = read_by_conditions(world, assumption.id)
        if note is not None:
            click.echo(f"note: {note}", err=True)
    return found


def read_by_conditions(world: World, id_: str) -> str | None:
    """What to know of an assumed input that changes no job's content; None for any other."""
    from whyrun.cli.why import readers_of_input
    from whyrun.console.lines import listed

    readers = readers_of_input(world, world.graph, id_)
    if not readers:
        return f"no job reads {id_}"
    if all(reader.condition_only for reader in readers):
        jobs = listed([reader.job for reader in readers])
        return f"only conditions read {id_}: {jobs}; whether they run depends on the value"
    return None


def show(found: Planned, text: str) -> None:
    """Text on stdout, in colour on a terminal; assumptions first, so that no one takes it for the real plan."""
    from whyrun.console.render import Paint

    for assumption in found.assumptions:
        click.echo(f"assuming {assumption}")
    click.echo(Paint.for_stream(sys.stdout, os.environ).explained(text), color=True)


@click.command("plan")
@world_options
@plan_options
@question_options
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON, with every reason and its digest.")
@click.option("--save", metavar="FILE", type=click.Path(dir_okay=False), help="Save it for `whyrun run --plan FILE`.")
def command(
    world: World,
    options: PlanOptions,
    at: str | None,
    assume: tuple[str, ...],
    wanted: Wanted,
    as_json: bool,
    save: str | None,
) -> None:
    """Show what would run, layer by layer, each job with its first reason. Nothing is executed.

    \b
    Example:
      whyrun plan
      whyrun plan --up 1 --json
      whyrun plan --target Job:Montage --save montage.json
      whyrun plan --at r0002
      whyrun plan --assume 'Input:ThenImages[2]=changed'
      whyrun plan --reason INPUT_CHANGED --limit 50
    """
    from whyrun.console.render import render_plan
    from whyrun.errors import error

    if save is not None and (at is not None or assume):
        raise error(
            "USAGE",
            "a plan of the past or of an assumption cannot be run, so it is not saved",
            hint="leave `--save` away, or redirect the output of `--json`",
        )
    if as_json and wanted.is_part:
        raise error(
            "USAGE",
            "a plan is written whole, so that its digest fits",
            hint="`whyrun explain --json` takes `--job`, `--reason`, `--status`, `--limit` and `--offset`",
        )
    found = answer(world, options, at, assume)
    if save is not None:
        save_plan(save, found, world)
    if as_json:
        print_bytes(found.plan.to_bytes())
    else:
        estimate = None if at else found.estimate()
        show(found, render_plan(found.plan, estimate=estimate, listing=wanted.listing(found)))


def save_plan(path: str, found: Planned, world: World) -> None:
    import shlex

    from whyrun.artifacts.durable import atomic_write
    from whyrun.disk import Area
    from whyrun.errors import error

    refuse_other_content(path)
    try:
        atomic_write(path, found.plan.to_bytes(), Area.SAVED)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError) as problem:
        raise error("FILE_MISSING", f"`{path}` cannot be written: {problem.strerror}", hint="check the path") from None
    click.echo(f"saved; run exactly this with `whyrun run --plan {shlex.quote(path)}{words_of(world)}`", err=True)


def refuse_other_content(path: str) -> None:
    """A plan is saved over an earlier one, and over nothing else: the name may be that of anything."""
    import os

    from whyrun.cli.saved_plan import LARGEST_PLAN, decode_plan
    from whyrun.errors import WhyrunError, error

    if not os.path.isfile(path) or not os.path.getsize(path):
        return
    try:
        with open(path, "rb") as file:
            decode_plan(file.read(LARGEST_PLAN + 1), path)
    except PermissionError:
        return  # nor can it be written, which is told
    except WhyrunError:
        hint = "give another name, or remove it first"
        raise error("USAGE", f"`{path}` is there, and is no saved plan: it is not written over", hint=hint) from None
