"""`whyrun stats [FILE]`: how often and how long the jobs ran, over all runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from whyrun.cli.options import project_options, time_options
from whyrun.cli.output import columns, complete_last_run, duration_text, print_bytes, print_json, print_lines

if TYPE_CHECKING:
    from whyrun.cli.options import TimeSpan
    from whyrun.evidence.queries.stats import By, StatsRow
    from whyrun.project import Project


@click.command(short_help="Show how often and how long the jobs ran.")
@click.option("--by", type=click.Choice(["job", "action"]), default="job", show_default=True, help="Group by this.")
@time_options
@click.option("--csv", "as_csv", is_flag=True, help="Print the same as CSV, one column a currency.")
@click.option("--json", "as_json", is_flag=True, help="Print the same as JSON; amounts are texts, never floats.")
@project_options
def command(project: Project, by: By, span: TimeSpan, as_csv: bool, as_json: bool) -> None:
    """Show executions, failures, retries, reused results, times and costs of all runs, by job or action.

    Every execution counts, also that of a comparison. Times are those of successes. `hits` is the share of reused
    results among the results that were needed; what was up to date is not in the log and is not counted.

    \b
    Example:
      whyrun stats
      whyrun stats --by action --since 30d
      whyrun stats --csv > stats.csv
    """
    from whyrun.errors import error
    from whyrun.evidence.queries.stats import stats_rows

    if as_csv and as_json:
        raise error("USAGE", "`--csv` and `--json` are two formats of one answer", hint="omit one of them")
    complete_last_run(project)
    runs, stones = project.state.runs_and_tombstones()
    rows = stats_rows(runs, by, span.since, span.until)
    if as_json:
        body = {"workflow": project.workflow.name, "by": by, "pruned_runs": len(stones)}
        print_json({**body, "stats": [row.to_json(by) for row in rows]})
    elif as_csv:
        print_bytes(_csv(rows, by))
    else:
        print_lines(_lines(project.workflow.name, by, rows, len(stones), span))


def _csv(rows: Sequence[StatsRow], by: str) -> bytes:
    import csv
    import io

    from whyrun.evidence.queries.stats import COLUMNS

    currencies = sorted({currency for row in rows for currency in row.spent.sums})
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([by, *COLUMNS, *(f"spent_{currency}" for currency in currencies)])
    for row in rows:
        cells: dict[str, Any] = row.to_json(by)
        spent = [cells["spent"].get(currency, "0") for currency in currencies]
        writer.writerow([cells[by], *(cells[name] for name in COLUMNS), *spent])
    return text.getvalue().encode()


def _lines(workflow: str, by: str, rows: Sequence[StatsRow], pruned: int, span: TimeSpan) -> Iterator[str]:
    from whyrun.cli.options import TimeSpan
    from whyrun.console.lines import count

    if not rows:
        when = "yet" if span == TimeSpan() else "in this time"
        yield f"no run of {workflow} has executed or reused a step {when}"
    else:
        costs = "spent" if any(row.spent for row in rows) else ""
        head = (by, "runs", "executed", "failed", "retries", "reused", "hits", "time", "median", "longest", costs)
        yield from columns([head, *(_row(row, by) for row in rows), _row(_total(rows), by)], indent=0)
    if pruned:
        yield f"{count(pruned, 'pruned run')} are not among them"


def _total(rows: Sequence[StatsRow]) -> StatsRow:
    from whyrun.evidence.queries.stats import StatsRow

    total = StatsRow("total")
    for row in rows:
        total.add_all(row)
    return total


def _row(row: StatsRow, by: str) -> tuple[str, ...]:
    from whyrun.errors import printable

    cells = row.to_json(by)
    failed = cells["failed"] + cells["timed_out"]
    hits = "" if row.hit_rate is None else f"{row.hit_rate:.0%}"
    times = [duration_text(cells[name]) for name in ("seconds", "seconds_median", "seconds_max")]
    numbers = [str(number or "") for number in (cells["runs"], row.executed, failed, row.retries, row.reused)]
    return (printable(row.name), *numbers, hits, *times, row.spent.text())
