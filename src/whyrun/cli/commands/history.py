"""`whyrun history ID [FILE]`: every attempt of a job, every version of an artifact."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click
from msgspec import UNSET

from whyrun.cli.main import print_json, world_options
from whyrun.cli.text import bytes_text, columns, duration_text, local_time, page, print_lines, short, value_text

if TYPE_CHECKING:
    from whyrun.evidence.history import HistoryEntry, Version
    from whyrun.snapshot.world import World


@click.command(short_help="Show every attempt and version of a job or artifact.")
@click.argument("id_", metavar="ID")
@click.option("--all", "show_all", is_flag=True, help="List every entry, not only the latest.")
@click.option("--json", "as_json", is_flag=True, help="Print the entries as JSON.")
@world_options
def command(world: World, id_: str, show_all: bool, as_json: bool) -> None:
    """Show every attempt of a job, or every version of an artifact, over all runs. `*` stands for a name or index.

    Jobs and artifacts that the workflow no longer has are found too.

    \b
    Example:
      whyrun history Job:Montage
      whyrun history 'Artifact:Clip.Frame[*]'
    """
    entries = find_history(world, id_)
    pruned = [stone.run for stone in world.state.tombstones()]
    if as_json:
        found = {"id": id_, "entries": [entry.to_json() for entry in entries]}
        print_json({**found, "pruned": pruned} if pruned else found)
        return
    if pruned:
        some = f"{pruned[0]} was" if len(pruned) == 1 else f"{len(pruned)} runs from {pruned[0]} to {pruned[-1]} were"
        click.echo(f"note: {some} pruned: what was done there is not listed", err=True)
    if not entries:
        click.echo(f"{id_} has no history yet")
        return
    if not show_all and len(entries) > 50:
        click.echo(f"the latest 50 of {len(entries)}; --all shows all")
        entries = entries[-50:]
    print_lines(columns(_rows(entries), indent=0))


def find_history(world: World, id_: str) -> list[HistoryEntry]:
    """The entries of a job or artifact ID or pattern; UNKNOWN_REFERENCE where neither log nor workflow has it."""
    from whyrun.errors import error
    from whyrun.evidence.history import artifact_versions, job_history
    from whyrun.evidence.run_list import running_run
    from whyrun.ids import IdPattern
    from whyrun.planning.plan import match_nodes

    pattern = IdPattern(id_)
    if id_.startswith("Input:"):
        raise error("USAGE", f"`{id_}`: inputs have no attempts", hint="write `Job:…` or `Artifact:…`")
    runs, running = world.state.runs(), running_run(world.state)
    if id_.startswith("Job:"):
        entries = list(job_history(runs, pattern.matches, running))
    else:
        entries = list(artifact_versions(job_history(runs, _maker(id_), running), pattern.matches))
    if not entries:
        match_nodes(world.graph, id_)  # it is there, and nothing has happened to it; or it is unknown
    return entries


def _maker(artifact: str) -> Callable[[str], bool]:
    """Whether a step can have made an artifact of this ID or pattern: by the job's name, if that is written out."""
    from whyrun.ids import parse_id, parse_id_of

    if "*" in artifact:
        return lambda step: True
    job = parse_id(artifact).job
    return lambda step: parse_id_of("Job", step).job == job


def _rows(entries: list[HistoryEntry]) -> Iterator[tuple[str, ...]]:
    several = len({entry.step_id for entry in entries}) > 1
    for entry in entries:
        first = (
            entry.run,
            *((entry.step_id,) if several else ()),
            local_time(entry.ts),
            entry.status + _of_comparison(entry),
            f"attempt {entry.attempt}" if entry.attempt is not None and entry.attempt > 1 else "",
            duration_text(entry.duration),
            short(entry.fingerprint),
        )
        details = [_particulars(entry)] if _particulars(entry) else []
        shown, rest = page(entry.outputs, False, 8)
        details += [_version(version) for version in shown]
        if rest is not None:
            details.append(f"… {len(entry.outputs) - len(shown)} more outputs")
        yield (*first, details[0] if details else "")
        for detail in details[1:]:
            yield (*("" for _ in first), detail)


def _of_comparison(entry: HistoryEntry) -> str:
    if entry.mode != "compare":
        return ""
    return " (compare, accepted)" if entry.accepted else " (compare)"


def _particulars(entry: HistoryEntry) -> str:
    if entry.error is not None:
        return entry.error.split("\n", 1)[0]
    if entry.reused_from is not None:
        return f"from {entry.reused_from}{_made_by(entry.by)}"
    if entry.by is not None:
        return f"by {entry.by}"
    if entry.because is not None:
        return f"by {', '.join(entry.because[:3])}"
    return entry.why or ""


def _made_by(whom: str | None) -> str:
    """Of a result from the shared store, whose records anybody may have written."""
    from whyrun.planning.explain import printable

    return f", made by {printable(whom)}" if whom else ""


def _version(version: Version) -> str:
    text = f"{version.artifact}  {short(version.sha256)}  {bytes_text(version.size)}"
    return text if version.value is UNSET else f"{text}  = {value_text(version.value, 60)}"
