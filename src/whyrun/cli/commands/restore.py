"""`whyrun restore ARTIFACT --from RUN [FILE]`: use an earlier version of an artifact again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from whyrun.cli.commands.adopt import print_adoption
from whyrun.cli.options import project_options
from whyrun.cli.output import print_json

if TYPE_CHECKING:
    from whyrun.project import Project


@click.command(short_help="Use an earlier version of an artifact again.")
@click.argument("artifact", metavar="ARTIFACT")
@click.option("--from", "run", required=True, metavar="RUN", help="Use the version that was current after this run.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
@project_options
def command(project: Project, artifact: str, run: str, as_json: bool) -> None:
    """Use an earlier version of ARTIFACT again, as if you adopted it.

    \b
    Example:
      whyrun history 'Artifact:Clip.Frame[2]'
      whyrun restore 'Artifact:Clip.Frame[2]' --from r0002
    """
    from whyrun.console.logger import WorkflowLogger
    from whyrun.execution.adopt.adopt import restore_version

    adoption = restore_version(project, artifact, run, WorkflowLogger(quiet=True))
    if as_json:
        print_json(adoption.to_json())
    else:
        print_adoption(adoption, f"restored (from {run})", project)
