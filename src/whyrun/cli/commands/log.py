"""`whyrun log [RUN] [FILE]`: the events of a run, read back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from whyrun.cli.outlets import nobody_reads
from whyrun.cli.subjects import is_run_name, words_and_world
from whyrun.cli.text import local_time, print_lines, value_text

if TYPE_CHECKING:
    from whyrun.log.runs import RunRef
    from whyrun.snapshot.world import World

POLL = 0.2  # seconds
STATUSES = ("EXECUTES", "SKIPS", "IDENTICAL", "DIFFERENT", "FAILED", "TIMED_OUT", "INTERRUPTED")
_SAME = ("FAILED", "INTERRUPTED")  # an interrupted step is `FAILED … interrupted` in its line
_HEAD = ("seq", "ts", "session", "event", "chain", "step_id", "v")
# Of these a line would be all too long; they stand in the JSON.
_LONG = frozenset({"bindings", "traceback", "previous_chain", "fingerprint", "plan_sha256", "snapshot_sha256"})


@click.command(short_help="Read the log back: events of a run, filtered.")
@words_and_world(is_run_name, "[RUN] [FILE]")
@click.option("--job", metavar="ID", help="Only events of this job; `*` stands for a name or index.")
@click.option("--status", type=click.Choice(STATUSES), help="Only steps that ended so.")
@click.option("--event", "event", metavar="NAME", help="Only events of this type, such as step_failed.")
@click.option("--follow", is_flag=True, help="Go on while the run goes on.")
@click.option("--json", "as_json", is_flag=True, help="Print the lines of the log as they stand.")
def command(
    world: World,
    words: tuple[str, ...],
    job: str | None,
    status: str | None,
    event: str | None,
    follow: bool,
    as_json: bool,
) -> None:
    """Read the events of a run, one a line; by default of the last run.

    Below a failure stand its traceback and the end of what the step wrote, with the files that hold all of it.

    \b
    Example:
      whyrun log
      whyrun log r0002 --job 'Job:Clip[*]' --status FAILED
      whyrun log --follow --json
    """
    from whyrun.log.runs import log_without_start

    run = _chosen(world, words)
    wanted = _filter(world, job, status, event)
    number = 0
    for number, line in enumerate(_lines(world, run, follow), 1):
        fields = _decoded(run, number, line)
        if wanted(fields):
            click.echo(line.decode() if as_json else event_text(fields) + _kept(world, fields))
            if fields["event"] == "step_failed" and not as_json:
                print_lines(_failure(run, fields))
            if nobody_reads():  # with `--follow` it would go on as long as the run does
                return
    if not number:
        raise log_without_start(run)


def _chosen(world: World, words: tuple[str, ...]) -> RunRef:
    from whyrun.errors import error

    if len(words) > 1:
        raise error("USAGE", "the log of one run at a time", hint=f"`whyrun log {words[0]}`")
    if words:
        return world.state.run(words[0])
    runs = world.state.runs()
    if not runs:
        raise error("RUN_UNKNOWN", f"`{world.workflow.name}` has not run yet", hint="`whyrun run` makes the first run")
    return runs[-1]


def _filter(world: World, job: str | None, status: str | None, event: str | None) -> Callable[[dict[str, Any]], bool]:
    from whyrun.errors import did_you_mean, error
    from whyrun.ids import IdPattern

    if event is not None and event not in event_names():
        raise error("USAGE", f"there is no event `{event}`", hint=did_you_mean(event, event_names()))
    pattern = IdPattern(job) if job is not None else None
    if job is not None and not job.startswith("Job:"):
        raise error("USAGE", f"`--job {job}` is no job", hint="write `Job:…`")
    if job is not None:
        _require_known(world, job)

    def wanted(fields: dict[str, Any]) -> bool:
        return (
            (event is None or fields["event"] == event)
            and (pattern is None or pattern.matches(step_of(fields)))
            and (status is None or status_of(fields) == status or (status, status_of(fields)) == _SAME)
        )

    return wanted


def _require_known(world: World, job: str) -> None:
    """A job of the log or of the workflow; else it is a mistake that an empty answer would hide."""
    from whyrun.ids import IdPattern
    from whyrun.planning.plan import match_nodes

    pattern = IdPattern(job)
    if not any(pattern.matches(step) for step in world.history().records.steps):
        match_nodes(world.graph, job)


def event_names() -> list[str]:
    from typing import get_args

    from whyrun.log.events import AnyEvent

    return sorted(str(kind.__struct_config__.tag) for kind in get_args(AnyEvent))


def step_of(fields: dict[str, Any]) -> str:
    """The step that an event is about; a comparison names the artifact, which names it too."""
    if fields["event"] != "comparison":
        return str(fields.get("step_id", ""))
    from whyrun.ids import format_indices, parse_id

    artifact = parse_id(fields["artifact"])
    return f"Job:{artifact.job}{format_indices(artifact.segments[1].indices)}"


def status_of(fields: dict[str, Any]) -> str | None:
    """The status that a step ended with; None for other events."""
    match fields["event"]:
        case "step_complete" | "step_failed" | "comparison":
            return str(fields["status"])
        case "step_skipped" | "step_blocked":
            return "SKIPS"
    return None


def _lines(world: World, run: RunRef, follow: bool) -> Iterator[bytes]:
    """The complete lines of the log; with `follow` also those to come, until the run has ended."""
    from whyrun.evidence.run_list import running_run
    from whyrun.log.journal import CHUNK

    rest = b""
    try:
        file = run.events_path.open("rb")
    except FileNotFoundError:
        return  # as of a log that is empty
    with file:
        while True:
            # Asked before reading: what was written until the run let go of the lock is read all the same.
            going_on = follow and running_run(world.state) == run.name
            while data := file.read(CHUNK):
                *lines, rest = (rest + data).split(b"\n")
                yield from lines
                going_on = going_on and not any(b'"event":"run_complete"' in line for line in lines)
            if not going_on:
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
        raise damaged(run.events_path, number, "the line is no event")
    wrong_place = misplaced(fields.get("session"), fields.get("seq"), run.name, number)
    if wrong_place is not None:
        raise damaged(run.events_path, number, wrong_place)
    return fields


def _kept(world: World, fields: dict[str, Any]) -> str:
    """Where a file of the user's is that was written over: the log is all that leads to it."""
    sha256 = fields.get("sha256")
    if fields["event"] != "file_displaced" or not isinstance(sha256, str):
        return ""
    from whyrun.artifacts.hashing import is_sha256
    from whyrun.console.render import relative

    return f" kept={relative(world.store.path(sha256))}" if is_sha256(sha256) else ""


def _failure(run: RunRef, fields: dict[str, Any]) -> Iterator[str]:
    from whyrun.cli.failures import failure_lines, step_logs

    # The logs of a step hold all its attempts: they are shown once, below the last.
    logs = [] if fields.get("will_retry") else step_logs(run.path, fields["step_id"])
    return failure_lines(fields.get("traceback") or "", fields["error_type"], fields["error"], logs)


def event_text(fields: dict[str, Any]) -> str:
    """Time, event, step and particulars, on one line."""
    particulars = []
    for name, value in fields.items():
        if name in _HEAD or name in _LONG or value in (None, "", [], {}):
            continue
        if name in ("sha256", "cut_sha256", "workflow_sha256"):
            value = f"{value[:8]}…"
        text = value if isinstance(value, str) and " " not in value else value_text(value)
        particulars.append(f"{name}={text}")
    head = f"{local_time(fields.get('ts'))}  {fields['event']:<22}"
    return "  ".join(part for part in (head, fields.get("step_id", ""), " ".join(particulars)) if part).rstrip()
