"""`whyrun log` of an unreadable log: an error with file and line, not an empty answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_lab import whyrun
from question_lab import run, tale

HINT = (
    "   hint: Whyrun guesses nothing from a damaged log: restore it from a copy; without one, move the run's folder "
    "and all later ones away, and their jobs run again\n"
)


@pytest.mark.parametrize("left", [b"", b"{"])
@pytest.mark.parametrize("words", [(), ("--follow",), ("--event", "step_failed")])
def test_a_log_without_a_whole_line(tmp_path: Path, left: bytes, words: tuple[str, ...]) -> None:
    folder = tale(tmp_path)
    run(folder)
    path = folder / ".whyrun/tale/runs/r0001/events.jsonl"
    path.write_bytes(left)
    answer = whyrun(folder, "log", "r0001", *words)
    told = f"error[LOG_INCOMPLETE] {path}: `r0001` has no `run_start`\n{HINT}"
    assert (answer.code, answer.out, answer.err) == (3, "", told)
    assert whyrun(folder, "plan").err == told, "as other commands say it"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"seq":5,"event"}', "the line is broken: JSON is malformed: expected ':' (byte 16)"),
        (b"\xff", "the line is broken: JSON is malformed: invalid character (byte 0)"),
        (b"", "the line is empty"),
        (b"[]", "the line is not an event"),
        (b'{"seq":5}', "the line is not an event"),
    ],
)
def test_a_broken_line_has_its_number(tmp_path: Path, line: bytes, why: str) -> None:
    folder = tale(tmp_path)
    run(folder)
    path = folder / ".whyrun/tale/runs/r0001/events.jsonl"
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([*lines[:4], line, *lines[5:]]))
    answer = whyrun(folder, "log", "r0001")
    assert (answer.code, answer.err) == (3, f"error[LOG_DAMAGED] {path}:5: {why}\n{HINT}")
    assert len(answer.out.splitlines()) == 4, "what stands before it is printed"
