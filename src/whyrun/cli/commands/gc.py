"""`whyrun gc [FILE]`: remove stored bytes that no run needs any more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from whyrun.cli.options import FILE_ARGUMENT, STATE_OPTION
from whyrun.cli.output import bytes_text, columns, print_json, print_lines

if TYPE_CHECKING:
    from whyrun.evidence.retention.gc import Blobs, GcReport


@click.command(short_help="Remove stored bytes that no run needs any more.")
@FILE_ARGUMENT
@click.option("--delete", is_flag=True, help="Remove the blobs. Without this option they are only counted.")
@click.option("--json", "as_json", is_flag=True, help="Print every removed blob, and what is kept, as JSON.")
@STATE_OPTION
def command(file: str | None, delete: bool, as_json: bool, state: str | None) -> None:
    """Show what the store no longer needs, or remove it.

    Everything is kept that the log of a run refers to, for all workflows that share the store: outputs and inputs of
    jobs, snapshots of plans, and your own files that were saved before they were overwritten. For pruned
    runs, gc keeps your saved files and the versions that you adopted. The rest comes from runs that were pruned
    (`whyrun runs prune`) or killed.

    With --delete, no run may be in progress: otherwise the exit status is 3, and the message names it.

    \b
    Example:
      whyrun gc
      whyrun gc --delete
    """
    from whyrun.evidence.retention.gc import collect, collectable
    from whyrun.facts.plans import open_project
    from whyrun.log.journal import utc_now

    state_dir = open_project(file, state=state).state_dir
    found = collect(state_dir, utc_now) if delete else collectable(state_dir)
    if as_json:
        print_json(found.to_json())
    else:
        print_lines(_lines(found))


def _lines(found: GcReport) -> Iterator[str]:
    from whyrun.console.lines import count

    if not found.removed.count:
        yield f"nothing to remove: {_amount(found.kept)} needed"
    elif found.deleted:
        yield f"removed {_amount(found.removed)}; {_amount(found.kept)} kept"
    else:
        yield f"{_amount(found.removed)} can be removed; {_amount(found.kept)} kept"
    if found.kept.count:
        rows = [
            (
                one.workflow,
                f"{count(one.blobs, 'blob')} of {count(one.runs, 'run')}",
            )
            for one in found.workflows
        ]
        if found.displaced:
            yours = count(found.displaced, "file")
            rows.append(("pruned runs", f"{yours} of yours, adopted or saved before being overwritten"))
        yield "kept"
        yield from columns(rows)
    for workflow in found.running:
        yield f"note: {workflow} is running: blobs that it has not recorded yet are counted as not needed"
    if found.removed.count and not found.deleted:
        yield "hint: `--delete` removes them"


def _amount(blobs: Blobs) -> str:
    from whyrun.console.lines import count

    return f"{count(blobs.count, 'blob')} ({bytes_text(blobs.bytes)})"
