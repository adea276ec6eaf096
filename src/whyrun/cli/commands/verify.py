"""`whyrun verify [RUN] [FILE]`: is the evidence still what it was when it was written?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from whyrun.cli.main import print_json
from whyrun.cli.subjects import is_run_name, words_and_world
from whyrun.cli.text import bytes_text, page, print_lines
from whyrun.errors import Exit

if TYPE_CHECKING:
    from whyrun.evidence.verify_report import Checked, Problem, Verification
    from whyrun.snapshot.world import World

_WORDS = "[RUN] [FILE]"


@click.command(short_help="Check that the log and the stored bytes are what they were.")
@words_and_world(is_run_name, _WORDS)
@click.option(
    "--replay",
    type=click.Choice(["all"]),
    is_flag=False,
    flag_value="all",  # the word may be left away
    help="Also compute the plan of every run again.",
)
@click.option("--all", "show_all", is_flag=True, help="List every problem that is kept (1000), not only the first.")
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON.")
@click.pass_context
def command(
    context: click.Context, world: World, words: tuple[str, ...], replay: str | None, show_all: bool, as_json: bool
) -> None:
    """Check the evidence of all runs, or of one: is it what it was when it was written?

    Checked are: every line of the log, its number, and the chain across runs; manifest, cfg files, plan and status in
    the run folders; and the bytes of every artifact in the store. With RUN, and with --replay all, also that the
    recorded plan comes out again. Nothing is written. Published files are yours to change, and are not judged.

    What a kill leaves, and a run that is going on, are told and are no damage.

    Exit status: 0 sound; 2 the words make no sense; 3 damaged: every problem is listed, with its place; also 3 where
    there is no such run, or none at all.

    \b
    Example:
      whyrun verify
      whyrun verify r0002
      whyrun verify --replay all --json
    """
    from whyrun.api import plan_of_run
    from whyrun.evidence.verify import verify
    from whyrun.log.runs import all_runs_lost

    only = _chosen(words, replay)
    runs = [only] if only is not None else [run.name for run in world.state.runs()] if replay is not None else []

    def computed_again(run: str) -> None:
        plan_of_run(world, run)

    found = verify(world.state, world.project, computed_again, only, runs)
    if world.state.lost_all_runs():
        raise all_runs_lost(world.state)
    if not (found.checked.runs or found.checked.pruned) and found.sound:
        raise _nothing_there(world)
    if as_json:
        print_json(found.to_json())
    else:
        print_lines(_lines(found, show_all))
    context.exit(int(Exit.OK if found.sound else Exit.STATE))


def _chosen(words: tuple[str, ...], replay: str | None) -> str | None:
    from whyrun.errors import error

    if len(words) > 1:
        hint = "name one, or none for all"
        raise error("USAGE", f"`{words[1]}` is one run too many: one run is checked, or all", hint=hint)
    if words and replay is not None:
        hint = "leave `--replay all` away, or leave the run away"
        raise error("USAGE", f"the plan of {words[0]} is computed again in any case, and no other", hint=hint)
    return words[0] if words else None


def _nothing_there(world: World) -> Exception:
    """A check of nothing must not look like one that found all sound: the path may be wrong, or the name new."""
    from whyrun.errors import error
    from whyrun.evidence.gc import workflows_of

    state = world.state
    others = ", ".join(f"`{other.workflow}`" for other in workflows_of(state.state_dir) if other.runs())
    hint = f"it has runs of {others}" if others else "run it first, or say with `--state` where its runs are"
    what = f"there is nothing to verify: `{state.workflow}` has no runs in this folder"
    return error("RUN_UNKNOWN", what, file=str(state.state_dir), hint=hint)


def _lines(found: Verification, show_all: bool) -> Iterator[str]:
    from whyrun.console.lines import count
    from whyrun.evidence.verify_report import hints_for

    if found.sound:
        yield f"{found.workflow} is sound: {_checked(found.checked)}"
    else:
        yield f"{found.workflow} is damaged: {count(found.count, 'problem')}"
        shown, rest = page(found.problems, show_all)
        for problem in shown:
            yield from _problem(problem)
        if rest is not None:
            yield rest
        if show_all and found.count > len(found.problems):
            yield f"  … {found.count - len(found.problems)} more, which are not kept"
        yield f"checked: {_checked(found.checked)}"
        yield from (f"hint: {hint}" for hint in hints_for(found.problems))
    if found.chain is not None:
        yield f"last chain: {found.chain}"
    yield from (f"note: {note}" for note in found.notes)


def _problem(problem: Problem) -> Iterator[str]:
    from whyrun.console.render import relative

    place = relative(problem.file)
    if problem.line is not None:
        place += f":{problem.line}"
    told = " ".join(word for word in (problem.event, problem.subject) if word is not None)
    yield f"  {place}: {problem.what}" + (f" ({told})" if told else "")
    stored = None if problem.stored is None else relative(problem.stored)
    for title, value in (("expected", problem.expected), ("found", problem.found), ("blob", stored)):
        if value is not None:
            yield f"    {title:<8}  {value}"


def _checked(checked: Checked) -> str:
    from whyrun.console.lines import count

    pruned = f" and {checked.pruned} pruned" if checked.pruned else ""
    parts = [count(checked.runs, "run") + pruned, count(checked.events, "event"), count(checked.files, "file")]
    parts.append(f"{count(checked.blobs, 'blob')} ({bytes_text(checked.bytes)})")
    if checked.plans:
        parts.append(f"{count(checked.plans, 'plan')} computed again")
    return ", ".join(parts)
