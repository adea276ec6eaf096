"""`whyrun history ID [FILE]`: all attempts of a job, or all versions of an artifact."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click
from msgspec import UNSET

from whyrun.cli.options import project_options
from whyrun.cli.output import (
    bytes_text,
    columns,
    duration_text,
    local_time,
    page,
    print_json,
    print_lines,
    print_note,
    short,
    value_text,
)

if TYPE_CHECKING:
    from whyrun.evidence.queries.history import HistoryEntry, Version
    from whyrun.project import Project

OUTPUTS_SHOWN = 8  # of each attempt


@click.command(short_help="Show all attempts of a job, or all versions of an artifact.")
@click.argument("id_", metavar="ID")
@click.option("--all", "show_all", is_flag=True, help="List every entry, not only the latest 50.")
@click.option("--json", "as_json", is_flag=True, help="Print the entries as JSON.")
@project_options
def command(project: Project, id_: str, show_all: bool, as_json: bool) -> None:
    """Show all attempts of a job, or all versions of an artifact, in all runs. `*` stands for a name or index.

    This includes jobs and artifacts that the workflow no longer has.

    \b
    Example:
      whyrun history Job:Montage
      whyrun history 'Artifact:Clip.Frame[*]'
    """
    from whyrun.facts.history import find_history

    entries = find_history(project, id_)
    pruned = [stone.run for stone in project.state.tombstones()]
    if as_json:
        body = {"id": id_, "entries": [entry.to_json() for entry in entries]}
        print_json({**body, "pruned": pruned} if pruned else body)
        return
    if pruned:
        if len(pruned) == 1:
            print_note(f"{pruned[0]} was pruned and is not listed")
        else:
            print_note(f"{len(pruned)} runs from {pruned[0]} to {pruned[-1]} were pruned and are not listed")
    if not entries:
        click.echo(f"{id_} has no history yet")
        return
    if not show_all and len(entries) > 50:
        click.echo(f"the latest 50 of {len(entries)}; --all shows all")
        entries = entries[-50:]
    print_lines(columns(_rows(entries), indent=0))


def _rows(entries: list[HistoryEntry]) -> Iterator[tuple[str, ...]]:
    several = len({entry.step_id for entry in entries}) > 1
    width = max((len(version.artifact) for entry in entries for version in entry.outputs[:OUTPUTS_SHOWN]), default=0)
    for entry in entries:
        first = (
            entry.run,
            *((entry.step_id,) if several else ()),
            local_time(entry.ts),
            entry.status + _comparison_mark(entry),
            f"attempt {entry.attempt}" if entry.attempt is not None and entry.attempt > 1 else "",
            duration_text(entry.duration),
            short(entry.fingerprint),
        )
        details = [text] if (text := _details(entry)) else []
        shown, rest = page(entry.outputs, False, OUTPUTS_SHOWN)
        details += [_version(version, width) for version in shown]
        if rest is not None:
            details.append(f"… {len(entry.outputs) - len(shown)} more outputs")
        yield (*first, details[0] if details else "")
        for detail in details[1:]:
            yield (*("" for _ in first), detail)


def _comparison_mark(entry: HistoryEntry) -> str:
    if entry.mode != "compare":
        return ""
    return " (compare, accepted)" if entry.accepted else " (compare)"


def _details(entry: HistoryEntry) -> str:
    if entry.error is not None:
        return entry.error.split("\n", 1)[0]
    if entry.reused_from is not None:
        return f"from {entry.reused_from}{_producer(entry.by)}"
    if entry.kept_from is not None:
        from whyrun.errors import printable

        return printable(f"from {entry.kept_from} by {entry.by}: {entry.why}")
    if entry.by is not None:
        return f"by {entry.by}"
    if entry.because is not None:
        return f"by {', '.join(entry.because[:3])}"
    return entry.why or ""


def _producer(name: str | None) -> str:
    """Who made a result of the shared store. The name is not trusted: anybody can write there."""
    from whyrun.errors import printable

    return f", made by {printable(name)}" if name else ""


def _version(version: Version, width: int) -> str:
    text = f"{version.artifact:<{width}}  {short(version.sha256)}  {bytes_text(version.size)}"
    return text if version.value is UNSET else f"{text}  = {value_text(version.value, 60)}"
