"""`whyrun runs [FILE]`: the runs of a workflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from whyrun.cli.main import print_json, world_options
from whyrun.cli.text import columns, duration_text, local_time, page, print_lines

if TYPE_CHECKING:
    from whyrun.snapshot.world import World

_COUNTS = ("planned", "completed", "identical", "different", "reused", "skipped", "failed", "blocked", "interrupted")


@click.command(short_help="List the runs of a workflow.")
@click.option("--all", "show_all", is_flag=True, help="List every run, not only the latest.")
@click.option("--json", "as_json", is_flag=True, help="Print the runs as JSON.")
@world_options
def command(world: World, show_all: bool, as_json: bool) -> None:
    """List the runs of a workflow, the latest first.

    \b
    Example:
      whyrun runs
      whyrun runs then-now.yaml --json
    """
    from whyrun.evidence.run_list import list_runs

    runs = list_runs(world.state)
    if as_json:
        print_json({"workflow": world.workflow.name, "runs": [run.to_json() for run in runs]})
        return
    if not runs:
        click.echo(f"{world.workflow.name} has not run yet")
        return
    shown, rest = page(runs[::-1], show_all)
    rows = [("run", "state", "mode", "started", "took", "steps")]
    for run in shown:
        counts = [f"{getattr(run, name)} {name}" for name in _COUNTS if getattr(run, name)]
        rows.append(
            (run.run, run.told_state, run.mode, local_time(run.started), duration_text(run.duration), ", ".join(counts))
        )
    print_lines(columns(rows, indent=0))
    if rest is not None:
        click.echo(rest)
