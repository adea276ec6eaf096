"""A failed step for people: where it broke, what it said last, and the files that hold the rest."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

LAST_LINES = 20  # of what a step wrote
_TAIL_BYTES = 65536  # enough for these; a log may be gigabytes long
_FRAME = re.compile(r'^[ |]*File "(?P<file>[^"\n]+)", line (?P<line>\d+)', re.MULTILINE)
_FOREIGN = ("site-packages", "dist-packages")


def failure_place(traceback: str, project: str | os.PathLike[str]) -> str | None:
    """`weather.py:38`: the last frame of the traceback that is the project's own; None if there is none."""
    found = None
    for frame in _FRAME.finditer(traceback):
        path = frame["file"]
        if os.path.isabs(path):
            path = os.path.relpath(path, os.path.abspath(project))
        if not path.startswith(("..", "<")) and not any(part in _FOREIGN for part in path.split(os.sep)):
            found = f"{path}:{frame['line']}"
    return found


def step_logs(run_folder: Path, step: str) -> list[Path]:
    """What the step wrote, as far as it wrote anything: empty logs are not made."""
    from whyrun.ids import file_name

    folder = run_folder / "steps" / file_name(step.removeprefix("Job:"))
    return [path for path in (folder / "stdout.log", folder / "stderr.log") if path.is_file()]


def failure_lines(traceback: str, error_type: str, error: str, logs: list[Path], indent: int = 4) -> Iterator[str]:
    """The traceback, then the end of each log under its path."""
    from whyrun.console.render import relative

    lead = " " * indent
    text = traceback.strip("\n")
    said = f"{error_type}: {error}".strip("\n")
    # Without frames it is the error alone, perhaps with the module of its type: the event itself has said that.
    if text and (not text.endswith(said) or "\n" in text.removesuffix(said)):
        yield from (lead + _shown(line) for line in text.split("\n"))
    for path in logs:
        lines, is_cut = _last_lines(path)
        yield f"{lead}{relative(path)}" + (f" (the last {len(lines)} lines)" if is_cut else "")
        yield from (f"{lead}  {_shown(line)}".rstrip() for line in lines)


def _last_lines(path: Path) -> tuple[list[str], bool]:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL_BYTES))
        lines = file.read().decode(errors="replace").splitlines()
    return lines[-LAST_LINES:], len(lines) > LAST_LINES or size > _TAIL_BYTES


def _shown(line: str) -> str:
    from whyrun.planning.explain import printable

    return printable(line.expandtabs()).rstrip()
