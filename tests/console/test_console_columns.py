"""Columns are aligned as a terminal shows them, and one very long ID does not push all other rows aside."""

from __future__ import annotations

from whyrun.cli.output import columns
from whyrun.errors import Diagnostic, text_width


def test_letters_that_take_two_columns_and_marks_that_take_none() -> None:
    assert [text_width(text) for text in ("abc", "短い名前", "Größe", "u\u0308", "שלום")] == [3, 8, 5, 1, 4]
    assert columns([("短い", "a"), ("long", "b")]) == ["  短い  a", "  long  b"]


def test_a_very_long_cell_sticks_out_of_its_column() -> None:
    rows = [("Job:A", "planned"), ("x" * 200, "failed"), ("Job:Longer", "clean")]
    assert columns(rows) == ["  Job:A       planned", f"  {'x' * 200}  failed", "  Job:Longer  clean"]
    assert columns([("y" * 200, "", "one"), ("z" * 99, "", "two")]) == [f"  {'y' * 200}  one", f"  {'z' * 99}  two"]


def test_the_marker_of_a_mistake_stands_under_it() -> None:
    line = '  名前: "${{ 値 }}"'
    told = Diagnostic(
        "UNKNOWN_REFERENCE", "there is no `値` here", "workflow.yaml", 3, line.index("値") + 1,
        source_line=line, width=1,
    )  # fmt: skip
    _, source, marker = told.render().splitlines()
    assert source.endswith(line)
    assert text_width(marker) == text_width(source[: source.index("値")]) + 2
    assert marker.endswith(" ^^")
