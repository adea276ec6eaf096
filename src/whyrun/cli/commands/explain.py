"""`whyrun explain`: the plan with every reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from whyrun.cli.main import asked_of, plan_options, print_json, world_options
from whyrun.cli.plan import Wanted, answer, question_options, show

if TYPE_CHECKING:
    from whyrun.planning.plan import PlanOptions
    from whyrun.snapshot.world import World


@click.command("explain")
@world_options
@plan_options
@question_options
@click.option("--json", "as_json", is_flag=True, help="Print the same as JSON.")
def command(
    world: World,
    options: PlanOptions,
    at: str | None,
    assume: tuple[str, ...],
    wanted: Wanted,
    as_json: bool,
) -> None:
    """Show what would run, and every reason why. Nothing is executed.

    \b
    Example:
      whyrun explain
      whyrun explain then-now.yaml --up 1
      whyrun explain --set Topic=theatre
      whyrun explain --force 'Job:ThenImage[*]' --json
      whyrun explain --assume 'Input:ThenImages[2]=photos/other.png'
      whyrun explain --job 'Job:ThenImage[*]' --reason INPUT_CHANGED --limit 20 --offset 40
    """
    from whyrun.planning.explain import explain_json, render_explain

    found = answer(world, options, at, assume)
    if as_json:
        body = explain_json(found.plan, wanted.listing(found))
        if found.assumptions:
            body["assuming"] = [str(assumption) for assumption in found.assumptions]
        print_json(body)
    else:
        estimate = None if at else found.estimate()
        show(found, render_explain(found.plan, estimate=estimate, listing=wanted.listing(found), asked=asked_of(world)))
