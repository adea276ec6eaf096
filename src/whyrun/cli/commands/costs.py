"""`whyrun costs [FILE]`: what the runs of a workflow have spent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from whyrun.cli.options import project_options
from whyrun.cli.output import columns, complete_last_run, print_json, print_lines

if TYPE_CHECKING:
    from whyrun.evidence.queries.costs import By, CostRow
    from whyrun.money import Totals
    from whyrun.project import Project


@click.command(short_help="Show what the runs have spent.")
@click.option(
    "--by", type=click.Choice(["job", "action", "run", "item"]), default="job", show_default=True, help="Group costs."
)
@click.option("--json", "as_json", is_flag=True, help="Print the same as JSON; amounts are texts, never floats.")
@project_options
def command(project: Project, by: By, as_json: bool) -> None:
    """Show what all runs of a workflow have spent, failed attempts included.

    The last line is what is kept: what the results cost that the next run does not buy again.

    \b
    Example:
      whyrun costs
      whyrun costs --by item
      whyrun costs --by run --json
    """
    from whyrun.evidence.queries.costs import cost_rows, totals_json
    from whyrun.money import Totals

    complete_last_run(project)
    runs, stones = project.state.runs_and_tombstones()
    rows = cost_rows(runs, by)
    spent = Totals()
    for row in rows:
        spent.add_all(row.spent.to_record())
    saved = _saved(project) if spent else Totals()
    if as_json:
        body = {"workflow": project.workflow.name, "by": by, **totals_json(spent), "saved": saved.to_json()}
        print_json({**body, "pruned_runs": len(stones), "costs": [row.to_json(by) for row in rows]})
        return
    print_lines(_lines(project.workflow.name, by, rows, spent, saved, len(stones)))


def _saved(project: Project) -> Totals:
    """What a run now would not buy again."""
    from whyrun.planning.answers.prices import saved_costs
    from whyrun.planning.plan import PlanOptions, compute_execution_plan

    snapshot = project.snapshot()
    plan = compute_execution_plan(snapshot, PlanOptions())
    return saved_costs(plan, snapshot, [job.id for job in plan.planned if job.reuse is not None])


def _lines(workflow: str, by: str, rows: Sequence[CostRow], spent: Totals, saved: Totals, pruned: int) -> Iterator[str]:
    from whyrun.console.lines import count
    from whyrun.errors import printable
    from whyrun.money import written

    if not rows:
        yield f"no run of {workflow} has recorded a cost"
    else:
        table = [(by, "spent", "costs", "quantity" if by == "item" else "")]
        for row in rows:
            quantity = written(row.quantity) if by == "item" and row.quantity is not None else ""
            table.append((printable(row.name), row.spent.text(), str(row.costs), quantity))
        table.append(("total", spent.text(), str(sum(row.costs for row in rows)), ""))
        yield from columns(table, indent=0)
        if saved:
            yield f"kept: results worth {saved.text()}; the next run does not buy them again"
    if pruned:
        yield f"the costs of {count(pruned, 'pruned run')} are not among them"
