"""Prose in the README and the docs is wrapped: no line outside tables and code blocks is longer than 120 characters."""

from __future__ import annotations

from pathlib import Path

import pytest
from blocks import pages, shown

WIDTH = 120


def prose_lines(text: str) -> list[tuple[int, str]]:
    """The numbered lines of a page outside tables and fenced code blocks."""
    lines: list[tuple[int, str]] = []
    in_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            in_code = not in_code
        elif not in_code and not line.startswith("|"):
            lines.append((number, line))
    return lines


@pytest.mark.parametrize("page", pages(), ids=shown)
def test_prose_is_wrapped(page: Path) -> None:
    too_long = [
        f"{shown(page)}:{number} ({len(line)} characters)"
        for number, line in prose_lines(page.read_text(encoding="utf-8"))
        if len(line) > WIDTH
    ]
    assert too_long == []


def test_tables_and_code_blocks_may_be_wide() -> None:
    wide = "x" * (WIDTH + 1)
    assert prose_lines(f"first\n| {wide} |\n```text\n{wide}\n```\nlast\n") == [(1, "first"), (6, "last")]
