"""`whyrun gc [FILE]`: remove from the store what no kept run needs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from whyrun.cli.main import print_json
from whyrun.cli.text import bytes_text, columns, print_lines

if TYPE_CHECKING:
    from whyrun.evidence.gc import Blobs, Clearing


@click.command(short_help="Remove from the store what no kept run needs.")
@click.argument("file", required=False, type=click.Path())
@click.option("--delete", is_flag=True, help="Remove it. Without this, it is only shown.")
@click.option("--json", "as_json", is_flag=True, help="Print what goes, blob by blob, and what stays as JSON.")
@click.option("--state", metavar="DIR", help="Where state lives, instead of .whyrun.")
def command(file: str | None, delete: bool, as_json: bool, state: str | None) -> None:
    """Show what is in the store and no kept run needs, or remove it.

    Kept is all that the log of a run speaks of, of every workflow that shares the store: what runs made, what they were
    made from, what replaying their plans needs, and files of yours that were saved before they were written over. Of
    pruned runs those files are kept, too, and versions that you adopted. What is left over comes from runs that were
    pruned (`whyrun runs prune`) or killed.

    With --delete nobody may be running: exit status 3, naming who is.

    \b
    Example:
      whyrun gc
      whyrun gc --delete
    """
    from whyrun.evidence.gc import collect, collectable
    from whyrun.log.journal import utc_now
    from whyrun.snapshot.world import World

    state_dir = World.open(file, state=state).state_dir
    found = collect(state_dir, utc_now) if delete else collectable(state_dir)
    if as_json:
        print_json(found.to_json())
    else:
        print_lines(_lines(found))


def _lines(found: Clearing) -> Iterator[str]:
    from whyrun.console.lines import count

    if not found.removed.count:
        yield f"nothing to remove: {_told(found.kept)} needed"
    elif found.deleted:
        yield f"removed {_told(found.removed)}; {_told(found.kept)} kept"
    else:
        yield f"{_told(found.removed)} would go; {_told(found.kept)} kept"
    if found.kept.count:
        rows = [
            (
                one.workflow,
                f"{count(one.blobs, 'blob')} that {count(one.runs, 'kept run')} speak{'s' * (one.runs == 1)} of",
            )
            for one in found.workflows
        ]
        if found.displaced:
            yours = count(found.displaced, "file")
            rows.append(("pruned runs", f"{yours} of yours, adopted or saved before being written over"))
        yield "kept"
        yield from columns(rows)
    for workflow in found.running:
        yield f"note: {workflow} is running: what it has stored and not recorded yet is counted as not needed"
    if found.removed.count and not found.deleted:
        yield "hint: --delete removes it"


def _told(blobs: Blobs) -> str:
    from whyrun.console.lines import count

    return f"{count(blobs.count, 'blob')} ({bytes_text(blobs.bytes)})"
