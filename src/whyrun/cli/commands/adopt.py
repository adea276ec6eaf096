"""`whyrun adopt ARTIFACT PATH [FILE]`: use your own version of an artifact."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from whyrun.cli.options import project_options
from whyrun.cli.output import bytes_text, print_json, short, value_text
from whyrun.facts.subjects import command_arguments

if TYPE_CHECKING:
    from whyrun.execution.adopt.adopt import Adoption
    from whyrun.project import Project


def print_adoption(adoption: Adoption, verb: str, project: Project) -> None:
    """Print what was adopted or restored, and which jobs read it."""
    what = f"{adoption.artifact}  {short(adoption.sha256)}  {bytes_text(adoption.size)}"
    if adoption.run is None:
        click.echo(f"nothing to do: {what} is the current version already")
        return
    click.echo(f"{adoption.run} {verb} {what}" + (f" → {adoption.path}" if adoption.path else ""))
    for leaf, value in adoption.leaves.items():
        click.echo(f"  {leaf} = {value_text(value)}")
    for other in adoption.others:
        click.echo(f"  with {other}, another output of the same success")
    if adoption.dependents:
        shown = ", ".join(adoption.dependents[:3])
        more = f" and {len(adoption.dependents) - 3} more" if len(adoption.dependents) > 3 else ""
        click.echo(f"  read by {shown}{more}; `whyrun explain{command_arguments(project)}` shows what runs again")


@click.command(short_help="Use your own version of an artifact.")
@click.argument("artifact", metavar="ARTIFACT")
@click.argument("path", metavar="PATH", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
@project_options
def command(project: Project, artifact: str, path: str, as_json: bool) -> None:
    """Use the content of PATH as ARTIFACT.

    The version is recorded for the current inputs of the job, and stays until they change. Jobs that read it run
    again. PATH is often the published file itself, after you edited it.

    \b
    Example:
      whyrun adopt 'Artifact:Clip.Frame[2]' out/frame-2.png
    """
    from whyrun.console.logger import WorkflowLogger
    from whyrun.execution.adopt.adopt import adopt_file

    adoption = adopt_file(project, artifact, path, WorkflowLogger(quiet=True))
    if as_json:
        print_json(adoption.to_json())
    else:
        print_adoption(adoption, "adopted", project)
