"""`whyrun compare [FILE] [ID]...`: execute again what has a result, and say what differs."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from whyrun.cli.main import note_running, print_json, words_of
from whyrun.cli.place import place_options
from whyrun.cli.subjects import KINDS, words_and_world
from whyrun.cli.talk import Talk, talk_options, telling_what_is_refused

if TYPE_CHECKING:
    from whyrun.console.render import Failure
    from whyrun.execution.checks import RunOptions
    from whyrun.execution.compare import ComparedArtifact, CompareOptions, CompareResult
    from whyrun.execution.compare_foretold import Foretold
    from whyrun.snapshot.world import World

SHOWN = 10  # artifacts that differ, and skipped jobs, in the summary
DETAILS = 5  # of each
_COUNTED = (
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
@words_and_world(lambda word: word.startswith(KINDS), "[FILE] [ID]...")
@click.option("--against", metavar="RUN", help="Compare with the results as they were after this run.")
@click.option("--accept", is_flag=True, help="Take the new results: record them as the latest, and publish them.")
@click.option(
    "--jobs", "-j", type=click.IntRange(min=0), default=0, metavar="N", help="Steps at a time; 0: one a core."
)
@place_options
@click.option("--fail-fast", is_flag=True, help="Stop everything at the first failure.")
@click.option("--limit", "limits", multiple=True, metavar="NAME=N", help="How much of a resource there is. Repeatable.")
@click.option("--dry-run", is_flag=True, help="List what would be executed again; execute and record nothing.")
@talk_options
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON on stdout; talk stays on stderr.")
@click.pass_context
def command(
    context: click.Context,
    world: World,
    words: tuple[str, ...],
    against: str | None,
    accept: bool,
    jobs: int,
    backend: str,
    dask_address: str | None,
    fail_fast: bool,
    limits: tuple[str, ...],
    dry_run: bool,
    talk: Talk,
    as_json: bool,
) -> None:
    """Execute jobs again on the recorded artifacts, and compare what they make with what there is.

    By default all jobs that have a result; or those that the IDs name, where `*` stands for a name or index. A job
    whose inputs or parameters have changed is not comparable and is skipped; one whose action has changed is what
    comparing is for. Nothing is published and no plan changes, unless the new results are accepted. Whatever a job
    costs, it costs again: `--dry-run` lists what would be executed.

    Exit status: 0 nothing differs; 1 something differs, failed or timed out; 2 something is invalid and nothing ran;
    3 the state does not allow it; 130 interrupted.

    \b
    Example:
      whyrun compare
      whyrun compare --dry-run
      whyrun compare 'Job:Learn[*]' --against r0003
      whyrun compare flow.yaml Artifact:Summary.Table --accept
    """
    from whyrun.cli.run import parse_limits
    from whyrun.execution.checks import RunOptions
    from whyrun.execution.compare import CompareOptions

    with telling_what_is_refused(world, talk):
        options = RunOptions(
            jobs=jobs, fail_fast=fail_fast, limits=parse_limits(limits), backend=backend, dask_address=dask_address
        )
        if dry_run:
            would_compare(world, words, against, options, talk, as_json=as_json)
            return
        code = execute(world, CompareOptions(words, against, accept), options, talk, as_json=as_json)
    context.exit(code)


def would_compare(
    world: World, ids: tuple[str, ...], against: str | None, options: RunOptions, talk: Talk, *, as_json: bool
) -> None:
    from whyrun.execution.compare_foretold import foretell_comparison
    from whyrun.log.journal import utc_now

    note_running(world)
    foretold = foretell_comparison(world, ids, against, options)
    if as_json:
        print_json(foretold.to_json(options.jobs))
        return
    logger = talk.logger(sys.stdout)  # the lines are what was asked for: data
    logger.say(foretold.headline(options.jobs), "bold")
    for line in foretold.lines(utc_now().astimezone()):
        logger.line(line)
    click.echo("dry run: nothing was executed or recorded", err=True)


def execute(world: World, compare: CompareOptions, options: RunOptions, talk: Talk, *, as_json: bool) -> int:
    from whyrun.cli.run import failures_of
    from whyrun.execution.compare import compare_workflow

    logger = talk.logger(sys.stderr)

    def on_subjects(foretold: Foretold) -> None:
        logger.expect(foretold.durations, options.jobs or os.cpu_count() or 1)
        logger.say(foretold.headline(options.jobs), "bold")

    try:
        result = compare_workflow(world, compare, options, logger, on_subjects=on_subjects)
    finally:
        logger.finish()
    failures = failures_of(world, result)
    if result.run is not None:
        logger.say("\n".join(_summary(world, result, failures)), "green" if result.exit_code == 0 else "red")
    for note in _notes(world, compare.ids, result):
        logger.note(note)
    if as_json:
        print_json({**result.to_json(), "failed": [failure.to_json() for failure in failures]})
    return result.exit_code


def _notes(world: World, ids: Sequence[str], result: CompareResult) -> Iterator[str]:
    """What must be known even where only the exit status is looked at: 0 may mean that nothing was compared."""
    from whyrun.console.lines import count

    counts = result.counts
    skipped = counts.not_comparable + counts.inactive
    if result.state == "succeeded" and skipped and not counts.identical:
        job, why = next(iter(result.skipped.items()))
        yield f"nothing was compared: {count(skipped, 'job')} skipped, such as {job} ({why})"
    if result.outdated and result.exit_code == 0:  # accepting would take differences, too
        again = shlex.join(["whyrun", "compare", *ids]) + f"{words_of(world)} --accept"
        yield (
            f"the code of {count(len(result.outdated), 'job')} has changed, and the results are the same; `{again}` "
            "executes once more and makes them up to date, and so does `whyrun run`"
        )


def _summary(world: World, result: CompareResult, failures: Sequence[Failure]) -> Iterator[str]:
    from whyrun.console.lines import count, seconds
    from whyrun.console.render import relative, usage_lines

    assert result.run is not None
    counts = result.counts
    word = {"interrupted": "was interrupted", "failed": "failed"}.get(result.state, "found no difference")
    if result.state == "failed" and counts.different:
        word = "found differences"
    elif result.state == "succeeded" and not counts.identical:
        word = "could compare nothing"
    parts = [f"{getattr(counts, name)} {text}" for name, text in _COUNTED if getattr(counts, name)]
    if result.executed:
        parts.append(f"{len(result.executed)} with nothing to compare with")
    yield f"{result.run} {word} in {seconds(result.duration)}: {', '.join(parts)}"
    if result.accepted:
        number = len(result.accepted)
        yield f"  accepted: {count(number, 'result')} {'is' if number == 1 else 'are'} now the latest"
    if result.statuses:
        yield "  " + ", ".join(f"{status} {number}" for status, number in result.statuses.items())
    yield from usage_lines(result.usage.to_json())
    different = [artifact for artifact in result.artifacts if artifact.status == "DIFFERENT"]
    for artifact in different[:SHOWN]:
        yield from _difference(artifact)
    if len(different) > SHOWN:
        yield f"  … and {count(len(different) - SHOWN, 'artifact')} more"
    # What was interrupted did nothing wrong: it is counted, and there is nothing to look at.
    failures = [failure for failure in failures if failure.status != "INTERRUPTED"]
    for failure in failures[:SHOWN]:
        first = failure.error.strip().split("\n", 1)[0]
        yield f"  {failure.step_id}  {failure.error_type}: {first}"
    place = words_of(world)
    if failures:
        yield f"  look closer: whyrun log {result.run}{place} --job {shlex.quote(failures[0].step_id)}"
    elif different:
        yield f"  look closer: whyrun log {result.run}{place} --event comparison"
    yield f"evidence: {relative(world.state.runs_dir / result.run)}"


def _difference(artifact: ComparedArtifact) -> Iterator[str]:
    adopted = ", adopted" if artifact.adopted else ""
    yield f"  {artifact.artifact}  {artifact.summary} (against {artifact.against}{adopted})"
    yield from (f"    {detail}" for detail in artifact.details[:DETAILS])
    more = len(artifact.details[DETAILS:]) + artifact.more
    if more:
        yield f"    … and {more} more"
