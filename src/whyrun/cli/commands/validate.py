"""`whyrun validate [FILE]`: check a workflow and report all problems together."""

from __future__ import annotations

import click

from whyrun.cli.options import project_arguments
from whyrun.cli.output import print_json
from whyrun.errors import Diagnostic, Exit, WhyrunError


@click.command("validate")
@project_arguments
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
    """Check a workflow file, its inputs and its actions, and report all problems together.

    Nothing is executed or written. Exit status: 0 valid; 2 something is invalid.

    \b
    Example:
      whyrun validate then-now.yaml
      whyrun validate then-now.yaml --set Topic=theatre --json
      whyrun validate plan.json --manifest inputs/manifest.json
    """
    from whyrun.console.lines import count
    from whyrun.project import Project

    project: Project | None = None
    try:
        project = Project.open(file, inputs=inputs, sets=sets, state=state, manifest=manifest)
        found: tuple[Diagnostic, ...] = project.problems
    except WhyrunError as wrong:  # for example, there is no such file
        found = wrong.diagnostics
    if as_json:
        print_json({"ok": not found, "diagnostics": [diagnostic.to_json() for diagnostic in found]})
    elif found:
        for diagnostic in found:
            click.echo(diagnostic.render(), err=True)
        if project is not None:
            click.echo(f"{project.file}: {count(len(found), 'problem')}", err=True)
    else:
        assert project is not None
        graph = project.graph
        opened = sum(len(table.open_rows) for table in graph.tables)
        more = f" and {opened} open until their loops are known" if opened else ""
        jobs = f"{count(len(graph.tables), 'job')}, {count(graph.size - opened, 'instance')}{more}"
        click.echo(f"{project.file}: `{project.workflow.name}` is valid: {jobs}, {count(len(graph.inputs), 'input')}")
    context.exit(int(Exit.INVALID) if found else int(Exit.OK))
