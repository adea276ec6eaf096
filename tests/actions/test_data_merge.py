"""`data/merge` through the whole of Whyrun: results, what is told, and every refusal in full."""

from __future__ import annotations

import json

import pytest
from data_lab import Make, failure, lab_of, made, table, task_details

from project_lab import codes
from whyrun.errors import InvalidError
from whyrun.log import events as ev

pytestmark = pytest.mark.usefixtures("data_libraries")

PANEL = "firm_id,year,sales\n1,2000,1.5\n1,2001,2\n2,2000,\n,2000,9\n"
CONTROLS = "firm_id,year,size\n1,2000,7\n2,2000,8\n3,2000,\n,2000,8\n"
BOTH = {"panel.csv": PANEL, "controls.csv": CONTROLS}
WITH = {"primary_dataset": "@panel", "secondary_dataset": "@controls", "keys": ["firm_id", "year"]}


def test_the_rows_and_everything_that_is_told(project: Make) -> None:
    lab = lab_of(project, "data/merge", {**WITH, "cardinality": "1:1", "how": "outer"}, BOTH)
    ran = lab.succeed()
    assert lab.read("out/made.csv") == (
        "firm_id,year,sales,size\n1,2000,1.5,7\n1,2001,2.0,\n2,2000,,8\n,2000,9.0,\n3,2000,,\n,2000,,8\n"
    )
    assert task_details(ran) == [
        {
            "decision": "merge",
            "left": "primary_dataset",
            "right": "secondary_dataset",
            "how": "outer",
            "keys": ["firm_id", "year"],
            "cardinality": {"asked": "1:1", "found": "1:1"},
            "rows": {
                "left": 4, "right": 4, "matched_left": 2, "matched_right": 2, "unmatched_left": 2,
                "unmatched_right": 2, "null_key_left": 1, "null_key_right": 1, "out": 6,
            },
            "renamed": {},
            "unmatched": {"left": [{"firm_id": "1", "year": "2001"}], "right": [{"firm_id": "3", "year": "2000"}]},
        },
        {
            "read": {"primary_dataset": {"rows": 4, "columns": 3}, "secondary_dataset": {"rows": 4, "columns": 3}},
            "wrote": {
                "made": {
                    "rows": 6,
                    "columns": 4,
                    "types": {"firm_id": "BIGINT", "year": "BIGINT", "sales": "DOUBLE", "size": "BIGINT"},
                }
            },
        },
    ]  # fmt: skip
    assert [event.message for event in ran.of(ev.Task)] == [
        "merge `secondary_dataset` into `primary_dataset` on firm_id, year: 1:1, 2 of 4 rows matched, "
        "2 of 4 unused, 6 out",
        "wrote 6 rows, 4 columns",
    ]
    assert lab.plan().headlines() == {}
    lab.write({"controls.csv": CONTROLS + "1,2001,5\n"})
    assert codes(lab.plan()) == {"Job:J": ["INPUT_CHANGED"]}


def test_several_datasets_are_joined_one_after_the_other(project: Make) -> None:
    lab = lab_of(
        project,
        "data/merge",
        {
            "primary_dataset": "@a",
            "secondary_dataset": ["@b", "@c"],
            "keys": ["k"],
            "suffix": ["_b", "_c"],
            "how": "inner",
        },
        {"a.csv": "k,v\nx,1\ny,2\n", "b.csv": "k,v\ny,20\ny,21\n", "c.csv": "k,v\ny,200\n"},
    )
    ran = lab.succeed()
    assert lab.read("out/made.csv") == "k,v,v_b,v_c\ny,2,20,200\ny,2,21,200\n"
    assert [(d["left"], d["right"], d["cardinality"]["found"], d["renamed"]) for d in task_details(ran)[:-1]] == [
        ("primary_dataset", "secondary_dataset[0]", "1:m", {"v": "v_b"}),
        ("primary_dataset+secondary_dataset[0]", "secondary_dataset[1]", "m:1", {"v": "v_c"}),
    ]


def test_keys_with_other_names_on_the_other_side(project: Make) -> None:
    keys = {"primary": ["firm", "y"], "secondary": ["id", "year"]}
    assert made(
        project,
        "data/merge",
        {"primary_dataset": "@a", "secondary_dataset": "@b", "keys": keys, "how": "right"},
        {"a.csv": "y,firm,v\n1,x,1\n", "b.csv": "id,year,w\nx,1,5\nz,2,6\n"},
    ) == [["y", "firm", "v", "w"], ["1", "x", "1", "5"], ["2", "z", "", "6"]]


def test_empty_files_and_results(project: Make) -> None:
    files = {"panel.csv": "firm_id,year,sales\n", "controls.csv": CONTROLS}
    assert made(project, "data/merge", WITH, files) == [["firm_id", "year", "sales", "size"]]
    assert made(project, "data/merge", {**WITH, "how": "right"}, files)[1:] == [
        ["1", "2000", "", "7"], ["2", "2000", "", "8"], ["3", "2000", "", ""], ["", "2000", "", "8"],
    ]  # fmt: skip
    files = {"panel.csv": PANEL, "controls.csv": "firm_id,year,size\n"}
    assert made(project, "data/merge", {**WITH, "how": "inner"}, files) == [["firm_id", "year", "sales", "size"]]


# --- refusals ----------------------------------------------------------------------------------------------------


def test_a_cardinality_that_does_not_hold(project: Make) -> None:
    rows = "".join(f"{key},2000,{n}\n" for key, times in enumerate((2, 3, 2, 4, 2, 2, 1)) for n in range(times))
    files = {"panel.csv": PANEL + "1,2000,3\n", "controls.csv": f"firm_id,year,size\n{rows},2000,1\n,2000,1\n"}
    assert failure(project, "data/merge", {**WITH, "cardinality": "1:1"}, files) == (
        "CardinalityViolated: `cardinality: 1:1` does not hold (found m:m): "
        "1 key occurs more than once in `primary_dataset` (2 rows): (firm_id=1, year=2000) 2 times; "
        "6 keys occur more than once in `secondary_dataset` (15 rows): (firm_id=3, year=2000) 4 times, "
        "(firm_id=1, year=2000) 3 times, (firm_id=0, year=2000) 2 times, (firm_id=2, year=2000) 2 times, "
        "(firm_id=4, year=2000) 2 times, …; "
        "correct the data, add columns to `keys` that distinguish the rows, or write `m:m`"
    )


def test_what_was_counted_is_on_record_though_the_merge_is_refused(project: Make) -> None:
    files = {"panel.csv": PANEL, "controls.csv": CONTROLS + "1,2000,3\n"}
    ran = lab_of(project, "data/merge", {**WITH, "cardinality": "m:1"}, files).run()
    (event,) = ran.of(ev.Task)
    assert (event.status, event.details["cardinality"]) == ("FAILED", {"asked": "m:1", "found": "1:m"})
    assert event.details["rows"]["out"] == 5


@pytest.mark.parametrize(("asked", "found"), [("1:m", "1:m"), ("m:m", "1:m"), (None, "1:m")])
def test_a_cardinality_that_holds(project: Make, asked: str | None, found: str) -> None:
    files = {"panel.csv": PANEL, "controls.csv": CONTROLS + "1,2000,3\n"}
    ran = lab_of(project, "data/merge", {**WITH, "cardinality": asked}, files).succeed()
    assert task_details(ran)[0]["cardinality"] == {"asked": asked, "found": found}


def test_keys_of_different_types_are_never_cast(project: Make) -> None:
    files = {"panel.csv": PANEL, "controls.csv": "firm_id,year,size\n001,2000,7\n"}
    assert failure(project, "data/merge", WITH, files) == (
        "KeyTypesDiffer: the key `firm_id` is integer in `primary_dataset` and text in `secondary_dataset` "
        "(row 1 has `001`); nothing is cast silently: declare the type, as in `types: {firm_id: integer}`"
    )
    rows = made(project, "data/merge", {**WITH, "types": {"firm_id": "integer"}}, files)
    assert rows[1] == ["1", "2000", "1.5", "7"]


def test_a_column_that_is_not_there(project: Make) -> None:
    """Of large JSON files the columns are known only when the step runs; of other files they are checked before."""
    large = " " * 300_000
    files = {
        "panel.ndjson": '{"firm_id": 1, "year": 2000, "sales": 2}' + large,
        "controls.json": '[{"firm": 1, "year": 2}]' + large,
    }
    assert failure(project, "data/merge", {**WITH, "keys": ["firmid"]}, files) == (
        "ColumnMissing: `keys` names `firmid`, and `primary_dataset` has no such column; did you mean `firm_id`?"
    )
    assert failure(project, "data/merge", {**WITH, "keys": ["year", "sales"]}, files) == (
        "ColumnMissing: `keys` names `sales`, and `secondary_dataset` has no such column; known: `firm`, `year`"
    )
    assert failure(project, "data/merge", {**WITH, "types": {"zz": "text"}}, BOTH) == (
        "ColumnMissing: `types` names `zz`, and no dataset has such a column; known: `firm_id`, `sales`, `size`, `year`"
    )


def test_columns_that_clash(project: Make) -> None:
    files = {"panel.csv": "k,v,w\n1,2,3\n", "controls.csv": "k,v,W\n1,2,3\n"}
    with_ = {**WITH, "keys": ["k"]}
    assert failure(project, "data/merge", with_, files) == (
        "ColumnsClash: `secondary_dataset` has 2 columns that `primary_dataset` also has and that are not keys: "
        "`v`, `W`; add them to `keys`, or write `suffix:` for those of `secondary_dataset`"
    )
    assert made(project, "data/merge", {**with_, "suffix": "_2"}, files)[0] == ["k", "v", "w", "v_2", "W_2"]
    files["panel.csv"] = "k,v,v_2\n1,2,3\n"
    assert failure(project, "data/merge", {**with_, "suffix": "_2"}, files) == (
        "ColumnsClash: with `suffix: _2` there are still two columns `v_2`; choose another suffix"
    )


def test_what_is_refused_before_anything_runs(project: Make) -> None:
    wrong = {
        "secondary_dataset": "controls.csv",
        "primary_dataset": "@panel",
        "keys": [],
        "cardinality": "one",
        "how": "cross",
        "memory_limit": "lots",
        "sufix": "_x",
    }
    lab = lab_of(project, "data/merge", wrong, BOTH)
    with pytest.raises(InvalidError) as refused:
        lab.plan()
    assert sorted(d.message for d in refused.value.diagnostics) == [
        '`cardinality` is "one"; it takes one of "1:1", "1:m", "m:1", "m:m" or null',
        '`how` is "cross"; it takes one of "inner", "left", "outer", "right"',
        "`keys` is []; it takes a list of at least 1 member, each a text of at least 1 character or a mapping",
        '`memory_limit` is "lots"; it takes a text that matches `^[0-9]+(\\.[0-9]+)? ?(KB|MB|GB|TB|KiB|MiB|GiB|TiB)$`',
        '`secondary_dataset` is the text "controls.csv", not a bound file or folder; it takes a file or a list '
        "of files",
        "the action `data/merge` has no parameter `sufix`",
    ]
    sides = {**WITH, "keys": {"primary": ["a", "b"], "secondary": ["a"]}}
    with pytest.raises(InvalidError, match="names 2 columns of the primary and 1 of the secondary"):
        lab_of(project, "data/merge", sides, BOTH).plan()


def test_outputs_that_cannot_be_written(project: Make) -> None:
    """Known before anything runs; a path that is computed is known when the step does."""
    lab = lab_of(project, "data/merge", WITH, BOTH, out="out/made.xlsx")
    assert [(problem.code, problem.message) for problem in lab.opened().problems] == [
        ("OUTPUT_UNUSABLE", "`data/merge` writes `.csv`, `.tsv` or `.parquet`, and `made` ends in `.xlsx`")
    ]
    document = json.loads(lab.read("workflow.yaml"))
    document["jobs"]["J"]["outputs"] = {"made": {"type": "dataset"}, "more": {"type": "dataset"}}
    lab.write({"workflow.yaml": json.dumps(document)})
    assert [(problem.code, problem.message) for problem in lab.opened().problems] == [
        ("OUTPUT_UNUSABLE", "`data/merge` writes one output, and `J` declares `more` beside `made`")
    ]
    document["inputs"]["End"] = {"type": "string", "default": "xlsx"}
    document["jobs"]["J"]["outputs"] = {"made": {"type": "dataset", "path": "out/made.${{ inputs.End }}"}}
    ran = lab.write({"workflow.yaml": json.dumps(document)}).run()
    assert [event.error for event in ran.of(ev.StepFailed)] == [
        "`data/merge` writes `.csv`, `.tsv` or `.parquet`, and `made` ends in `.xlsx`; change its `path:`"
    ]


def test_the_same_bytes_every_time_and_with_any_number_of_threads(project: Make) -> None:
    left = "k,v\n" + "".join(f"{n * 7919 % 20011},{n}\n" for n in range(20011))
    right = "k,w\n" + "".join(f"{n * 104729 % 20011 // 2},word {n}\n" for n in range(20011))
    seen = set()
    for threads in (1, 2, 4):
        with_ = {"primary_dataset": "@a", "secondary_dataset": "@b", "keys": ["k"], "threads": threads}
        lab = lab_of(project, "data/merge", with_, {"a.csv": left, "b.csv": right}, out="out/made.parquet")
        lab.succeed()
        seen.add((lab.root / "out/made.parquet").read_bytes())
    assert len(seen) == 1


def test_a_small_memory_limit_and_a_tab_separated_result(project: Make) -> None:
    lab = lab_of(project, "data/merge", {**WITH, "memory_limit": "64MB"}, BOTH, out="out/made.tsv")
    lab.succeed()
    assert lab.read("out/made.tsv").splitlines()[:2] == ["firm_id\tyear\tsales\tsize", "1\t2000\t1.5\t7"]
    assert table(lab.root / "out/made.tsv")
