"""`whyrun explain`: the plan with every reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from whyrun.cli.commands.plan import ListingOptions, listing_options, print_plan, requested_plan
from whyrun.cli.options import plan_options, project_options
from whyrun.cli.output import print_json, print_note
from whyrun.errors import Exit
from whyrun.facts.subjects import command_context

if TYPE_CHECKING:
    from whyrun.facts.plans import Planned
    from whyrun.planning.plan import PlanOptions
    from whyrun.project import Project


@click.command("explain")
@project_options
@plan_options
@listing_options
@click.option("--trace", metavar="ID", help="Show how the decision on this one job was made, module by module.")
@click.option("--json", "as_json", is_flag=True, help="Print the same as JSON.")
def command(
    project: Project,
    options: PlanOptions,
    at: str | None,
    assume: tuple[str, ...],
    wanted: ListingOptions,
    trace: str | None,
    as_json: bool,
) -> None:
    """Show what would run, with every reason. Nothing is executed.

    With --trace, the exit status is 3 if the last line is `contradiction`: the plan skips a job that
    has a reason to run. This is a bug in whyrun.

    \b
    Example:
      whyrun explain
      whyrun explain then-now.yaml --up 1
      whyrun explain --set Topic=theatre
      whyrun explain --force 'Job:ThenImage[*]' --json
      whyrun explain --assume 'Input:ThenImages[2]=photos/other.png'
      whyrun explain --job 'Job:ThenImage[*]' --reason INPUT_CHANGED --limit 20 --offset 40
      whyrun explain --trace 'Job:ThenImage[2]'
    """
    from whyrun.errors import error
    from whyrun.planning.answers.explain import explain_json, render_explain

    if trace is not None and (wanted.is_part or wanted.show_all):
        raise error("USAGE", "`--trace` shows one job", hint="omit the options that choose or count jobs")
    found = requested_plan(project, options, at, assume)
    if trace is not None:
        _print_trace(project, found, trace, as_json)
    elif as_json:
        body = explain_json(found.plan, wanted.listing(found), None if at else found.prices())
        if found.assumptions:
            body["assuming"] = [str(assumption) for assumption in found.assumptions]
        print_json(body)
    else:
        estimate, prices = (None, None) if at else (found.estimate(), found.prices())
        for note in () if at else found.price_notes():
            print_note(note)
        listing, context = wanted.listing(found), command_context(project)
        text = render_explain(found.plan, estimate=estimate, listing=listing, context=context, prices=prices)
        print_plan(found, text)


def _print_trace(project: Project, found: Planned, text: str, as_json: bool) -> None:
    from whyrun.ids import parse_id_of
    from whyrun.planning.answers.trace import trace_job
    from whyrun.planning.id_matching import one_id, read_pattern

    graph = found.snapshot.dependency_graph
    nodes = graph.node_of
    read_pattern(text, lambda: graph, "--trace", inputs=False)
    if "*" not in text:
        parse_id_of("Job", text)
    one_id(text, nodes, "`--trace`", graph)
    consumed = project.history().last_consumed(found.snapshot.record(nodes[text]))
    trace = trace_job(found.snapshot, found.plan, nodes[text], consumed)
    if as_json:
        print_json(trace.to_json())
    else:
        print_plan(found, trace.render())
    if trace.contradiction:
        click.get_current_context().exit(Exit.STATE)
