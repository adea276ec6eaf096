"""What commands print: JSON, lines, notes, aligned columns, times, sizes, failures and logs of steps.

Text has no colours here, so that it reads the same in a pipe. Data goes to stdout, notes go to stderr.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import click

from whyrun.cli.broken_pipe import reader_is_gone
from whyrun.json_values import value_text as value_text

if TYPE_CHECKING:
    from pathlib import Path

    from whyrun.graph.tables import Graph
    from whyrun.project import Project

LISTED = 50  # rows of a long list that are shown without --all


# --- printing ----------------------------------------------------------------------------------------------------


def print_json(value: Any) -> None:
    """Print one JSON document on stdout, in canonical form."""
    from whyrun.artifacts.hashing import canonical_json

    print_bytes(canonical_json(value) + b"\n")


def print_bytes(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def print_lines(lines: Iterable[str]) -> None:
    """Print the lines, and stop when the reader of the pipe is gone. Values in them cannot control a terminal."""
    from whyrun.errors import printable

    for line in lines:
        click.echo(printable(line))
        if reader_is_gone():
            return


def print_note(text: str) -> None:
    """Print something that the user should know in addition to the answer."""
    from whyrun.errors import printable

    click.echo(f"note: {printable(text)}", err=True)


def note_running(project: Project) -> None:
    """Tell that a run is in progress, before an answer that is about this moment."""
    from whyrun.log.lock import running_note

    project.graph  # noqa: B018  # an invalid workflow is the more useful error, so it is reported first
    note = running_note(project.state)
    if note is not None:
        print_note(note)


def complete_last_run(project: Project) -> None:
    """Complete the evidence of a killed run before it is shown. Nearly always there is nothing to do."""
    from whyrun.log.journal import STATUS_FILE

    runs = project.state.runs()
    if runs and not (runs[-1].path / STATUS_FILE).exists():
        from whyrun.execution.run import session

        session.complete_last_run(project, print_note)


def note_lost_runs(project: Project, note: Callable[[str], None]) -> None:
    """Tell which runs are missing or in another folder, before an answer that does not take them into account."""
    from whyrun.log.runs import LAST_NOT_THERE, state_left_behind
    from whyrun.project_config import CONFIG_FILE

    project.graph  # noqa: B018  # as in `note_running`
    lost = project.state.lost_last_run()
    if lost is not None:
        note(
            f"{lost} {LAST_NOT_THERE}: its results count as missing. Restore it from a copy; or continue without it: "
            "the next run takes its number"
        )
    left = state_left_behind(project.file, project.state)
    if left is not None:
        import shlex

        old, new, config = map(os.path.relpath, (left, project.state_dir, project.folder / CONFIG_FILE))
        note(
            f"`{old}` has runs of this workflow, but is not used: because of `{config}`, the state is in `{new}`. "
            f"To use these runs, move them there, or use `--state {shlex.quote(old)}`"
        )


def note_narrow_patterns(graph: Graph, texts: Iterable[str]) -> None:
    """Tell which patterns stand for fewer jobs or artifacts than a reader would think."""
    texts = [text for text in texts if "*" in text]
    if texts:
        from whyrun.planning.answers.listing import narrow_patterns

        for note in narrow_patterns(graph, texts):
            print_note(note)


# --- text --------------------------------------------------------------------------------------------------------


def columns(rows: Iterable[Sequence[str]], indent: int = 2) -> list[str]:
    """Rows with aligned columns. Empty columns are left out, and a line has no trailing blanks."""
    table = [list(row) for row in rows]
    from whyrun.errors import column_width, padded

    cells = [list(column) for column in zip_longest(*table, fillvalue="")]
    widths = [column_width(column) for column in cells]
    shown = [i for i, column in enumerate(cells) if any(column)]
    lead = " " * indent
    return [(lead + "  ".join(padded(row[i], widths[i]) for i in shown if i < len(row))).rstrip() for row in table]


def page(rows: Sequence[Any], show_all: bool, most: int = LISTED) -> tuple[Sequence[Any], str | None]:
    """The rows to show, and a line that counts the others."""
    if show_all or len(rows) <= most:
        return rows, None
    return rows[:most], f"  … {len(rows) - most} more; --all shows them"


def short(sha256: str | None) -> str:
    return "" if not sha256 else f"{sha256[:8]}…"


def bytes_text(amount: int | None) -> str:
    from whyrun.console.lines import size  # imported late, as below: a plan has neither

    return "" if amount is None else size(amount)


def duration_text(duration: float | None) -> str:
    from whyrun.console.lines import seconds

    return "" if duration is None else seconds(duration)


def state_text(state: str) -> str:
    """The state of a job in words for people; JSON has the short form."""
    return "up to date" if state == "clean" else state


def local_time(ts: str | None) -> str:
    """A UTC timestamp of the log in the user's time zone."""
    if not ts:
        return ""
    from whyrun.log.journal import parse_timestamp

    return f"{parse_timestamp(ts).astimezone():%Y-%m-%d %H:%M:%S}"


# --- steps -------------------------------------------------------------------------------------------------------


LEAD = "    "  # of lines below an event


def traceback_lines(traceback: str, error_type: str, error: str) -> Iterator[str]:
    text = traceback.strip("\n")
    message = f"{error_type}: {error}".strip("\n")
    # A traceback without frames only repeats the error, which the line of the event shows already.
    if text and (not text.endswith(message) or "\n" in text.removesuffix(message)):
        yield from (LEAD + line.expandtabs() for line in text.split("\n"))


def printed_lines(logs: Iterable[Path], *, whole: bool) -> Iterator[str]:
    """What a step printed, below the path of each log: its last lines, or the `whole` of it."""
    from whyrun.console.files import relative
    from whyrun.facts.show import LOG_TAIL_LINES, last_lines

    for path in logs:
        lines, is_cut = (_all_lines(path), False) if whole else last_lines(path)
        yield f"{LEAD}{relative(path)}" + (f" (the last {LOG_TAIL_LINES} lines)" if is_cut else "")
        yield from (f"{LEAD}  {line.expandtabs()}".rstrip() for line in lines)


def _all_lines(path: Path) -> Iterator[str]:
    with path.open("rb") as file:  # a log can have gigabytes
        for line in file:
            yield from line.decode(errors="replace").splitlines()
