"""`whyrun keep JOB… --because TEXT [FILE]`: keep results after a harmless change, without running anything."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from whyrun.cli.options import names_and_project
from whyrun.cli.output import columns, print_json, print_lines
from whyrun.facts.subjects import command_arguments, is_id

if TYPE_CHECKING:
    from whyrun.execution.adopt.keep import KeepResult
    from whyrun.project import Project

SHOWN = 20  # jobs


@click.command(short_help="Keep results after a harmless change, without running.")
@names_and_project(is_id, "[FILE] ID...")
@click.option("--because", required=True, metavar="TEXT", help="Why the results still hold; the log records it.")
@click.option("--json", "as_json", is_flag=True, help="Print what was kept as JSON.")
def command(project: Project, names: tuple[str, ...], because: str, as_json: bool) -> None:
    """Let the present results of jobs stand after a change that does not matter, without executing the jobs.

    Use it after you renamed a variable, or added a parameter with its default value. The log records who kept the
    results, when and why, and what had changed. IDs choose jobs, and `*` stands for a name or index; all of them are
    kept, or none. A job is refused if an output is missing, if a job before it is still to run (name that one, too), or
    if the content of an input or artifact that it reads has changed. `whyrun compare` can prove later that the results
    are the same.

    \b
    Example:
      whyrun keep Job:Report --because "renamed a variable"
      whyrun keep 'Job:Fit[*]' Job:Report --because "new helper, same numbers"
    """
    from whyrun.console.logger import WorkflowLogger
    from whyrun.execution.adopt.keep import keep_results

    result = keep_results(project, names, because, WorkflowLogger(quiet=True))
    if as_json:
        print_json(result.to_json())
    else:
        print_lines(_lines(result, project))


def _lines(result: KeepResult, project: Project) -> Iterator[str]:
    from whyrun.console.lines import count
    from whyrun.errors import printable

    yield f"{result.run} kept {count(len(result.kept), 'result')}: {printable(result.because)}"
    rows = [
        (job.id if i == 0 else "", change.code, change.text(job.id), f"made in {job.made_in}" if i == 0 else "")
        for job in result.kept
        for i, change in enumerate(job.changes)
    ]
    yield from columns(rows[:SHOWN])
    if len(rows) > SHOWN:
        yield f"  … {len(rows) - SHOWN} more; --json lists them"
    if result.clean:
        more = f" and {len(result.clean) - 1} more" if len(result.clean) > 1 else ""
        yield f"  {result.clean[0]}{more}: nothing to keep"
    first = shlex.quote(result.kept[0].id)
    yield f"  `whyrun compare {first}{command_arguments(project)}` executes it again and compares"
