"""The keys of merges against the headers of files that are there: what is looked at, and what is told of it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from project_lab import Lab
from whyrun.graph.expand import expand
from whyrun.snapshot.composition import merge_key_problems

pytest.importorskip("duckdb")

Make = Callable[..., Lab]
Problems = list[tuple[int | None, int | None, str, str | None]]

FLOW = """\
workflow: w
inputs:
  Main: {type: dataset, default: main.csv}
  Other: {type: dataset, default: other.csv}
  Word: {type: string, default: id}
  Words: {type: "string[]", default: [id]}
loops: {n: {values: [1, 2]}}
jobs:
  Make: {uses: shell, with: {run: x}, outputs: {Data: {type: dataset, path: made.csv}}}
  Merge:
    uses: data/merge
    with:
      primary_dataset: ${{ inputs.Main }}
      secondary_dataset: ${{ inputs.Other }}
      keys: [id, year]
    outputs: {Data: {type: dataset}}
"""
FILES: dict[str, str | bytes | None] = {"main.csv": "id,year,x\n1,2,3\n", "other.csv": "id,year,y\n1,2,3\n"}
KEYS = "keys: [id, year]"


def key_problems(
    project: Make, files: dict[str, str | bytes | None] | None = None, *edits: tuple[str, str]
) -> Problems:
    flow = FLOW
    for old, new in edits:
        assert flow.count(old) == 1, old
        flow = flow.replace(old, new)
    lab = project(flow, {**FILES, **(files or {})})
    opened = lab.opened()
    problems = merge_key_problems(expand(opened.workflow, opened.inputs), lab.root)
    assert {problem.code for problem in problems} <= {"MERGE_KEY_UNKNOWN"}
    return [(problem.line, problem.column, problem.message, problem.hint) for problem in problems]


def test_keys_that_both_files_have_are_fine(project: Make) -> None:
    assert key_problems(project) == []


def test_each_key_that_a_file_lacks_is_told_where_it_is_written(project: Make) -> None:
    files: dict[str, Any] = {"main.csv": "aa,bb\n1,2\n", "other.csv": "id,yeer\n1,2\n"}
    assert key_problems(project, files) == [
        (15, 14, "`Input:Main` has no column `id`", "known: `aa`, `bb`"),
        (15, 18, "`Input:Main` has no column `year`", "known: `aa`, `bb`"),
        (15, 18, "`Input:Other` has no column `year`", "did you mean `yeer`?"),
    ]


def test_keys_by_side_are_looked_for_on_their_side(project: Make) -> None:
    by_side = (KEYS, "keys: {primary: [id, x], secondary: [y, id]}")
    assert key_problems(project, None, by_side) == []
    swapped = (KEYS, "keys: {primary: [y], secondary: [x]}")
    assert [(line, column, message) for line, column, message, _ in key_problems(project, None, swapped)] == [
        (15, 13, "`Input:Main` has no column `y`"),
        (15, 13, "`Input:Other` has no column `x`"),
    ]


@pytest.mark.parametrize(
    "keys", ["keys: ${{ inputs.Words }}", 'keys: ["${{ inputs.Word }}", none]', "keys: 7", "how: x"]
)
def test_keys_that_are_not_known_yet_or_no_list_are_left_to_the_step(project: Make, keys: str) -> None:
    assert key_problems(project, {"main.csv": "a\n", "other.csv": "b\n"}, (KEYS, keys)) == []


def test_what_is_no_text_is_no_key(project: Make) -> None:
    assert key_problems(project, None, (KEYS, "keys: [7, id, null]")) == []
    assert key_problems(project, None, (KEYS, "keys: {primary: [7], secondary: id}")) == []
    found = key_problems(project, {"main.csv": "x\n"}, (KEYS, "keys: [7, id]"))
    assert [(line, column, message) for line, column, message, _ in found] == [
        (15, 17, "`Input:Main` has no column `id`")
    ], "told where it is written, and not where the number is"


def test_an_instance_more_is_no_problem_more(project: Make) -> None:
    looped = ("  Merge:\n    uses", "  Merge:\n    for: [n]\n    uses")
    assert [message for _, _, message, _ in key_problems(project, {"main.csv": "id\n"}, looped)] == [
        "`Input:Main` has no column `year`"
    ]


@pytest.mark.parametrize(
    "source",
    ["${{ jobs.Make.outputs.Data }}", "${{ inputs.Word }}", "main.csv"],
    ids=["made by a step", "no file", "a text"],
)
def test_only_files_that_are_given_are_looked_at(project: Make, source: str) -> None:
    edit = ("${{ inputs.Main }}", source)
    assert key_problems(project, {"main.csv": "none\n"}, edit) == []


def test_other_entries_of_a_merge_are_not_looked_at(project: Make) -> None:
    assert key_problems(project, None, ("keys: [id, year]", "keys: [id, x]\n      more: ${{ inputs.Other }}")) == [
        (15, 18, "`Input:Other` has no column `x`", "known: `id`, `year`, `y`"),
    ]


def test_only_merges_are_looked_at(project: Make) -> None:
    for uses in ("data/append", "shell"):
        assert key_problems(project, {"main.csv": "none\n"}, ("uses: data/merge", f"uses: {uses}")) == []
    operation = ("uses: data/merge\n    with:\n", "uses: shell\n    with:\n      operation: merge\n")
    assert key_problems(project, {"main.csv": "none\n"}, operation) == [], "only plans call a step of one's own a merge"


@pytest.mark.parametrize("entry", ["delimiter", "encoding", "sheet"])
def test_where_it_is_not_known_how_files_are_read_none_is(project: Make, entry: str) -> None:
    unknown = (KEYS, f"{KEYS}\n      {entry}: ${{{{ inputs.Word }}}}")
    assert key_problems(project, {"main.csv": "none\n"}, unknown) == []


def test_files_are_read_as_the_action_reads_them(project: Make) -> None:
    semicolons: dict[str, Any] = {"main.csv": "id;year\n", "other.csv": "id;year\n"}
    assert key_problems(project, semicolons, (KEYS, f'{KEYS}\n      delimiter: ";"')) == []
    assert [(line, column, message) for line, column, message, _ in key_problems(project, semicolons)] == [
        (15, 14, "`Input:Main` has no column `id`"),
        (15, 18, "`Input:Main` has no column `year`"),
        (15, 14, "`Input:Other` has no column `id`"),
        (15, 18, "`Input:Other` has no column `year`"),
    ]
    assert key_problems(project, semicolons)[0][3] == 'its only column is `id;year`: is it `delimiter: ";"`?'
    latin: dict[str, Any] = {name: "ä,id,year\n".encode("latin-1") for name in ("main.csv", "other.csv")}
    assert key_problems(project, latin, (KEYS, f"{KEYS}\n      encoding: latin-1")) == []


def test_a_file_without_a_header_is_told_of_at_the_keys(project: Make) -> None:
    ((line, column, message, hint),) = key_problems(project, {"main.csv": b"\xff\xfe\xfa\n"})
    assert (line, column) == (15, 13)
    assert message.startswith("`Input:Main` has no header to look for keys in: ")
    assert hint == "is it the right file, in the format of its suffix?"


@pytest.mark.parametrize(("count", "shown"), [(12, "qq11"), (13, "qq11, …")])
def test_at_most_twelve_columns_are_named(project: Make, count: int, shown: str) -> None:
    """Of a key that is too long to look for one that is like it."""
    header = ",".join(f"qq{number:02}" for number in range(count))
    long_key = (KEYS, f"keys: [{'k' * 2000}]")
    found = key_problems(project, {"main.csv": f"{header}\n", "other.csv": "k" * 2000 + "\n"}, long_key)
    names = ", ".join(f"qq{number:02}" for number in range(11))
    assert [hint for *_, hint in found] == [f"its columns: {names}, {shown}"]


def test_columns_that_take_more_than_a_look_are_left_to_the_step(project: Make) -> None:
    large = '[{"a": "' + "x" * 300_000 + '"}]'
    edit = ("default: main.csv", "default: main.json")
    assert key_problems(project, {"main.json": large}, edit) == []


# --- merges of one's own -----------------------------------------------------------------------------------------


def own(project: Make, header: str | bytes, operation: str = "merge") -> list[str]:
    """What is told where a plan merges with an action of the user's own."""
    flow = FLOW.replace("uses: data/merge\n    with:\n", f"uses: shell\n    with:\n      operation: {operation}\n")
    lab = project(flow, {**FILES, "main.csv": header})
    opened = lab.opened()
    graph = expand(opened.workflow, opened.inputs)
    for table in graph.tables:
        if table.name == "Merge":
            assert isinstance(table.decl.places, dict)
            table.decl.places["merge"] = table.decl.place
    return [problem.message for problem in merge_key_problems(graph, Path(lab.root))]


def test_an_action_of_ones_own_may_read_the_header_in_another_way(project: Make) -> None:
    assert own(project, "ID;Year\n") == []
    assert own(project, "My ID,the year\n") == []
    assert own(project, "x,year\n") == ["`Input:Main` has no column `id`"]
    assert own(project, b"\xff\xfe\xfa\n") == []


def test_one_that_does_not_merge_needs_no_keys(project: Make) -> None:
    assert own(project, "x,year\n", operation="append") == []


def test_where_files_cannot_be_read_for_want_of_a_library_the_action_says_so(
    project: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert key_problems(project, {"main.parquet": b"PAR1"}, ("default: main.csv", "default: main.parquet")) == []
