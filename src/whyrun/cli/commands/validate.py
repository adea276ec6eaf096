"""`whyrun validate`: everything that is wrong, at once."""

from __future__ import annotations

import click

from whyrun.cli.main import print_json, world_arguments
from whyrun.errors import Diagnostic, Exit, WhyrunError


@click.command("validate")
@world_arguments
@click.option("--json", "as_json", is_flag=True, help="Print {ok, diagnostics} as JSON.")
@click.pass_context
def command(
    context: click.Context,
    file: str | None,
    manifest: str | None,
    inputs: str | None,
    sets: tuple[str, ...],
    state: str | None,
    as_json: bool,
) -> None:
    """Check a workflow file, its inputs and its actions; show everything that is wrong, at once.

    Exit status 2 if something is. Nothing is executed and nothing written.

    \b
    Example:
      whyrun validate then-now.yaml
      whyrun validate then-now.yaml --set Topic=theatre --json
      whyrun validate plan.json --manifest inputs/manifest.json
    """
    from whyrun.api import problems
    from whyrun.console.lines import count
    from whyrun.snapshot.world import World

    world: World | None = None
    try:
        world = World.open(file, inputs=inputs, sets=sets, state=state, manifest=manifest)
        found: tuple[Diagnostic, ...] = problems(world)
    except WhyrunError as wrong:  # there is no such file; that is an answer too, also as JSON
        found = wrong.diagnostics
    if as_json:
        print_json({"ok": not found, "diagnostics": [diagnostic.to_json() for diagnostic in found]})
    elif found:
        for diagnostic in found:
            click.echo(diagnostic.render(), err=True)
        if world is not None:
            click.echo(f"{world.file}: {count(len(found), 'problem')}", err=True)
    else:
        assert world is not None
        graph = world.graph
        jobs = f"{count(len(graph.tables), 'job')}, {count(graph.size, 'instance')}"
        click.echo(f"{world.file}: `{world.workflow.name}` is valid: {jobs}, {count(len(graph.inputs), 'input')}")
    context.exit(int(Exit.INVALID) if found else int(Exit.OK))
