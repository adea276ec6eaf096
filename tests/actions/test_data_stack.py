"""`data/append` and `data/aggregate`: stacking, labelling, summing up, and what is refused."""

from __future__ import annotations

import csv
import tempfile
from pathlib import Path

import pytest
from data_lab import EXAMPLES, Make, failure, lab_of, made, task_details
from hypothesis import given, settings
from hypothesis import strategies as st

from whyrun.actions.data.engine import opened
from whyrun.actions.data.joining.stack import stacked
from whyrun.actions.data.output import write
from whyrun.actions.data.params import DataParams
from whyrun.actions.data.tables import open_table
from whyrun.errors import InvalidError

pytestmark = pytest.mark.usefixtures("data_libraries")

YEARS = {"a.csv": "id,v\n1,x\n2,\n", "b.csv": "v,id\ny,3\n", "c.csv": "id,v\n"}
ALL = {"primary_dataset": "@a", "secondary_dataset": ["@b", "@c"]}


def test_append_and_everything_that_is_told(project: Make) -> None:
    lab = lab_of(project, "data/append", {**ALL, "source": "from", "labels": ["2022", "2023", "2024"]}, YEARS)
    ran = lab.succeed()
    assert lab.read("out/made.csv") == "from,id,v\n2022,1,x\n2022,2,\n2023,3,y\n"
    slots = {"primary_dataset": 2, "secondary_dataset[0]": 1, "secondary_dataset[1]": 0}
    assert task_details(ran) == [
        {
            "decision": "append",
            "columns": "same",
            "source": "from",
            "rows": {"in": slots, "out": 3},
            "read": {slot: {"rows": rows, "columns": 2} for slot, rows in slots.items()},
            "wrote": {"made": {"rows": 3, "columns": 3, "types": {"from": "VARCHAR", "id": "BIGINT", "v": "VARCHAR"}}},
        }
    ]


def test_append_without_labels_names_the_slots(project: Make) -> None:
    assert made(project, "data/append", {**ALL, "source": "from"}, YEARS)[1:] == [
        ["primary_dataset", "1", "x"], ["primary_dataset", "2", ""], ["secondary_dataset[0]", "3", "y"],
    ]  # fmt: skip
    assert made(project, "data/append", ALL, YEARS)[0] == ["id", "v"]


def test_other_columns_are_refused_unless_a_union_is_asked_for(project: Make) -> None:
    files = {"a.csv": "id,v\n1,x\n", "b.csv": "id,w\n2,5\n", "c.csv": "id,v,w,u\n"}
    assert failure(project, "data/append", ALL, files) == (
        "ColumnsDiffer: the datasets do not have the columns of `primary_dataset`: `secondary_dataset[0]` lacks `v` "
        "and has `w` in addition; `secondary_dataset[1]` has `w`, `u` in addition; correct the data, or write "
        "`columns: union`, "
        "which leaves missing columns empty"
    )
    assert made(project, "data/append", {**ALL, "columns": "union"}, files) == [
        ["id", "v", "w", "u"], ["1", "x", "", ""], ["2", "", "5", ""],
    ]  # fmt: skip


def test_other_types_are_never_cast(project: Make) -> None:
    files = {"a.csv": "id\n1\n", "b.csv": "id\n007\n", "c.csv": "id\n8\n"}
    assert failure(project, "data/append", ALL, files) == (
        "ColumnsDiffer: the column `id` is integer in `primary_dataset`, `secondary_dataset[1]`, text in "
        "`secondary_dataset[0]` (row 1 has `007`); nothing is cast silently: declare the type, as in "
        "`types: {id: text}`"
    )
    assert made(project, "data/append", {**ALL, "types": {"id": "text"}}, files) == [["id"], ["1"], ["007"], ["8"]]


def test_names_that_clash(project: Make) -> None:
    assert failure(project, "data/append", {**ALL, "source": "V"}, YEARS) == (
        "ColumnsClash: the datasets already have a column `V`; choose another name for the added one"
    )
    files = {"a.csv": "id\n1\n", "b.csv": "ID\n2\n"}
    with_ = {"primary_dataset": ["@a", "@b"], "columns": "union"}
    assert failure(project, "data/append", with_, files) == (
        "ColumnsDiffer: `id` and `ID` differ only in case; rename one"
    )


def test_one_dataset_or_wrong_labels_are_refused(project: Make) -> None:
    with pytest.raises(InvalidError, match="only one dataset is bound: append takes two or more"):
        lab_of(project, "data/append", {"primary_dataset": "@a"}, YEARS).plan()
    with_ = {"primary_dataset": ["@a", "@b"], "labels": ["x"], "source": "s"}
    with pytest.raises(InvalidError, match="`labels` has 1 members for 2 datasets"):
        lab_of(project, "data/append", with_, YEARS).plan()
    with pytest.raises(InvalidError, match="it takes a file or a list of files"):
        lab_of(project, "data/append", {"primary_dataset": ["a.csv", "b.csv"]}, YEARS).plan()


CELL = st.none() | st.integers(-5, 5)


@settings(max_examples=EXAMPLES)
@given(st.lists(st.tuples(st.permutations(["a", "b", "ü"]), st.lists(st.tuples(CELL, CELL, CELL), max_size=4)),
                min_size=2, max_size=4))  # fmt: skip
def test_stacked_rows_are_those_of_a_plain_computation(
    parts: list[tuple[list[str], list[tuple[int | None, ...]]]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        params = DataParams()
        with opened(params, Path(folder)) as engine:
            tables = []
            for number, (columns, rows) in enumerate(parts):
                path = Path(folder) / f"{number}.csv"
                with path.open("w", encoding="utf-8", newline="") as file:
                    csv.writer(file).writerows([columns, *rows])
                tables.append(open_table(engine, str(number), path, params))
            stack = stacked(engine, tables, "same", "n", [table.label for table in tables])
            out = Path(folder) / "out.csv"
            write(engine, stack.selected(), stack.order, out)
        with out.open(encoding="utf-8", newline="") as file:
            found = list(csv.reader(file))
    order = parts[0][0]
    expected = [
        [str(number), *("" if row[columns.index(c)] is None else str(row[columns.index(c)]) for c in order)]
        for number, (columns, rows) in enumerate(parts)
        for row in rows
    ]
    assert found == [["n", *order], *expected]
    assert stack.rows == len(expected)


# --- aggregate ---------------------------------------------------------------------------------------------------

FITS = {"small.csv": "term,estimate\nx,1.5\ny,-2\n", "large.json": '[{"term": "x", "estimate": 2.5}]'}
PRODUCTS = {"products": {"small": "@small", "large": "@large"}}


def test_results_are_stacked_with_their_labels(project: Make) -> None:
    lab = lab_of(project, "data/aggregate", PRODUCTS, FITS)
    ran = lab.succeed()
    assert lab.read("out/made.csv") == "step,term,estimate\nlarge,x,2.5\nsmall,x,1.5\nsmall,y,-2.0\n"
    (details,) = task_details(ran)
    assert (details["decision"], details["operation"], details["label"], details["rows"]) == (
        "aggregate", "stack", "step", {"in": {"large": 1, "small": 2}, "out": 3},
    )  # fmt: skip


def test_a_list_has_its_own_order_and_labels(project: Make) -> None:
    with_ = {"primary_dataset": ["@small", "@large"], "labels": ["fit_small", "fit_large"], "label": "model"}
    assert made(project, "data/aggregate", with_, FITS) == [
        ["model", "term", "estimate"],
        ["fit_small", "x", "1.5"], ["fit_small", "y", "-2.0"], ["fit_large", "x", "2.5"],
    ]  # fmt: skip


def test_summaries(project: Make) -> None:
    measures = {
        "n": {"of": "estimate", "how": "count"}, "total": {"of": "estimate", "how": "sum"},
        "mean": {"of": "estimate", "how": "mean"}, "first": {"of": "term", "how": "min"},
    }  # fmt: skip
    with_ = {**PRODUCTS, "operation": "summarise", "measures": measures}
    assert made(project, "data/aggregate", with_, FITS) == [
        ["step", "first", "mean", "n", "total"],
        ["large", "x", "2.5", "1", "2.5"], ["small", "x", "-0.25", "2", "-0.5"],
    ]  # fmt: skip
    by_term = {**with_, "group_by": ["term"], "measures": {"m": {"of": "estimate", "how": "median"}}}
    assert made(project, "data/aggregate", by_term, FITS) == [["term", "m"], ["x", "2.0"], ["y", "-2.0"]]
    overall = {**with_, "group_by": [], "measures": {"m": {"of": "estimate", "how": "max"}}}
    assert made(project, "data/aggregate", overall, FITS) == [["m"], ["2.5"]]


def test_summaries_that_make_no_sense(project: Make) -> None:
    with_ = {**PRODUCTS, "operation": "summarise"}
    assert failure(project, "data/aggregate", {**with_, "measures": {"m": {"of": "term", "how": "mean"}}}, FITS) == (
        "ColumnsDiffer: `measures.m` asks for the mean of `term`, which is text"
    )
    assert failure(project, "data/aggregate", {**with_, "measures": {"m": {"of": "estimat", "how": "sum"}}}, FITS) == (
        "ColumnMissing: `measures` names `estimat`, and the results have no such column; did you mean `estimate`?"
    )
    with pytest.raises(InvalidError, match="`operation: summarise` needs `measures:"):
        lab_of(project, "data/aggregate", with_, FITS).plan()
    with pytest.raises(InvalidError, match="aggregate takes two or more results: bind a list"):
        lab_of(project, "data/aggregate", {"products": {"only": "@small"}}, FITS).plan()
