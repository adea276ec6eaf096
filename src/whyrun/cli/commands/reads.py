"""`whyrun reads [FILE] [ID...]`: what jobs read, declared and observed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from whyrun.cli.options import names_and_project
from whyrun.cli.output import columns, page, print_json, print_lines, short
from whyrun.facts.subjects import is_id

if TYPE_CHECKING:
    from whyrun.project import Project


@click.command(short_help="List what jobs read, declared and observed.")
@names_and_project(is_id, "[FILE] [ID...]")
@click.option("--declare", is_flag=True, help="Print the lines of a workflow file that would declare it.")
@click.option("--all", "show_all", is_flag=True, help="List everything.")
@click.option("--json", "as_json", is_flag=True, help="Print the same as JSON.")
def command(project: Project, names: tuple[str, ...], declare: bool, show_all: bool, as_json: bool) -> None:
    """List what the steps of each job read: what the workflow declares, and what they were seen to read beyond that.

    IDs choose jobs, and `*` stands for a name or index. The observed reads are those of the last successes. A job that
    was never traced may read more: what shell steps, child processes and some libraries read is seen by a trace only.

    \b
    Example:
      whyrun reads
      whyrun reads 'Job:Fit[*]' --json
      whyrun reads Job:Report --declare
    """
    from whyrun.evidence.queries.reads import declaration, reads_facts

    snapshot = project.snapshot()
    facts = reads_facts(snapshot, names)
    if declare:
        print_lines(declaration(snapshot.dependency_graph, facts) or ["# nothing was read that is not declared"])
    elif as_json:
        print_json(facts)
    else:
        print_lines(_lines(facts, show_all))


def _lines(facts: dict[str, Any], show_all: bool) -> Iterator[str]:
    from whyrun.console.lines import count

    for job in facts["jobs"]:
        traced = f"traced in {job['traced']}" if job["traced"] else "not traced"
        yield f"{job['job']}  {count(job['instances'], 'instance')}, {traced}"
        rows = [("declared" if i == 0 else "", one, "", "") for i, one in enumerate(job["declared"])]
        rows += [("observed" if i == 0 else "", *_row(read, job)) for i, read in enumerate(job["observed"])]
        versions = [f"{name} {', '.join(found)}" for name, found in job["packages"].items()]
        rows += [("packages" if i == 0 else "", one, "", "") for i, one in enumerate(versions)]
        shown, rest = page(rows, show_all)
        yield from columns(shown)
        if rest is not None:
            yield rest


def _row(read: dict[str, Any], job: dict[str, Any]) -> tuple[str, str, str]:
    from whyrun.errors import printable

    content = short(read["sha256"]) if "sha256" in read else {"unknown": "not known"}.get(read["kind"], read["kind"])
    notes = []
    if read["instances"] != job["instances"]:
        notes.append(f"in {read['instances']}")
    if read["by"] == "strace":
        notes.append("by strace")
    if "now" in read:
        notes.append(f"now {short(read['now']) if len(read['now']) == 64 else read['now']}")
    to_do = "" if "bound" in read else ": bind it"
    notes += [f"{maker} makes it{to_do}" for maker in read.get("made_by", ())]
    return printable(read["path"]), content, ", ".join(notes)
