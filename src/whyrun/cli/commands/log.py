"""`whyrun log [RUN] [FILE]`: the events of a run, or of all runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from whyrun.cli.broken_pipe import reader_is_gone
from whyrun.cli.options import names_and_project, time_options
from whyrun.cli.output import complete_last_run, local_time, print_lines, print_note, printed_lines, traceback_lines
from whyrun.console.lines import TaskStatus
from whyrun.facts.history import event_details, event_names, status_of, step_of
from whyrun.facts.show import step_logs
from whyrun.facts.subjects import is_run_name

if TYPE_CHECKING:
    from whyrun.cli.options import TimeSpan
    from whyrun.log.runs import RunRef
    from whyrun.project import Project

POLL = 0.2  # seconds
STATUSES = (*TaskStatus, "INTERRUPTED")  # a task of an action may have any of them
_INTERRUPTED_IS_FAILED = ("FAILED", "INTERRUPTED")  # `--status FAILED` includes interrupted steps
_READ_FILES = "for programs, the files are `steps/<step>/stdout.log` and `stderr.log` in the run folder"
_LONGEST_EVENT = 25  # characters of `status_contract_violation`


@click.command(short_help="Show the events of a run, or of all runs.")
@names_and_project(is_run_name, "[RUN] [FILE]")
@click.option("--job", metavar="ID", help="Only events of this job; `*` stands for a name or index.")
@click.option("--status", type=click.Choice(STATUSES), help="Only steps and tasks with this status.")
@click.option("--event", "event", metavar="NAME", help="Only events of this type, such as step_failed.")
@time_options
@click.option("--text", metavar="TEXT", help="Only events whose line or traceback has this text, in any case.")
@click.option("--all", "all_runs", is_flag=True, help="Events of all runs, each with its run.")
@click.option("--output", is_flag=True, help="Also print what the steps printed, in full and also on success.")
@click.option(
    "--follow", is_flag=True, help="Wait for further events until the run ends; with --all, for further runs."
)
@click.option("--json", "as_json", is_flag=True, help="Print the lines of the log unchanged.")
def command(
    project: Project,
    names: tuple[str, ...],
    job: str | None,
    status: str | None,
    event: str | None,
    span: TimeSpan,
    text: str | None,
    all_runs: bool,
    output: bool,
    follow: bool,
    as_json: bool,
) -> None:
    """Show the events of a run, one per line; by default of the last run, with --all of every run.

    A failure is followed by its traceback, the last lines that the step printed, and the paths of its logs.

    \b
    Example:
      whyrun log
      whyrun log r0002 --job 'Job:Clip[*]' --status FAILED
      whyrun log --job Job:Montage --output
      whyrun log --all --event step_failed --since 7d
      whyrun log --all --text timeout
      whyrun log --follow --json
    """
    from whyrun.errors import error
    from whyrun.log.runs import log_without_start

    if output and as_json:
        raise error("USAGE", "`--json` prints the log unchanged, without what the steps printed", hint=_READ_FILES)
    complete_last_run(project)
    if all_runs and names:
        raise error("USAGE", f"`--all` shows all runs, not only {names[0]}", hint="omit one of them")
    chosen = _all_runs(project, follow) if all_runs else [_chosen_run(project, names)]
    wanted = _filter(project, job, status, event, span, text)
    shown = False
    for run in chosen:
        number = 0
        for number, line in enumerate(_lines(project, run, follow), 1):
            fields = _decoded(run, number, line)
            if wanted(fields):
                shown = True
                _print(project, run, line, fields, name_run=all_runs, output=output, as_json=as_json)
                if reader_is_gone():  # otherwise `--follow` would go on until the run ends
                    return
        if not number:
            raise log_without_start(run)
    if not shown and not follow:
        print_note(f"no event of {'any run' if all_runs else run.name} is like this")


def _print(
    project: Project, run: RunRef, line: bytes, fields: dict[str, Any], *, name_run: bool, output: bool, as_json: bool
) -> None:
    if as_json:
        click.echo(line.decode())
        return
    head = f"{run.name}  " if name_run else ""
    print_lines([head + event_text(fields) + _saved_copy(project, fields)])
    print_lines(_below(run, fields, output))


def _all_runs(project: Project, follow: bool) -> Iterator[RunRef]:
    """Every run that is kept; with `follow` also those that begin later, until somebody interrupts."""
    runs = project.state.runs()
    if not runs and not follow:
        raise _not_run_yet(project)
    shown = 0
    while True:
        for run in runs:
            shown = run.number
            yield run
        if not follow:
            return
        while not (runs := [run for run in project.state.runs() if run.number > shown]):
            time.sleep(POLL)


def _not_run_yet(project: Project) -> Exception:
    from whyrun.errors import error

    hint = "start the first run with `whyrun run`"
    return error("RUN_UNKNOWN", f"`{project.workflow.name}` has not run yet", hint=hint)


def _chosen_run(project: Project, names: tuple[str, ...]) -> RunRef:
    from whyrun.errors import error

    if len(names) > 1:
        raise error("USAGE", "`log` shows one run at a time", hint=f"`whyrun log {names[0]}`")
    if names:
        return project.state.run(names[0])
    runs = project.state.runs()
    if not runs:
        raise _not_run_yet(project)
    return runs[-1]


def _filter(
    project: Project, job: str | None, status: str | None, event: str | None, span: TimeSpan, text: str | None
) -> Callable[[dict[str, Any]], bool]:
    from whyrun.errors import did_you_mean, error
    from whyrun.ids import IdPattern

    if event is not None and event not in event_names():
        raise error("USAGE", f"there is no event `{event}`", hint=did_you_mean(event, event_names()))
    pattern = IdPattern(job) if job is not None else None
    if job is not None and not job.startswith("Job:"):
        raise error("USAGE", f"`--job {job}` is not the ID of a job", hint="write `Job:…`")
    if job is not None:
        _check_known(project, job)

    sought = None if text is None else text.casefold()

    def wanted(fields: dict[str, Any]) -> bool:
        return (
            span.since <= str(fields.get("ts", "")) <= span.until
            and (event is None or fields["event"] == event)
            and (pattern is None or pattern.matches(step_of(fields)))
            and (status is None or status_of(fields) == status or (status, status_of(fields)) == _INTERRUPTED_IS_FAILED)
            and (sought is None or sought in f"{event_text(fields)} {fields.get('traceback') or ''}".casefold())
        )

    return wanted


def _check_known(project: Project, job: str) -> None:
    """Refuse a job that neither the log nor the workflow has: an empty answer would hide the mistake."""
    from whyrun.planning.id_matching import match_nodes, read_pattern

    pattern = read_pattern(job, project.settled_graph)
    if not any(pattern.matches(step) for step in project.history().records.steps):
        match_nodes(project.settled_graph(), job)


def _lines(project: Project, run: RunRef, follow: bool) -> Iterator[bytes]:
    """The complete lines of the log; with `follow` also the lines that are still written, until the run ends."""
    from whyrun.log.journal import CHUNK
    from whyrun.log.lock import running_run

    rest = b""
    try:
        file = run.events_path.open("rb")
    except FileNotFoundError:
        return  # same as an empty log
    with file:
        while True:
            # Check before reading: all lines that were written before the run released the lock are then read.
            is_running = follow and running_run(project.state) == run.name
            while data := file.read(CHUNK):
                *lines, rest = (rest + data).split(b"\n")
                yield from lines
                is_running = is_running and not any(b'"event":"run_complete"' in line for line in lines)
            if not is_running:
                return
            time.sleep(POLL)


def _decoded(run: RunRef, number: int, line: bytes) -> dict[str, Any]:
    import msgspec

    from whyrun.log.decoding import decoded
    from whyrun.log.events import UNREADABLE
    from whyrun.log.journal import damaged, misplaced

    try:
        fields = decoded(msgspec.json.decode, line)
    except UNREADABLE as wrong:
        what = f"the line is broken: {wrong}" if line else "the line is empty"
        raise damaged(run.events_path, number, what) from None
    if not isinstance(fields, dict) or "event" not in fields:
        raise damaged(run.events_path, number, "the line is not an event")
    wrong_place = misplaced(fields.get("session"), fields.get("seq"), run.name, number)
    if wrong_place is not None:
        raise damaged(run.events_path, number, wrong_place)
    return fields


def _saved_copy(project: Project, fields: dict[str, Any]) -> str:
    """The path in the store of a user's file that was overwritten: only the log leads to it."""
    sha256 = fields.get("sha256")
    if fields["event"] != "file_displaced" or not isinstance(sha256, str):
        return ""
    from whyrun.artifacts.hashing import is_sha256
    from whyrun.console.files import relative

    return f" kept={relative(project.store.path(sha256))}" if is_sha256(sha256) else ""


def _below(run: RunRef, fields: dict[str, Any], output: bool) -> Iterator[str]:
    """What is printed below an event: the traceback of a failure, and what the step printed."""
    failed = fields["event"] == "step_failed"
    if failed:
        yield from traceback_lines(fields.get("traceback") or "", fields["error_type"], fields["error"])
    # The logs of a step contain all attempts: show them once, below the last attempt.
    if (failed or (output and fields["event"] == "step_complete")) and not fields.get("will_retry"):
        yield from printed_lines(step_logs(run.path, fields["step_id"]), whole=output)


def event_text(fields: dict[str, Any]) -> str:
    """Time, event, step and details on one line."""
    head = f"{local_time(fields.get('ts'))}  {fields['event']:<{_LONGEST_EVENT}}"
    return "  ".join(part for part in (head, fields.get("step_id", ""), event_details(fields)) if part).rstrip()
