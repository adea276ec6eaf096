"""`whyrun verify [RUN] [FILE]`: check that the evidence of runs is undamaged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from whyrun.cli.options import names_and_project
from whyrun.cli.output import bytes_text, page, print_json, print_lines
from whyrun.errors import Exit
from whyrun.facts.subjects import is_run_name

if TYPE_CHECKING:
    from whyrun.evidence.verify.report import Checked, Verification, VerifyProblem
    from whyrun.project import Project


@click.command(short_help="Check that the log and the store are undamaged.")
@names_and_project(is_run_name, "[RUN] [FILE]")
@click.option(
    "--replay",
    type=click.Choice(["all"]),
    is_flag=False,
    flag_value="all",  # `--replay` alone means the same
    help="Also compute the plan of every run again and compare it.",
)
@click.option("--all", "show_all", is_flag=True, help="List up to 1000 problems, not only the first 50.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_context
def command(
    context: click.Context, project: Project, names: tuple[str, ...], replay: str | None, show_all: bool, as_json: bool
) -> None:
    """Check that the evidence of all runs, or of one run, is undamaged.

    This checks every line of the log, its number and the hash chain across runs; manifest, cfg files, plan and status
    in the run folders; and the content of every artifact in the store. With RUN, or with --replay all, the plan is
    computed again and must be equal to the recorded one. Nothing is written. Published files are not checked: you may
    change them.

    The remains of a killed run, and a run in progress, are reported as notes, not as damage.

    Exit status: 0 sound; 2 the arguments are invalid; 3 damaged, with a list of all problems and their location,
    or there is no such run.

    \b
    Example:
      whyrun verify
      whyrun verify r0002
      whyrun verify --replay all --json
    """
    from whyrun.evidence.verify.verify import verify
    from whyrun.facts.plans import plan_of_run
    from whyrun.log.runs import all_runs_lost

    only = _chosen_run(names, replay)
    runs = [only] if only is not None else [run.name for run in project.state.runs()] if replay is not None else []

    def replay_plan(run: str) -> None:
        plan_of_run(project, run)

    found = verify(project.state, project.folder, replay_plan, only, runs)
    if project.state.lost_all_runs():
        raise all_runs_lost(project.state)
    if not (found.checked.runs or found.checked.pruned) and found.sound:
        raise _no_runs(project)
    if as_json:
        print_json(found.to_json())
    else:
        print_lines(_lines(found, show_all))
    context.exit(int(Exit.OK if found.sound else Exit.STATE))


def _chosen_run(names: tuple[str, ...], replay: str | None) -> str | None:
    from whyrun.errors import error

    if len(names) > 1:
        hint = "name one run, or none to check all"
        raise error("USAGE", f"`{names[1]}` is one run too many: `verify` checks one run, or all", hint=hint)
    if names and replay is not None:
        hint = "omit `--replay all`, or omit the run"
        raise error("USAGE", f"with {names[0]}, only the plan of that run is computed again", hint=hint)
    return names[0] if names else None


def _no_runs(project: Project) -> Exception:
    """Checking nothing must not look like success: the path may be wrong, or the workflow renamed."""
    from whyrun.errors import error
    from whyrun.evidence.retention.gc import workflows_of

    state = project.state
    others = ", ".join(f"`{other.workflow}`" for other in workflows_of(state.state_dir) if other.runs())
    hint = "run it first, or name the folder of its runs with `--state`"
    if others:
        hint = f"the folder has runs of {others}"
    what = f"there is nothing to verify: `{state.workflow}` has no runs in this folder"
    return error("RUN_UNKNOWN", what, file=str(state.state_dir), hint=hint)


def _lines(found: Verification, show_all: bool) -> Iterator[str]:
    from whyrun.console.lines import count
    from whyrun.evidence.verify.report import hints_for

    if found.sound:
        yield f"{found.workflow} is sound: {_checked(found.checked)}"
    else:
        yield f"{found.workflow} is damaged: {count(found.count, 'problem')}"
        shown, rest = page(found.problems, show_all)
        for problem in shown:
            yield from _problem(problem)
        if rest is not None:
            yield rest
        if show_all and found.count > len(found.problems):
            yield f"  … {found.count - len(found.problems)} more, which are not listed"
        yield f"checked: {_checked(found.checked)}"
        yield from (f"hint: {hint}" for hint in hints_for(found.problems))
    if found.chain is not None:
        yield f"last chain: {found.chain}"
    yield from (f"note: {note}" for note in found.notes)


def _problem(problem: VerifyProblem) -> Iterator[str]:
    from whyrun.console.files import relative

    location = relative(problem.file)
    if problem.line is not None:
        location += f":{problem.line}"
    event = " ".join(part for part in (problem.event, problem.subject) if part is not None)
    yield f"  {location}: {problem.what}" + (f" ({event})" if event else "")
    stored = None if problem.stored is None else relative(problem.stored)
    for title, value in (("expected", problem.expected), ("found", problem.found), ("blob", stored)):
        if value is not None:
            yield f"    {title:<8}  {value}"


def _checked(checked: Checked) -> str:
    from whyrun.console.lines import count

    pruned = f" and {checked.pruned} pruned" if checked.pruned else ""
    parts = [count(checked.runs, "run") + pruned, count(checked.events, "event"), count(checked.files, "file")]
    parts.append(f"{count(checked.blobs, 'blob')} ({bytes_text(checked.bytes)})")
    if checked.plans:
        parts.append(f"{count(checked.plans, 'plan')} computed again")
    return ", ".join(parts)
