"""Plain text for people: aligned columns, short hashes, times. No colours, so that it reads the same in a pipe."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from whyrun.console.lines import seconds, size

LISTED = 50  # rows of a wide list that are shown without --all


def columns(rows: Iterable[Sequence[str]], indent: int = 2) -> list[str]:
    """Rows with their columns aligned; the last column is not padded, and empty columns at the end leave no blanks."""
    table = [list(row) for row in rows]
    widths = [0] * max(map(len, table), default=0)
    for row in table:
        for i, cell in enumerate(row):
            widths[i] = max(widths[i], len(cell))
    lead = " " * indent
    return [(lead + "  ".join(map(str.ljust, row, widths))).rstrip() for row in table]


def page(rows: Sequence[Any], show_all: bool, most: int = LISTED) -> tuple[Sequence[Any], str | None]:
    """The rows to show, and a line on those left out."""
    if show_all or len(rows) <= most:
        return rows, None
    return rows[:most], f"  … {len(rows) - most} more; --all shows them"


def short(sha256: str | None) -> str:
    return "" if not sha256 else f"{sha256[:8]}…"


def bytes_text(amount: int | None) -> str:
    return "" if amount is None else size(amount)


def duration_text(duration: float | None) -> str:
    return "" if duration is None else seconds(duration)


def state_text(state: str) -> str:
    """The state of a job in the words of all our texts; JSON keeps the short one."""
    return "up to date" if state == "clean" else state


def value_text(value: Any, most: int = 100) -> str:
    """A value on one line, as JSON, shortened."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= most else f"{text[:most]}…"


def local_time(ts: str | None) -> str:
    """A time of the log on the reader's clock."""
    if not ts:
        return ""
    from whyrun.log.journal import parse_timestamp

    return f"{parse_timestamp(ts).astimezone():%Y-%m-%d %H:%M:%S}"


def print_lines(lines: Iterable[str]) -> None:
    """One after another, as long as somebody reads them."""
    import click

    from whyrun.cli.outlets import nobody_reads

    for line in lines:
        click.echo(line)
        if nobody_reads():
            return
