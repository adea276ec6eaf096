"""`whyrun view [FILE]`: the state of a workflow in the browser, live."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from whyrun.cli.options import project_options

if TYPE_CHECKING:
    from whyrun.project import Project

PORT = 7780


@click.command(short_help="Show the state of a workflow in the browser.")
@project_options
@click.option("--host", default="127.0.0.1", show_default=True, metavar="HOST", help="Listen on this address.")
@click.option(
    "--allow-host",
    "allowed",
    multiple=True,
    metavar="NAME",
    help="Answer to this name as well, such as that of a proxy. Repeatable.",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, metavar="N", help="0 takes a free port."
)
@click.option("--no-open", is_flag=True, help="Only print the address; open no browser.")
@click.option("--json", "as_json", is_flag=True, help="Print the address as JSON.")
def command(
    project: Project, host: str, allowed: tuple[str, ...], port: int, no_open: bool, as_json: bool
) -> None:  # fmt: skip
    """Show why jobs run, artifacts, runs and what would change, in the browser, until you press Ctrl-C.

    The first line of the output is the address. It has a token: whoever has it can see everything that this workflow
    has read and made. Only this machine can reach it; nothing can be started or changed from the browser.

    \b
    Example:
      whyrun view
      whyrun view then-now.yaml --port 0 --no-open
      ssh -L 7780:localhost:7780 server whyrun view --no-open
    """
    import gc

    from whyrun.cli.output import print_note
    from whyrun.errors import error, to_install

    try:
        from whyrun.viewer import server
    except ImportError as missing:
        hint = f"{to_install('view')}; `whyrun report` needs nothing more"
        raise error("USAGE", f"`whyrun view` needs the package `{missing.name}`", hint=hint) from None
    from whyrun.viewer.current import StateSource, reopened
    from whyrun.viewer.views import Views

    listener = server.bind(host, port)
    access = server.Access(listener.getsockname()[1], server.known_hosts(host, allowed))
    address = server.address(host, access)
    if as_json:
        from whyrun.cli.output import print_json

        print_json({"address": address})
    else:
        click.echo(address)
    sys.stdout.flush()
    if host not in server.LOOPBACK:
        print_note(f"{host} can be reached from other machines, without encryption: share the address with nobody")
    source = StateSource(lambda: reopened(project), title=project.file.name)
    if not no_open:
        click.launch(address)
    gc.enable()  # commands are short and collect no garbage: see `cli.main`
    server.serve(listener, source, Views(known_commands()), access)


def known_commands() -> tuple[str, ...]:
    """The page names no command that this version does not have."""
    from whyrun.cli.main import COMMANDS

    return tuple(COMMANDS)
