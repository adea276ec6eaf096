"""`whyrun runs [FILE]`: list the runs of a workflow. The module `prune` has `whyrun runs prune`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from whyrun.cli.options import project_options
from whyrun.cli.output import columns, complete_last_run, duration_text, local_time, page, print_json, print_lines
from whyrun.errors import error

if TYPE_CHECKING:
    from whyrun.evidence.queries.history import RunSummary
    from whyrun.log.tombstones import Tombstone
    from whyrun.project import Project

_COUNTS = (
    "planned", "completed", "identical", "different", "reused", "skipped", "held", "failed", "blocked", "interrupted",
)  # fmt: skip
_DECISIONS = {"decide": ("keep", "kept"), "adopt": ("adopt", "adopted")}  # mode → command, and what it did: nothing ran
PRUNE = "prune"


class RunsCommand(click.Command):
    """Lists the runs, or calls `prune` if that is the first argument. A file of that name is `./prune`."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if args[:1] != [PRUNE]:
            _check_misspelt(args[:1])
            return super().make_context(info_name, args, parent, **extra)
        return self.get_command(PRUNE).make_context(f"{info_name} {PRUNE}", args[1:], parent, **extra)

    def list_commands(self) -> list[str]:
        return [PRUNE]

    def get_command(self, name: str) -> click.Command:
        from whyrun.cli.commands.prune import command

        assert name == PRUNE
        return command


def _check_misspelt(first: list[str]) -> None:
    """Refuse `prun`: it is probably a misspelt command and not a file."""
    from difflib import get_close_matches

    if first and get_close_matches(first[0], [PRUNE], cutoff=0.75) and not os.path.exists(first[0]):
        raise error("USAGE", f"`{first[0]}` is neither a file nor a command", hint=f"did you mean `{PRUNE}`?")


@click.command(cls=RunsCommand, short_help="List the runs of a workflow.")
@click.option("--all", "show_all", is_flag=True, help="List every run, not only the latest 50.")
@click.option("--json", "as_json", is_flag=True, help="Print the runs as JSON.")
@project_options
def command(project: Project, show_all: bool, as_json: bool) -> None:
    """List the runs of a workflow, the latest first.

    `whyrun runs prune` removes old runs: see `whyrun runs prune --help`.

    \b
    Example:
      whyrun runs
      whyrun runs then-now.yaml --json
    """
    from whyrun.evidence.queries.history import list_runs
    from whyrun.facts.history import runs_json

    complete_last_run(project)
    if as_json:
        print_json(runs_json(project))
        return
    runs, pruned = list_runs(project.state), project.state.tombstones()
    if not runs and not pruned:
        click.echo(f"{project.workflow.name} has not run yet")
        return
    shown, rest = page(list(_rows(runs, pruned))[::-1], show_all)
    spent = "spent" if any(run.spent for run in runs) else ""
    print_lines(columns([("run", "state", "mode", "started", "took", spent, "steps"), *shown], indent=0))
    if rest is not None:
        click.echo(rest)


def _rows(runs: Sequence[RunSummary], pruned: Sequence[Tombstone]) -> Iterator[tuple[str, ...]]:
    """The rows, oldest run first. Consecutive pruned runs share one row with the first and the last name."""
    left = list(pruned)
    for run in runs:
        number = int(run.run[1:])
        together = [stone for stone in left if stone.number < number]
        left = left[len(together) :]
        yield from _pruned_row(together)
        counts = [f"{getattr(run, name)} {name}" for name in _COUNTS if getattr(run, name)]
        mode = run.mode
        if mode in _DECISIONS:
            mode, did = _DECISIONS[mode]
            counts = [f"{run.completed} {did}"] if run.completed else []
        took, spent = duration_text(run.duration), "" if run.spent is None else run.spent.text()
        yield run.run, run.outcome, mode, local_time(run.started), took, spent, ", ".join(counts)
    yield from _pruned_row(left)


def _pruned_row(stones: Sequence[Tombstone]) -> Iterator[tuple[str, ...]]:
    if not stones:
        return
    first, last = stones[0], stones[-1]
    names = first.run if len(stones) == 1 else f"{first.run}–{last.run}"
    yield names, "pruned", first.mode if len(stones) == 1 else "", local_time(first.started)
