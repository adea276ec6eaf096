"""`data/merge` for analysts: `indicator`, `assert`, `update`, examples of keys without a partner, and what is told."""

from __future__ import annotations

from typing import Any

import pytest
from data_lab import Make, failure, lab_of, made, table, task_details

from whyrun.console.lines import LogLevel
from whyrun.log import events as ev

pytestmark = pytest.mark.usefixtures("data_libraries")

LEFT = "id,x,y\n1,a,10\n2,,20\n3,c,\n5,e,50\n,f,60\n"
RIGHT = "id,x,z\n1,A,7\n2,b,8\n3,c,9\n4,d,0\n"
BOTH = {"l.csv": LEFT, "r.csv": RIGHT}
WITH: dict[str, Any] = {"primary_dataset": "@l", "secondary_dataset": "@r", "keys": ["id"]}


def test_the_indicator_says_where_a_row_comes_from(project: Make) -> None:
    rows = made(project, "data/merge", {**WITH, "how": "outer", "indicator": "_merge", "suffix": "_r"}, BOTH)
    assert [(row[0], row[-1]) for row in rows] == [
        ("id", "_merge"), ("1", "both"), ("2", "both"), ("3", "both"), ("5", "left_only"), ("", "left_only"),
        ("4", "right_only"),
    ]  # fmt: skip


def test_update_fills_what_is_missing_and_keeps_what_differs(project: Make) -> None:
    lab = lab_of(project, "data/merge", {**WITH, "how": "outer", "indicator": "from", "update": True}, BOTH)
    ran = lab.succeed()
    assert table(lab.root / "out/made.csv") == [
        ["id", "x", "y", "z", "from"],
        ["1", "a", "10", "7", "conflict"],
        ["2", "b", "20", "8", "updated"],
        ["3", "c", "", "9", "both"],
        ["5", "e", "50", "", "left_only"],
        ["", "f", "60", "", "left_only"],
        ["4", "d", "", "0", "right_only"],
    ]
    decision, _ = task_details(ran)
    assert decision["update"] == {"columns": ["x"], "updated": 1, "conflicts": 1}
    assert decision["unmatched"] == {"left": [{"id": "5"}], "right": [{"id": "4"}]}


def test_one_name_for_each_of_several_datasets(project: Make) -> None:
    files = {"l.csv": "id\n1\n2\n3\n", "a.csv": "id,a\n1,x\n", "b.csv": "id,b\n1,x\n2,y\n"}
    with_ = {"primary_dataset": "@l", "secondary_dataset": ["@a", "@b"], "keys": ["id"], "indicator": ["in_a", "in_b"]}
    assert made(project, "data/merge", with_, files) == [
        ["id", "a", "in_a", "b", "in_b"],
        ["1", "x", "both", "x", "both"],
        ["2", "", "left_only", "y", "both"],
        ["3", "", "left_only", "", "left_only"],
    ]


@pytest.mark.parametrize("how", ["left", "inner"])
@pytest.mark.parametrize(
    ("asserted", "sides"),
    [
        ("left", ["2 of 5 rows of `primary_dataset` have no partner: (id=5), 1 row without a key"]),
        ("right", ["1 of 4 rows of `secondary_dataset` has no partner: (id=4)"]),
        ("match", ["2 of 5 rows of `primary_dataset` have no partner: (id=5), 1 row without a key",
                   "1 of 4 rows of `secondary_dataset` has no partner: (id=4)"]),
    ],
)  # fmt: skip
def test_an_assertion_judges_all_rows_whatever_is_kept(
    project: Make, how: str, asserted: str, sides: list[str]
) -> None:
    assert failure(project, "data/merge", {**WITH, "how": how, "assert": asserted, "suffix": "_r"}, BOTH) == (
        f"RowsUnmatched: `assert: {asserted}` does not hold: {'; '.join(sides)}; "
        "correct the data or the keys, or remove `assert`"
    )


def test_an_assertion_that_holds_and_nothing_to_show(project: Make) -> None:
    files = {"l.csv": "id,x\n1,a\n2,b\n", "r.csv": "id,z\n2,8\n1,7\n"}
    lab = lab_of(project, "data/merge", {**WITH, "assert": "match"}, files)
    decision, _ = task_details(lab.succeed())
    assert decision["assert"] == "match"
    assert "unmatched" not in decision
    assert "near" not in decision


def test_update_needs_unique_keys_and_the_same_types(project: Make) -> None:
    twice = {"l.csv": LEFT, "r.csv": "id,x\n1,A\n1,B\n"}
    assert failure(project, "data/merge", {**WITH, "update": True}, twice) == (
        "CardinalityViolated: `update` takes each value from one row, and 1 key of `secondary_dataset` occurs more "
        "than once; make its keys unique first, for example with `data/sql`"
    )
    other = {"l.csv": LEFT, "r.csv": "id,y\n1,ten\n"}
    assert failure(project, "data/merge", {**WITH, "update": True}, other) == (
        "ColumnsDiffer: `update` fills `y`, which is integer in `primary_dataset` and text in `secondary_dataset` "
        "(row 1 has `ten`); declare the type, as in `types: {y: text}`"
    )


def test_names_of_indicators_that_cannot_be(project: Make) -> None:
    assert failure(project, "data/merge", {**WITH, "indicator": "Y", "suffix": "_r"}, BOTH) == (
        "ColumnsClash: there is a column `Y` already; choose another name for `indicator`"
    )
    lab = lab_of(project, "data/merge", {**WITH, "secondary_dataset": ["@r", "@r"], "indicator": "m"}, BOTH)
    assert [problem.message for problem in lab.opened().problems] == [
        "`indicator` names 1 column for 2 secondary datasets"
    ]


def test_keys_that_are_nearly_equal_are_told_and_never_matched(project: Make) -> None:
    files = {"l.csv": "id,x\n001,1\nAb ,2\nq,3\n", "r.csv": "id,z\n1,1\nab,2\nk,3\n"}
    with_ = {**WITH, "types": {"id": "text"}}
    lab = lab_of(project, "data/merge", with_, files)
    ran = lab.succeed()
    decision, _ = task_details(ran)
    assert decision["rows"]["matched_left"] == 0
    assert decision["near"] == {"keys": 2, "example": ["001", "1"]}
    assert next(event.message for event in ran.of(ev.Task)) == (
        "merge `secondary_dataset` into `primary_dataset` on id: 1:1, 0 of 3 rows matched, 3 of 3 unused, 3 out: "
        "NO KEY MATCHES, `primary_dataset` has (id=001) and `secondary_dataset` has (id=1); 2 keys without a partner "
        "differ from one of the other side only in case, spaces or zeros, such as `001` and `1`"
    )


def test_without_examples_no_key_is_on_record(project: Make) -> None:
    files = {"l.csv": "id,x\nsecret-A,1\nsecret-B,3\n", "r.csv": "id,z\nSECRET-A,1\n"}
    lab = lab_of(project, "data/merge", {**WITH, "examples": 0}, files)
    ran = lab.succeed()
    told = [(event.message, event.details) for event in ran.of(ev.Task)]
    assert "secret" not in str(told).lower()
    assert task_details(ran)[0]["near"] == {"keys": 1}
    assert "secret" not in failure(project, "data/merge", {**WITH, "examples": 0, "assert": "match"}, files).lower()
    repeated = {**files, "r.csv": "id,z\nsecret-A,1\nsecret-A,2\n"}
    refusal = failure(project, "data/merge", {**WITH, "examples": 0, "cardinality": "1:1"}, repeated)
    assert "1 key occurs more than once in `secondary_dataset` (2 rows); correct" in refusal


def test_at_most_twenty_keys_a_side_each_once_in_the_order_of_the_rows(project: Make) -> None:
    left = "k,id\n" + "".join(f"{n},{100 - n // 2}\n" for n in range(60))
    lab = lab_of(project, "data/merge", WITH, {"l.csv": left, "r.csv": "id\n1\n100\n"})
    decision, _ = task_details(lab.succeed())
    assert decision["unmatched"] == {"left": [{"id": str(99 - n)} for n in range(20)], "right": [{"id": "1"}]}


def test_every_merge_has_one_line_on_the_terminal(project: Make) -> None:
    ran = lab_of(project, "data/merge", {**WITH, "suffix": "_r"}, BOTH).succeed()
    told = zip(ran.heard.lines, ran.heard.levels, strict=True)
    (line,) = [text for (_, text), level in told if level <= LogLevel.SUMMARY and "EXECUTES merge" in text]
    assert line.partition("EXECUTES ")[2].partition(" → ")[0] == (
        "merge `secondary_dataset` into `primary_dataset` on id: 1:1, 3 of 5 rows matched, 1 of 4 unused, 5 out"
    )
