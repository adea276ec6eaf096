"""`whyrun runs prune [RUN]... [FILE]`: remove runs that are no longer needed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from whyrun.cli.options import names_and_project
from whyrun.cli.output import bytes_text, columns, local_time, page, print_json, print_lines
from whyrun.facts.subjects import command_arguments, is_run_name

if TYPE_CHECKING:
    from whyrun.evidence.retention.prune import PruneReport, Selection
    from whyrun.project import Project


@click.command("prune", short_help="Remove runs that are no longer needed.")
@names_and_project(is_run_name, "[RUN]... [FILE]")
@click.option("--keep", type=click.IntRange(min=1), metavar="N", help="Keep the latest N runs.")
@click.option("--older-than", "age", metavar="AGE", help="Only runs that ended longer ago than this: 30d, 12h.")
@click.option("--delete", is_flag=True, help="Remove the runs. Without this option they are only listed.")
@click.option("--all", "show_all", is_flag=True, help="List every run, not only the first 50.")
@click.option("--json", "as_json", is_flag=True, help="Print pruned and kept runs as JSON.")
def command(
    project: Project,
    names: tuple[str, ...],
    keep: int | None,
    age: str | None,
    delete: bool,
    show_all: bool,
    as_json: bool,
) -> None:
    """List the runs that can be removed, or remove them: the named runs, all but the latest N, or old ones.

    A run is always kept if it is the latest, if it has the latest attempt, success or adoption of a job, or if the
    current plan depends on it. The list shows the reason. The number of a pruned run is not used again; a tombstone
    keeps the last link of its hash chain. Results that only pruned runs had can no longer be reused, restored or
    compared.

    The artifacts of pruned runs stay in the store until `whyrun gc --delete`. With --delete, no run of the workflow
    may be in progress: otherwise the exit status is 3, and the message names the process that holds the lock.

    \b
    Example:
      whyrun runs prune --keep 10
      whyrun runs prune --older-than 30d --delete
      whyrun runs prune r0003 r0004 --delete
    """
    from whyrun.evidence.retention.prune import prunable, prune
    from whyrun.log.journal import utc_now

    selection = _selection(names, keep, age)
    if delete and selection.is_empty:
        from whyrun.errors import error

        hint = "name runs, or use `--keep 10` or `--older-than 30d`; without `--delete` all removable runs are listed"
        raise error("USAGE", "`--delete` needs to know which runs to remove", hint=hint)
    found = (prune if delete else prunable)(project, selection, utc_now)
    if as_json:
        print_json(found.to_json())
    else:
        arguments = command_arguments(project, with_inputs=False)
        print_lines(_lines(found, show_all, arguments, chosen=not selection.is_empty))


def _selection(names: tuple[str, ...], keep: int | None, age: str | None) -> Selection:
    from whyrun.errors import error
    from whyrun.evidence.retention.prune import Selection
    from whyrun.workflow.fields import parse_duration

    if names and (keep is not None or age is not None):
        hint = "name the runs, or use `--keep` and `--older-than`"
        raise error("USAGE", "runs are named, and also chosen by number or age", hint=hint)
    seconds = parse_duration(age) if age is not None else None
    if age is not None and seconds is None:
        raise error("USAGE", f"`{age}` is not a duration", hint="write `30d`, `12h` or `1d12h`")
    return Selection(names, keep, seconds)


def _lines(found: PruneReport, show_all: bool, arguments: str, *, chosen: bool) -> Iterator[str]:
    from whyrun.console.lines import count

    if not found.runs:
        yield f"{found.workflow} has not run yet"
        return
    number = len(found.pruned)
    if not number:
        yield f"{found.workflow}: none of {count(found.runs, 'run')} can be pruned"
    elif found.deleted:
        yield f"{found.workflow}: {count(number, 'run')} of {found.runs} pruned ({bytes_text(found.bytes)})"
    else:
        yield f"{found.workflow}: {count(number, 'run')} of {found.runs} can be pruned ({bytes_text(found.bytes)})"
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
        yield f"no longer available to reuse, restore or compare: {'their' if number > 1 else 'its'} results of {some}"
    if number and found.deleted:
        yield f"hint: `whyrun gc{arguments}` shows what the store no longer needs"
    elif number:
        how = "`--delete` removes them" if chosen else "`--keep 1 --delete` removes them"
        yield f"hint: {how}; their artifacts stay in the store until `whyrun gc{arguments} --delete`"
