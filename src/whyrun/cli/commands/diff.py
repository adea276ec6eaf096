"""`whyrun diff RUN RUN [FILE]`: what differs between two runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from whyrun.cli.options import project_options
from whyrun.cli.output import columns, page, print_json, print_lines, short, value_text

if TYPE_CHECKING:
    from whyrun.artifacts.compare.result import Comparison
    from whyrun.evidence.queries.diff import RunDiff
    from whyrun.project import Project

_TITLES = {
    "inputs": "inputs",
    "parameters": "parameters",
    "actions": "actions",
    "observed": "undeclared reads",
    "packages": "packages",
    "reasons": "first reasons",
    "jobs": "jobs in the plan",
    "artifacts": "artifacts",
}


@click.command(short_help="Show what differs between two runs.")
@click.argument("old", metavar="RUN")
@click.argument("new", metavar="RUN")
@click.option("--content", is_flag=True, help="Also compare the stored bytes of the artifacts.")
@click.option("--all", "show_all", is_flag=True, help="List every difference, not only the first 50.")
@click.option("--json", "as_json", is_flag=True, help="Print the differences as JSON.")
@project_options
def command(project: Project, old: str, new: str, content: bool, show_all: bool, as_json: bool) -> None:
    """Show what differs between two runs: inputs, parameters, actions, reasons, planned jobs and artifacts.

    Inputs and artifacts are compared as they were at the end of each run. --content says what differs inside the
    artifacts: lines, cells of tables, paths of JSON, edges of graphs, pixels. Nothing is executed.

    \b
    Example:
      whyrun diff r0001 r0002
      whyrun diff r0001 r0002 --content
    """
    from whyrun.facts.history import content_differences, difference

    diff = difference(project, old, new)
    contents = content_differences(project, diff) if content else {}
    if as_json:
        compared = {"contents": {id_: one.to_json() for id_, one in contents.items()}} if content else {}
        print_json({**diff.to_json(), **compared})
    else:
        print_lines(_lines(diff, contents, show_all))


def _lines(diff: RunDiff, contents: Mapping[str, Comparison], show_all: bool) -> Iterator[str]:
    if diff.not_known:
        some = ", ".join(diff.not_known[:3]) + (", …" if len(diff.not_known) > 3 else "")
        yield f"not compared: artifacts of {some} (runs that may have made them were pruned)"
    if diff.same:
        yield f"{diff.old} and {diff.new}: no differences"
        return
    yield f"{diff.old} → {diff.new}"
    for name, title in _TITLES.items():
        differences = getattr(diff, name)
        if not differences:
            continue
        yield title
        shown, rest = page(differences, show_all)
        yield from columns((d.id, f"{_text(name, d.old)} → {_text(name, d.new)}") for d in shown)
        if rest is not None:
            yield rest
    if diff.kept:
        yield "kept without running"
        shown, rest = page(list(diff.kept.items()), show_all)
        yield from columns((job, f"in {run}") for job, run in shown)
        if rest is not None:
            yield rest
    if contents:
        yield "contents"
        for id_, comparison in contents.items():
            yield f"  {id_}: {comparison.summary}"
            yield from (f"    {detail}" for detail in comparison.details)
            if comparison.more:
                yield f"    … and {comparison.more} more"


def _text(name: str, value: Any) -> str:
    if value is None:
        return "not planned" if name == "jobs" else "none"
    if name in ("inputs", "parameters", "artifacts"):
        if "inactive" in value:
            return "inactive"
        return value_text(value["value"]) if "value" in value else short(value["sha256"])
    if name == "observed":
        return short(value) if len(value) == 64 else str(value)
    if name == "actions":
        return f"{value['name']} {short(value['sha256'])}"
    return str(value)
