"""`whyrun compare [FILE] [ID]...`: execute jobs again and compare their results with the recorded ones."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from whyrun.cli.options import OutputOptions, execution_options, names_and_project, output_options, report_misfits
from whyrun.cli.output import note_narrow_patterns, note_running, print_json
from whyrun.facts.subjects import command_arguments, is_id

if TYPE_CHECKING:
    from whyrun.console.render import Failure
    from whyrun.execution.backends.registry import RunOptions
    from whyrun.execution.compare.compare import ComparedArtifact, CompareOptions, CompareResult
    from whyrun.execution.compare.preview import ComparisonPreview
    from whyrun.project import Project

SHOWN = 10  # artifacts that differ, and failures, in the summary
DETAILS = 5  # for each artifact that differs
_COUNTS = (
    ("identical", "identical"),
    ("different", "different"),
    ("not_comparable", "not comparable"),
    ("inactive", "inactive"),
    ("failed", "failed"),
    ("timed_out", "timed out"),
    ("interrupted", "interrupted"),
    ("not_started", "not started"),
)


@click.command("compare")
@names_and_project(is_id, "[FILE] [ID]...")
@click.option("--against", metavar="RUN", help="Compare with the results as they were after this run.")
@click.option("--accept", is_flag=True, help="Record the new results as the latest, and publish them.")
@execution_options
@click.option("--dry-run", is_flag=True, help="List what would be executed again; execute and record nothing.")
@output_options
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on stdout; progress is on stderr.")
@click.pass_context
def command(
    context: click.Context,
    project: Project,
    names: tuple[str, ...],
    run_options: RunOptions,
    against: str | None,
    accept: bool,
    dry_run: bool,
    output: OutputOptions,
    as_json: bool,
) -> None:
    """Execute jobs again on their recorded inputs, and compare the new results with the recorded ones.

    By default this executes all jobs that have a result; IDs choose jobs, and `*` stands for a name or index. A job
    whose inputs or parameters have changed is skipped, because it is not comparable. A job whose action has changed
    is compared. Without `--accept` nothing is published and no plan changes. A job that costs money costs it again:
    `--dry-run` lists what would be executed.

    Exit status: 0 nothing differs; 1 something differs, failed or timed out; 2 something is invalid and nothing ran;
    3 the state does not allow it; 130 interrupted.

    \b
    Example:
      whyrun compare
      whyrun compare --dry-run
      whyrun compare 'Job:Learn[*]' --against r0003
      whyrun compare flow.yaml Artifact:Summary.Table --accept
    """
    from whyrun.execution.compare.compare import CompareOptions

    with report_misfits(project, output):
        if dry_run:
            print_dry_run(project, names, against, run_options, output, as_json=as_json)
            return
        code = execute(project, CompareOptions(names, against, accept), run_options, output, as_json=as_json)
    context.exit(code)


def print_dry_run(
    project: Project,
    ids: tuple[str, ...],
    against: str | None,
    options: RunOptions,
    output: OutputOptions,
    *,
    as_json: bool,
) -> None:
    from whyrun.execution.compare.preview import preview_comparison
    from whyrun.log.journal import utc_now

    note_running(project)
    preview = preview_comparison(project, ids, against, options)
    note_narrow_patterns(project.graph, ids)
    if as_json:
        print_json(preview.to_json(options.jobs))
        return
    logger = output.logger(sys.stdout)  # these lines are the answer, so they go to stdout
    logger.say(preview.headline(options.jobs), "bold")
    for line in preview.lines(utc_now().astimezone()):
        logger.line(line)
    click.echo("dry run: nothing was executed or recorded", err=True)


def execute(
    project: Project, compare: CompareOptions, options: RunOptions, output: OutputOptions, *, as_json: bool
) -> int:
    from whyrun.cli.commands.run import failures_of
    from whyrun.execution.compare.compare import compare_workflow

    logger = output.logger(sys.stderr)

    def on_subjects(preview: ComparisonPreview) -> None:
        logger.expect(preview.durations, options.jobs or os.cpu_count() or 1)
        logger.say(preview.headline(options.jobs), "bold")

    try:
        result = compare_workflow(project, compare, options, logger, on_subjects=on_subjects)
    finally:
        logger.finish()
    failures = failures_of(project, result, project.graph)
    if result.run is not None:
        logger.say("\n".join(_summary(project, result, failures)), "green" if result.exit_code == 0 else "red")
    for note in _notes(project, compare.ids, result):
        logger.note(note)
    if as_json:
        print_json({**result.to_json(), "failed": [failure.to_json() for failure in failures]})
    return result.exit_code


def _notes(project: Project, ids: Sequence[str], result: CompareResult) -> Iterator[str]:
    """What the exit status does not tell: 0 can mean that nothing was compared."""
    from whyrun.console.lines import count

    counts = result.counts
    skipped = counts.not_comparable + counts.inactive
    if result.state == "succeeded" and skipped and not counts.identical:
        job, why = next(iter(result.skipped.items()))
        yield f"nothing was compared: {count(skipped, 'job')} skipped, such as {job} ({why})"
    if result.outdated and result.exit_code == 0:  # with a difference, `--accept` would accept that as well
        again = shlex.join(["whyrun", "compare", *ids]) + f"{command_arguments(project)} --accept"
        yield (
            f"the code of {count(len(result.outdated), 'job')} has changed, but the results are the same; to make "
            f"them up to date, execute them once more with `{again}` or `whyrun run`"
        )


def _summary(project: Project, result: CompareResult, failures: Sequence[Failure]) -> Iterator[str]:
    from dataclasses import asdict

    from whyrun.console.files import relative
    from whyrun.console.lines import count, seconds
    from whyrun.console.render import statuses_text, usage_lines

    assert result.run is not None
    counts = result.counts
    outcome = {"interrupted": "was interrupted", "failed": "failed"}.get(result.state, "found no difference")
    if result.state == "failed" and counts.different:
        outcome = "found differences"
    elif result.state == "succeeded" and not counts.identical:
        outcome = "compared nothing"
    parts = [f"{getattr(counts, name)} {text}" for name, text in _COUNTS if getattr(counts, name)]
    if result.executed:
        parts.append(f"{len(result.executed)} without a recorded result")
    yield f"{result.run} {outcome} in {seconds(result.duration)}: {', '.join(parts)}"
    if result.accepted:
        number = len(result.accepted)
        yield f"  accepted: {count(number, 'result')} {'is' if number == 1 else 'are'} now the latest"
    if result.statuses:
        yield f"  {statuses_text(result.statuses, asdict(counts))}"
    if result.usage.spent:
        yield f"  spent {result.usage.spent.text()}"
    yield from usage_lines(result.usage.to_json())
    different = [artifact for artifact in result.artifacts if artifact.status == "DIFFERENT"]
    for artifact in different[:SHOWN]:
        yield from _difference(artifact)
    if len(different) > SHOWN:
        yield f"  … and {count(len(different) - SHOWN, 'artifact')} more"
    # Interrupted steps are counted above; they have no error to look at.
    failures = [failure for failure in failures if failure.status != "INTERRUPTED"]
    for failure in failures[:SHOWN]:
        first = failure.error.strip().split("\n", 1)[0]
        yield f"  {failure.step_id}  {failure.error_type}: {first}"
    arguments = command_arguments(project)
    if failures:
        yield f"  look closer: whyrun log {result.run}{arguments} --job {shlex.quote(failures[0].step_id)}"
    elif different:
        yield f"  look closer: whyrun log {result.run}{arguments} --event comparison"
    yield f"evidence: {relative(project.state.runs_dir / result.run)}"


def _difference(artifact: ComparedArtifact) -> Iterator[str]:
    adopted = ", adopted" if artifact.adopted else ", kept" if artifact.kept else ""
    yield f"  {artifact.artifact}  {artifact.summary} (against {artifact.against}{adopted})"
    yield from (f"    {detail}" for detail in artifact.details[:DETAILS])
    more = len(artifact.details[DETAILS:]) + artifact.more
    if more:
        yield f"    … and {more} more"
