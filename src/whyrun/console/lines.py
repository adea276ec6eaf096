"""The lines that people read: `YYYY-MM-DD HH:MM:SS [action-name] STATUS task description (details)`.

The set of statuses is closed, so that programs can parse the lines. An action's own text goes into the details. It is
escaped here, where a line becomes text, so that nobody's text can end a line, look like another line, or control a
terminal.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Any

from whyrun.errors import printable

SHOWN_FILES = 3  # the number of inputs or outputs that a line names


class TaskStatus(StrEnum):
    EXECUTES = "EXECUTES"
    WOULD_EXECUTE = "WOULD_EXECUTE"
    SKIPS = "SKIPS"
    WOULD_SKIP = "WOULD_SKIP"
    IDENTICAL = "IDENTICAL"
    DIFFERENT = "DIFFERENT"
    INVALID_USES = "INVALID_USES"
    INVALID_PARAMETER = "INVALID_PARAMETER"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"


STATUSES = {status.value: status for status in TaskStatus}
BAD = frozenset(
    {TaskStatus.FAILED, TaskStatus.TIMED_OUT, TaskStatus.DIFFERENT, TaskStatus.INVALID_USES,
     TaskStatus.INVALID_PARAMETER}
)  # fmt: skip


class LogLevel(IntEnum):
    """How much is logged. Each level includes the previous ones."""

    NONE = 0  # nothing
    PROGRESS = 1  # the headline, the progress, failures, notes, and the summary at the end
    SUMMARY = 2  # also a line for each job that a run touches
    ALL = 3  # also up-to-date jobs and the tasks that actions report
    DEBUG = 4  # also tracebacks and the work of the engine itself

    @classmethod
    def named(cls, name: str) -> LogLevel:
        return cls[name.upper()]


def task_status(status: str) -> TaskStatus:
    """The status of this name. Raises a ValueError that lists all statuses."""
    try:
        return STATUSES[status]
    except KeyError:
        raise ValueError(f"{status!r:.60} is not a task status; the statuses are {', '.join(TaskStatus)}") from None


_IN_ACTION_NAMES = str.maketrans("[]", "()")  # the brackets of a line enclose the name of the action, and nothing else
INTERRUPTED = "interrupted"
INDENT = "    "  # a line that begins with it belongs to the line above


@dataclass(slots=True)
class TaskLine:
    """One line, and the traceback that follows it in a log. The texts may be anybody's."""

    when: datetime
    action: str
    status: TaskStatus
    text: str
    level: LogLevel = LogLevel.SUMMARY  # the lowest level that shows it
    traceback: str = ""
    see: int | None = None  # the number of the log line where the traceback begins
    always: bool = False  # shown also with `--quiet`
    interrupted: bool = False  # Ctrl-C, `--fail-fast` or a signal ended the step; its status is FAILED
    _rendered: str = ""

    @property
    def shown_from(self) -> LogLevel:
        """The lowest level that shows it. A level that has no line for each job still tells what went wrong."""
        wrong = self.status in BAD and not self.interrupted
        return LogLevel.PROGRESS if self.always or wrong else self.level

    def render(self, see: int | None = None) -> str:
        if not self._rendered:  # cached: terminal, log file and capture list all render it
            when = self.when.isoformat(" ", "seconds")[:19]
            action = printable(self.action).translate(_IN_ACTION_NAMES)
            self._rendered = f"{when} [{action}] {self.status.value} {printable(self.text)}"
        number = self.see if see is None else see
        return f"{self._rendered} (see log line {number})" if self.traceback and number is not None else self._rendered

    def for_terminal(self) -> str:
        """The line for people. That a step was interrupted is no failure of it, but no status of its own either."""
        if not self.interrupted:
            return self.render()
        head, status, text = self.render().partition(f"] {self.status.value} ")
        return f"{head}{status.replace(self.status.value, INTERRUPTED)}{text.removesuffix(f' → {INTERRUPTED}')}"

    def log_lines(self, number: int) -> list[str]:
        """The line and its traceback for a log in which this is line `number`."""
        return [self.render(number + 1), *self.traceback_lines()] if self.traceback else [self.render()]

    def traceback_lines(self) -> list[str]:
        """Indented, so that a parser can skip them."""
        return [INDENT + line for line in split_printable(self.traceback.rstrip("\n"))] if self.traceback else []


def split_printable(text: str) -> list[str]:
    return [printable(line.expandtabs()) for line in text.split("\n")]


def task_text(
    task: str,
    *,
    runtime: str = "",
    inputs: str = "",
    outputs: str = "",
    details: Iterable[str] = (),
) -> str:
    """`learn graph in 2.3s → inputs: asia.csv (1.2MB) → outputs: graph.xml (0.8MB) → details`."""
    parts = [f"{task} {runtime}" if runtime else task]
    if inputs:
        parts.append(f"inputs: {inputs}")
    if outputs:
        parts.append(f"outputs: {outputs}")
    parts.extend(detail for detail in details if detail)
    return " → ".join(parts)


def file_text(path: str, note: str) -> str:
    return f"{path} ({note})" if note else path


def finite(value: Any) -> float | None:
    """A number that an action or a program gave; None for anything that is no number, or not a finite one."""
    if value is None or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def runtime_text(status: TaskStatus, runtime: float | None) -> str:
    if runtime is None:
        return ""
    if status in (TaskStatus.FAILED, TaskStatus.TIMED_OUT):
        return f"after {seconds(runtime)}"
    return f"in ~{seconds(runtime)}" if status is TaskStatus.WOULD_EXECUTE else f"in {seconds(runtime)}"


def seconds(duration: float) -> str:
    """2.3s, 0.04s, 300s, 10m 05s, 1h 02m."""
    if duration < 0.095:
        return f"{duration:.2f}s"
    if duration < 99.95:
        return f"{duration:.1f}s"
    whole = round(duration)
    if whole < 600:
        return f"{whole}s"
    return f"{whole // 60}m {whole % 60:02d}s" if whole < 3600 else f"{whole // 3600}h {whole % 3600 // 60:02d}m"


def size(bytes_: int) -> str:
    """812B, 1.2KB, 3.4MB."""
    amount = float(bytes_)
    for unit in ("B", "KB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            return f"{amount:.0f}B" if unit == "B" else f"{amount:.1f}{unit}"
        amount /= 1000
    raise AssertionError("unreachable")


def listed(names: Sequence[str], most: int = 3, total: int | None = None) -> str:
    """The first few names. `total`: how many there are, if `names` does not hold all of them."""
    shown = ", ".join(names[:most])
    number = len(names) if total is None else total
    return f"{shown}, … ({number} in all)" if number > most else shown


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


# The error of a step whose condition has no value starts with this text.
_NO_VALUE = "the condition cannot be computed: "
# In a dataset plan, this separates the step's own expression from the condition.
_CONDITION = "`: condition `"


def why_no_value(failure: str) -> str | None:
    """Why the condition of a failed step has no value; None if it failed otherwise.

    The reason is the same for all steps that depend on the condition.
    """
    _, separator, why = failure.partition(_NO_VALUE)
    return why.rpartition(_CONDITION)[2] if separator else None
