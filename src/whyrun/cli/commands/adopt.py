"""`whyrun adopt ARTIFACT PATH [FILE]`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from whyrun.cli.main import print_json, words_of, world_options
from whyrun.cli.text import bytes_text, short, value_text

if TYPE_CHECKING:
    from whyrun.execution.adopt import Adoption
    from whyrun.snapshot.world import World


def tell(adoption: Adoption, word: str, world: World) -> None:
    what = f"{adoption.artifact}  {short(adoption.sha256)}  {bytes_text(adoption.size)}"
    if adoption.run is None:
        click.echo(f"nothing to do: {what} is in place already")
        return
    click.echo(f"{adoption.run} {word} {what}" + (f" → {adoption.path}" if adoption.path else ""))
    for leaf, value in adoption.leaves.items():
        click.echo(f"  {leaf} = {value_text(value)}")
    if adoption.dependents:
        shown = ", ".join(adoption.dependents[:3])
        more = f" and {len(adoption.dependents) - 3} more" if len(adoption.dependents) > 3 else ""
        click.echo(f"  read by {shown}{more}; `whyrun explain{words_of(world)}` shows what runs again")


@click.command(short_help="Put your own version of an artifact in place.")
@click.argument("artifact", metavar="ARTIFACT")
@click.argument("path", metavar="PATH", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
@world_options
def command(world: World, artifact: str, path: str, as_json: bool) -> None:
    """Put the content of PATH in place as ARTIFACT.

    It is recorded for what the job consumes now, and stays until that changes. Consumers run again. PATH is often the
    published file itself, after an edit.

    \b
    Example:
      whyrun adopt 'Artifact:Clip.Frame[2]' out/frame-2.png
    """
    from whyrun.console.logger import WorkflowLogger
    from whyrun.execution.adopt import adopt_file

    adoption = adopt_file(world, artifact, path, WorkflowLogger(quiet=True))
    if as_json:
        print_json(adoption.to_json())
    else:
        tell(adoption, "adopted", world)
