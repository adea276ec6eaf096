"""`whyrun restore ARTIFACT --from RUN [FILE]`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from whyrun.cli.adopt import tell
from whyrun.cli.main import print_json, world_options

if TYPE_CHECKING:
    from whyrun.snapshot.world import World


@click.command(short_help="Put an earlier version of an artifact in place.")
@click.argument("artifact", metavar="ARTIFACT")
@click.option("--from", "run", required=True, metavar="RUN", help="The version that was current after this run.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
@world_options
def command(world: World, artifact: str, run: str, as_json: bool) -> None:
    """Put an earlier version of ARTIFACT in place, as `adopt` would.

    \b
    Example:
      whyrun history 'Artifact:Clip.Frame[2]'
      whyrun restore 'Artifact:Clip.Frame[2]' --from r0002
    """
    from whyrun.console.logger import WorkflowLogger
    from whyrun.execution.adopt import restore_version

    adoption = restore_version(world, artifact, run, WorkflowLogger(quiet=True))
    if as_json:
        print_json(adoption.to_json())
    else:
        tell(adoption, f"restored (from {run})", world)
