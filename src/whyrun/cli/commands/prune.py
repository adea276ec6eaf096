"""`whyrun runs prune [RUN]... [FILE]`: remove runs that nothing of now rests on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from whyrun.cli.main import print_json, words_of
from whyrun.cli.subjects import is_run_name, words_and_world
from whyrun.cli.text import bytes_text, columns, local_time, page, print_lines

if TYPE_CHECKING:
    from whyrun.evidence.prune import Pruning, Selection
    from whyrun.snapshot.world import World

_WORDS = "[RUN]... [FILE]"


@click.command("prune", short_help="Remove runs that nothing of now rests on.")
@words_and_world(is_run_name, _WORDS)
@click.option("--keep", type=click.IntRange(min=1), metavar="N", help="Leave the latest N runs alone.")
@click.option("--older-than", "age", metavar="AGE", help="Only runs that ended so long ago: 30d, 12h.")
@click.option("--delete", is_flag=True, help="Remove them. Without this, they are only shown.")
@click.option("--all", "show_all", is_flag=True, help="List every run, not only the first.")
@click.option("--json", "as_json", is_flag=True, help="Print what goes and what stays as JSON.")
def command(
    world: World,
    words: tuple[str, ...],
    keep: int | None,
    age: str | None,
    delete: bool,
    show_all: bool,
    as_json: bool,
) -> None:
    """Show which runs can go, or remove them: those named, or all but the latest, or old ones.

    A run stays, whatever is asked for, if it is the latest, if it holds some job's latest attempt, success or adoption,
    or if the plan of now would be another without it; each is told with its reason. Of a pruned run the number stays
    taken, and a tombstone with its last chain. Older results that only pruned runs had can no longer be reused,
    restored or compared with.

    The artifacts of pruned runs stay in the store until `whyrun gc --delete`. With --delete no run of the workflow may
    be going on: exit status 3, naming who holds the lock.

    \b
    Example:
      whyrun runs prune --keep 10
      whyrun runs prune --older-than 30d --delete
      whyrun runs prune r0003 r0004 --delete
    """
    from whyrun.evidence.prune import prunable, prune
    from whyrun.log.journal import utc_now

    selection = _selection(words, keep, age)
    if delete and selection.is_empty:
        from whyrun.errors import error

        hint = "name runs, or write `--keep 10` or `--older-than 30d`; without `--delete` all that could go is shown"
        raise error("USAGE", "it is not said which runs are to be removed", hint=hint)
    found = (prune if delete else prunable)(world, selection, utc_now)
    if as_json:
        print_json(found.to_json())
    else:
        print_lines(_lines(found, show_all, words_of(world, with_inputs=False), chosen=not selection.is_empty))


def _selection(words: tuple[str, ...], keep: int | None, age: str | None) -> Selection:
    from whyrun.errors import error
    from whyrun.evidence.prune import Selection
    from whyrun.workflow.fields import parse_duration

    if words and (keep is not None or age is not None):
        hint = "name the runs, or say how many or how old"
        raise error("USAGE", "runs are named, and chosen by number or age as well", hint=hint)
    seconds = parse_duration(age) if age is not None else None
    if age is not None and seconds is None:
        raise error("USAGE", f"`{age}` is no duration", hint="write `30d`, `12h` or `1d12h`")
    return Selection(words, keep, seconds)


def _lines(found: Pruning, show_all: bool, asked: str, *, chosen: bool) -> Iterator[str]:
    from whyrun.console.lines import count

    if not found.runs:
        yield f"{found.workflow} has not run yet"
        return
    number = len(found.pruned)
    if not number:
        yield f"{found.workflow}: none of {count(found.runs, 'run')} can go"
    elif found.deleted:
        yield f"{found.workflow}: {count(number, 'run')} of {found.runs} pruned ({bytes_text(found.bytes)})"
    else:
        yield f"{found.workflow}: {count(number, 'run')} of {found.runs} would go ({bytes_text(found.bytes)})"
    shown, rest = page(found.pruned, show_all)
    yield from columns(
        (run.run, run.outcome, run.mode, local_time(run.started), count(run.events, "event"), bytes_text(run.bytes))
        for run in shown
    )
    if rest is not None:
        yield rest
    if found.kept:
        yield "kept"
        kept, rest = page(found.kept, show_all)
        yield from columns((run.run, run.why) for run in kept)
        if rest is not None:
            yield rest
    if found.jobs:
        some = ", ".join(found.jobs[:3]) + (f" and {len(found.jobs) - 3} more" if len(found.jobs) > 3 else "")
        yield f"gone for reuse, restore and compare: {'their' if number > 1 else 'its'} results of {some}"
    if number and found.deleted:
        yield f"hint: `whyrun gc{asked}` shows what is not needed any more in the store"
    elif number:
        how = "`--delete` removes them" if chosen else "`--keep 1 --delete` removes them"
        yield f"hint: {how}; what they made takes room in the store until `whyrun gc{asked} --delete`"
