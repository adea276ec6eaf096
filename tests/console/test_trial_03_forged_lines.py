"""What others wrote (tasks, errors, names) never becomes a status line, a new line or a control code."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from console_lab import Project

import whyrun
from project_lab import Lab
from whyrun import LogLevel, TaskStatus, WorkflowLogger
from whyrun.console.lines import STATUSES, TaskLine

NOON = datetime(2026, 6, 23, 12, 3, 23)
FORGED = "2026-06-23 12:03:23 [shell] EXECUTES Job:Forged in 1.0s"
# Each of these ends a line for some program, or changes what a terminal shows.
CONTROLS = [
    "\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\x00", "\x1b[2K\x1b[1A", "\x9b2K", "\u202e", "\x08",
]  # fmt: skip
STATUS_LINE = re.compile(rf"\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d \[([^\]]*)\] ({'|'.join(STATUSES)}) ")


class Everywhere:
    """A logger, and all that it wrote: terminal, file and list."""

    def __init__(self, folder: Path, level: LogLevel = LogLevel.SUMMARY) -> None:
        self.stream, self.lines, self.file = io.StringIO(), list[str](), folder / "run.log"
        self.logger = WorkflowLogger(True, self.file, level, capture=self.lines, stream=self.stream, clock=lambda: NOON)

    def texts(self) -> list[str]:
        return [self.stream.getvalue(), self.file.read_text(), "".join(f"{line}\n" for line in self.lines)]

    def status_lines(self) -> list[tuple[str, str]]:
        """(action, status) of the status lines, which are the same everywhere; nothing has a control code."""
        found = []
        for text in self.texts():
            assert all(line.isprintable() for line in text.split("\n")), text
            found.append([match.groups() for line in text.splitlines() if (match := STATUS_LINE.match(line))])
        assert found[0] == found[1] == found[2]
        return found[0]  # type: ignore[return-value]


@pytest.mark.parametrize("control", CONTROLS)
def test_a_task_is_one_line_whatever_is_in_its_text(tmp_path: Path, control: str) -> None:
    """Issue 17, number 3."""
    everywhere = Everywhere(tmp_path)
    bad = f"x{control}{FORGED}"
    everywhere.logger.log_task("one", "EXECUTES", bad, inputs=[bad], outputs={"o": Path("y" + bad[1:])}, job_info=bad)
    everywhere.logger.log_task(bad, "SKIPS", "two")
    assert [status for _, status in everywhere.status_lines()] == ["EXECUTES", "SKIPS"]
    assert [text.count("\n") for text in everywhere.texts()] == [2, 2, 2]


def test_an_action_name_cannot_hold_a_status(tmp_path: Path) -> None:
    """Issue 17, number 3."""
    everywhere = Everywhere(tmp_path)
    everywhere.logger.log_task("shell] EXECUTES Job:Forged [x", "FAILED", "task")
    assert everywhere.status_lines() == [("shell) EXECUTES Job:Forged (x", "FAILED")]


@pytest.mark.parametrize(
    ("runtime", "shown"),
    [(float("nan"), ""), (float("inf"), ""), (-float("inf"), ""), (10**400, ""), ("soon", ""), (object(), ""),
     (True, ""), ("2.5", " in 2.5s"), (2.5, " in 2.5s")],
)  # fmt: skip
def test_a_runtime_that_is_no_number_is_left_out(tmp_path: Path, runtime: Any, shown: str) -> None:
    """Issue 17, number 3."""
    everywhere = Everywhere(tmp_path)
    everywhere.logger.log_task("a", TaskStatus.EXECUTES, "task", runtime=runtime)
    assert everywhere.lines == [f"2026-06-23 12:03:23 [a] EXECUTES task{shown}"]


def test_what_is_no_text_is_shown_as_text(tmp_path: Path) -> None:
    """Issue 17, number 3."""
    everywhere = Everywhere(tmp_path)
    log: Callable[..., None] = everywhere.logger.log_task
    log(None, "EXECUTES", 7, inputs=b"raw", outputs={"o": None}, job_info=["a", 1])
    log("b", "EXECUTES", None, inputs=3.5, outputs=[["x"], {}], job_info={"k": float("nan")})
    everywhere.logger.start_progress(3, float("nan"))
    everywhere.logger.update_progress(1, 17)  # type: ignore[arg-type]
    everywhere.logger.finish_progress()
    assert everywhere.lines == [
        "2026-06-23 12:03:23 [None] EXECUTES 7 → inputs: b'raw' → outputs: None → ['a', 1]",
        "2026-06-23 12:03:23 [b] EXECUTES None → inputs: 3.5 → outputs: ['x'], {} → {'k': nan}",
    ]


@pytest.mark.parametrize("control", CONTROLS)
def test_a_traceback_is_indented_and_plain_on_the_terminal_too(tmp_path: Path, control: str) -> None:
    """Issue 17, number 3."""
    everywhere = Everywhere(tmp_path, LogLevel.DEBUG)
    trace = f"Traceback (most recent call last):\nValueError: x{control}{FORGED}\n"
    everywhere.logger.line(TaskLine(NOON, "a", TaskStatus.FAILED, "task", traceback=trace))
    everywhere.logger.note(f"n{control}{FORGED}")
    everywhere.logger.debug(f"d{control}{FORGED}")
    everywhere.logger.say(f"s{control}{FORGED}".replace("\n", " "))  # its own text may have several lines
    assert everywhere.status_lines() == [("a", "FAILED")]


FLOW = """
workflow: w
jobs:
  A: {uses: bad/step, outputs: {T: {type: text}}}
"""
ACTION = f"""
from whyrun import action

@action("bad/step", outputs={{"T": "text"}})
def step(context, logger):
    logger.log_task("x] EXECUTES Job:Forged [y", "FAILED", "a\\n{FORGED}", runtime=float("nan"), inputs="\\x1b[2K")
    logger.log_task("task", "SKIPS", "a\\r{FORGED}", runtime=10**400, outputs=object, job_info={{"k": "\\x1b"}})
    raise ValueError("no\\n{FORGED}\\x1b[2K")
"""


def test_a_step_forges_nothing_in_any_log_at_any_level(project: Callable[..., Lab], tmp_path: Path) -> None:
    """Issue 17, number 3."""
    lab = project(FLOW, {"actions/bad.py": ACTION})
    everywhere = Everywhere(tmp_path, LogLevel.DEBUG)
    run = whyrun.run(lab.file, logger=everywhere.logger).run
    kinds = [("x) EXECUTES Job:Forged (y", "FAILED"), ("task", "SKIPS"), ("bad/step", "FAILED")]
    assert everywhere.status_lines() == kinds
    for name in ("whyrun.log", "debug.log"):
        text = (lab.run_folder(run or "") / name).read_text()
        assert all(line.isprintable() for line in text.split("\n"))
        found = [match.groups() for line in text.splitlines() if (match := STATUS_LINE.match(line))]
        assert found == (kinds if name == "whyrun.log" else [])


READERS = [
    "log", "log --status FAILED", "show Job:A", "show Job:B", "show r0001", "show Artifact:B.T", "show Input:S",
    "why Job:B", "history Artifact:B.T", "status", "explain", "run --log-level debug",
]  # fmt: skip
OTHER = """
  B: {uses: shell, with: {s: "${{ inputs.S }}", run: 'printf "%s" "$s" > "$out_T"'}, outputs: {T: {type: string}}}
inputs: {S: {type: string, default: "a\\x1b[2K\\x9bb"}}
"""


def test_a_step_forges_nothing_in_the_answers_of_commands(tmp_path: Path) -> None:
    """Issue 17, number 3."""
    whyrun_in = Project(tmp_path, {"workflow.yaml": FLOW + OTHER, "actions/bad.py": ACTION})
    assert whyrun_in("run").code == 1
    for words in READERS:
        answer = whyrun_in(*words.split())
        lines = [*answer.out.split("\n"), *answer.err.split("\n")]
        assert all(line.isprintable() for line in lines), words
        assert not [line for line in lines if line.startswith(FORGED)], words
