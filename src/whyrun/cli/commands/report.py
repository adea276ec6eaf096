"""`whyrun report [RUN] [FILE]`: what `whyrun view` shows, in one file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from whyrun.cli.options import names_and_project
from whyrun.facts.subjects import is_run_name

if TYPE_CHECKING:
    from whyrun.project import Project


@click.command(short_help="Write what `whyrun view` shows into one HTML file.")
@names_and_project(is_run_name, "[RUN] [FILE]")
@click.option("--output", "-o", default="report.html", show_default=True, metavar="FILE", help="Write this file.")
@click.option(
    "--media",
    type=click.Choice(["some", "all", "none"]),
    default="some",
    show_default=True,
    help="Bytes of artifacts: up to 256 KiB each and thumbnails of larger images; all; or none.",
)
@click.option("--logs", is_flag=True, help="Also what steps have printed.")
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON.")
def command(
    project: Project, names: tuple[str, ...], output: str, media: str, logs: bool, as_json: bool
) -> None:  # fmt: skip
    """Write the state of a workflow, or its state at the end of RUN, into one HTML file.

    The file opens from disk in any browser; it loads nothing from elsewhere. Only you may read it (mode 0600), because
    it has everything that the workflow has read and made. If a secret of the workflow is in it, nothing is written.

    \b
    Example:
      whyrun report
      whyrun report r0002 -o r0002.html
      whyrun report --media none --logs
    """
    from whyrun.cli.commands.view import known_commands
    from whyrun.cli.output import note_running, print_json, print_lines, print_note
    from whyrun.errors import error
    from whyrun.viewer.current import load_state
    from whyrun.viewer.report import ReportOptions, make_report, write_report
    from whyrun.viewer.views import Views

    if len(names) > 1:
        raise error("USAGE", "a report is of one run, or of the present state", hint=f"`whyrun report {names[0]}`")
    if names:
        project.state.run(names[0])
    else:
        note_running(project)
    state = load_state(project, names[0] if names else None)
    report = make_report(state, Views(known_commands()), ReportOptions(media, logs))
    write_report(output, report)
    size = len(report.data)
    if as_json:
        print_json({"path": output, "size": size, "run": state.at, "left_out": report.left_out})
        return
    for line in report.left_out:
        print_note(f"not in the report: {line}")
    print_lines([output])
