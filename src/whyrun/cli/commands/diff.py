"""`whyrun diff RUN RUN [FILE]`: what differs between two runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from whyrun.cli.main import print_json, world_options
from whyrun.cli.text import columns, page, print_lines, short, value_text

if TYPE_CHECKING:
    from whyrun.evidence.diff import RunDiff, RunSide
    from whyrun.snapshot.world import World

_TITLES = {
    "inputs": "inputs",
    "actions": "actions",
    "reasons": "first reasons",
    "jobs": "jobs in the plan",
    "artifacts": "artifacts",
}


@click.command(short_help="Show what differs between two runs.")
@click.argument("old", metavar="RUN")
@click.argument("new", metavar="RUN")
@click.option("--all", "show_all", is_flag=True, help="List every difference, however many.")
@click.option("--json", "as_json", is_flag=True, help="Print the differences as JSON.")
@world_options
def command(world: World, old: str, new: str, show_all: bool, as_json: bool) -> None:
    """Show what differs between two runs: inputs and actions first, then reasons and planned jobs, then artifacts.

    Inputs and artifacts are compared as they were at the end of each run.

    \b
    Example:
      whyrun diff r0001 r0002
    """
    from whyrun.evidence.diff import diff_runs

    found = diff_runs(_side(world, old), _side(world, new))
    if as_json:
        print_json(found.to_json())
    else:
        print_lines(_lines(found, show_all))


def _side(world: World, name: str) -> RunSide:
    from whyrun.api import plan_of_run
    from whyrun.evidence.diff import RunSide
    from whyrun.log import events as ev

    run = world.state.run(name)
    log = world.history(through=run.number)
    records, last_pruned = log.records, log.last_pruned
    first = next(iter(run.events()), None)
    if isinstance(first, ev.RunStart) and first.mode != "run":
        return RunSide(name, None, {}, records, last_pruned=last_pruned)
    planned = plan_of_run(world, name)
    # Known while planning, or found during the run.
    inactive = {job.id for job in planned.plan.jobs if job.state == "inactive"}
    inactive |= {e.step_id for e in run.events() if isinstance(e, ev.StepSkipped) and e.why != "reused"}
    return RunSide(name, planned.plan, planned.snapshot.actions, records, frozenset(inactive), last_pruned)


def _lines(found: RunDiff, show_all: bool) -> Iterator[str]:
    if found.not_known:
        some = ", ".join(found.not_known[:3]) + (", …" if len(found.not_known) > 3 else "")
        yield f"not compared: artifacts of {some} (runs that may have made them were pruned)"
    if found.same:
        yield f"{found.old} and {found.new}: no differences"
        return
    yield f"{found.old} → {found.new}"
    for name, title in _TITLES.items():
        differences = getattr(found, name)
        if not differences:
            continue
        yield title
        shown, rest = page(differences, show_all)
        yield from columns((d.id, f"{_text(name, d.old)} → {_text(name, d.new)}") for d in shown)
        if rest is not None:
            yield rest


def _text(name: str, value: Any) -> str:
    if value is None:
        return "not planned" if name == "jobs" else "none"
    if name in ("inputs", "artifacts"):
        if "inactive" in value:
            return "inactive"
        return value_text(value["value"]) if "value" in value else short(value["sha256"])
    if name == "actions":
        return f"{value['name']} {short(value['sha256'])}"
    return str(value)
