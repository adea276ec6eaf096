"""Nothing of a value is lost on the way in or out: it comes as it is, or it is refused."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from data_lab import Make, failure, lab_of, made

from whyrun.actions.data.engine import Engine, opened
from whyrun.actions.data.joining.join import Join
from whyrun.actions.data.joining.stack import stacked
from whyrun.actions.data.output import write, write_table
from whyrun.actions.data.params import (
    ColumnMissing,
    DataError,
    DataParams,
    KeyNotExact,
    KeyTypesDiffer,
    OutputUnusable,
    UnreadableTable,
    ValueNotConvertible,
)
from whyrun.actions.data.tables import column_names, count_rows_and_columns, open_table
from whyrun.log import events as ev

pytestmark = pytest.mark.usefixtures("data_libraries")

PARAMS = DataParams(threads=1)


def values(path: Path, params: DataParams = PARAMS) -> list[tuple[Any, ...]]:
    with opened(params, path.parent) as engine:
        table = open_table(engine, "it", path, params)
        return engine.rows(f"SELECT * EXCLUDE (__whyrun_row) FROM {table.relation} ORDER BY __whyrun_row")


def parquet(path: Path, type_: pa.DataType, numbers: list[Any], column: str = "k") -> Path:
    pq.write_table(pa.table({column: pa.array(numbers, type_)}), path)
    return path


# --- writing -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        (9007199254740993, "BIGINT"),
        (-9007199254740993, "BIGINT"),
        (2**64 - 1, "UBIGINT"),
        (2**64, "DECIMAL(38,0)"),
        (1 - 10**38, "DECIMAL(38,0)"),
    ],
)
def test_wide_integers_stay_whole_in_parquet(tmp_path: Path, value: int, type_: str) -> None:
    with opened(PARAMS, tmp_path) as engine:
        query = f"SELECT v AS a, {value}::HUGEINT AS s, NULL::HUGEINT AS n FROM (VALUES (2), (1)) t(v)"
        written = write_table(engine, query, ["a"], tmp_path / "o.parquet")
    assert [(column.name, column.type) for column in written.columns] == [
        ("a", "INTEGER"),
        ("s", type_),
        ("n", "BIGINT"),
    ]
    assert [tuple(map(int, row[:2])) for row in values(tmp_path / "o.parquet")] == [(1, value), (2, value)]


def test_an_integer_that_parquet_cannot_hold_is_refused(tmp_path: Path) -> None:
    with opened(PARAMS, tmp_path) as engine, pytest.raises(OutputUnusable, match="`s` has integers with more than 38"):
        write(engine, f"SELECT {10**38}::HUGEINT AS s", [], tmp_path / "o.parquet")


def test_bigint_with_ubigint_stays_whole(tmp_path: Path) -> None:
    paths = [
        parquet(tmp_path / "a.parquet", pa.int64(), [9007199254740993]),
        parquet(tmp_path / "b.parquet", pa.uint64(), [9007199254740995]),
    ]
    with opened(PARAMS, tmp_path) as engine:
        tables = [open_table(engine, path.stem, path, PARAMS) for path in paths]
        stack = stacked(engine, tables, "same", None, ["a", "b"])
        write(engine, stack.selected(), stack.order, tmp_path / "o.parquet")
    assert values(tmp_path / "o.parquet") == [(9007199254740993,), (9007199254740995,)]


def test_the_log_says_the_types_of_the_file(project: Make) -> None:
    with_ = {"primary_dataset": "@a", "query": "SELECT sum(v) AS s FROM primary_dataset"}
    lab = lab_of(project, "data/sql", with_, {"a.csv": "v\n9007199254740993\n"})
    lab.write({"workflow.yaml": lab.read("workflow.yaml").replace("out/made.csv", "out/made.parquet")}).succeed()
    assert values(lab.root / "out/made.parquet") == [(9007199254740993,)]
    details = [event.details for event in lab.events("r0001") if isinstance(event, ev.Task)]
    assert [d["wrote"]["made"] for d in details if isinstance(d, dict)] == [
        {"rows": 1, "columns": 1, "types": {"s": "BIGINT"}}
    ]


def test_nan_is_written_to_csv_as_nothing_and_infinity_is_refused(project: Make) -> None:
    query = "SELECT v, CASE WHEN v = 1 THEN 'nan'::DOUBLE ELSE v / 2 END AS w FROM primary_dataset ORDER BY v"
    files: dict[str, str | bytes] = {"a.csv": "v\n1\n2\n"}
    assert made(project, "data/sql", {"primary_dataset": "@a", "query": query}, files) == [
        ["v", "w"], ["1", ""], ["2", "1.0"],
    ]  # fmt: skip


def test_infinity_is_refused_in_csv(project: Make) -> None:
    with_ = {"primary_dataset": "@a", "query": "SELECT v / 0.0 AS w FROM primary_dataset"}
    assert failure(project, "data/sql", with_, {"a.csv": "v\n1\n2\n"}) == (
        "OutputUnusable: the column `w` has an infinite value, which `.csv` holds only as text; write `.parquet`, or "
        "have the query leave it out"
    )


# --- keys --------------------------------------------------------------------------------------------------------


def joined(engine: Engine, left: Path, right: Path, params: DataParams = PARAMS) -> Join:
    tables = [open_table(engine, path.stem, path, params) for path in (left, right)]
    return Join.of(engine, tables[0], tables[1], ["k"], ["k"], "outer", None)


def write_csv(path: Path, *keys: str) -> Path:
    path.write_text("k\n" + "".join(f"{key}\n" for key in keys))
    return path


@pytest.mark.parametrize(
    ("left", "right", "shown"),
    [
        (["10.1", "10.10"], ["2.5"], ("10.1", "10.10")),
        (["2.5"], ["10.1", "10.10"], ("10.1", "10.10")),
        (["1.5"], ["1.50"], ("1.5", "1.50")),
        (["0.1"], ["0.10000000000000000001"], ("0.1", "0.10000000000000000001")),
    ],
)
def test_keys_that_are_written_differently_are_not_silently_one(
    tmp_path: Path, left: list[str], right: list[str], shown: tuple[str, str]
) -> None:
    paths = write_csv(tmp_path / "l.csv", *left), write_csv(tmp_path / "r.csv", *right)
    with opened(PARAMS, tmp_path) as engine, pytest.raises(KeyNotExact) as refused:
        joined(engine, *paths)
    assert str(refused.value) == (
        f"the key `k` is read as number, so `{shown[0]}` and `{shown[1]}` are the same; declare the type: "
        "`types: {k: text}` for codes, `types: {k: number}` for numbers"
    )
    with opened(PARAMS, tmp_path) as engine:
        as_texts = joined(engine, *paths, DataParams(types={"k": "text"})).counts
        assert (as_texts.cardinality, as_texts.pairs) == ("1:1", 0)
        as_numbers = joined(engine, *paths, DataParams(types={"k": "number"})).counts
        assert as_numbers.repeated_left + as_numbers.repeated_right + as_numbers.pairs == 1


def test_keys_that_are_written_in_one_way_are_numbers(tmp_path: Path) -> None:
    paths = write_csv(tmp_path / "l.csv", "1.50", "2.00"), write_csv(tmp_path / "r.csv", "2.00", "7.25")
    with opened(PARAMS, tmp_path) as engine:
        assert joined(engine, *paths).counts.pairs == 1


def test_text_that_is_asked_for_is_the_text_that_was_written(tmp_path: Path) -> None:
    params = DataParams(types={"k": "text"})
    assert values(write_csv(tmp_path / "a.csv", "10.10", "1e2"), params) == [("10.10",), ("1e2",)]
    (tmp_path / "a.json").write_text('[{"k": 12345678901234567890123}, {"k": 1}]')
    assert values(tmp_path / "a.json", params) == [("12345678901234567890123",), ("1",)]


def test_nan_is_a_missing_key(tmp_path: Path) -> None:
    nan = float("nan")
    paths = [parquet(tmp_path / f"{side}.parquet", pa.float64(), [nan, 1.5, nan, None]) for side in "lr"]
    with opened(PARAMS, tmp_path) as engine:
        join = joined(engine, *paths)
        facts = join.counts
        write(engine, join.query, join.order, tmp_path / "o.parquet")
    assert (facts.cardinality, facts.pairs, facts.null_left, facts.null_right, facts.out) == ("1:1", 1, 3, 3, 7)
    assert values(tmp_path / "o.parquet") == [(None,), (1.5,), (None,), (None,), (None,), (None,), (None,)]


def test_nan_counts_as_missing(project: Make) -> None:
    data = pa.table({"k": [1.5, float("nan"), float("nan"), None], "n": [1, 2, 3, 4]})
    sink = pa.BufferOutputStream()
    pq.write_table(data, sink)
    diagnostics = {"missing": {"missing": ["k"]}, "share": {"missing_share": "*"}, "twice": {"duplicates": ["k"]}}
    with_ = {"primary_dataset": "@a", "diagnostics": diagnostics}
    lab = lab_of(project, "data/check", with_, {"a.parquet": sink.getvalue().to_pybytes()})
    text = lab.read("workflow.yaml").replace('"dataset", "path": "out/made.csv"', '"json", "path": "out/made.json"')
    lab.write({"workflow.yaml": text}).succeed()
    assert json.loads(lab.read("out/made.json")) == {"missing": 3, "share": 0.375, "twice": 0}


def test_floating_point_numbers_of_two_widths_are_no_key(tmp_path: Path) -> None:
    paths = parquet(tmp_path / "l.parquet", pa.float32(), [0.1]), parquet(tmp_path / "r.parquet", pa.float64(), [0.1])
    with opened(PARAMS, tmp_path) as engine, pytest.raises(KeyTypesDiffer, match="of 32 bits in `l` and of 64 in `r`"):
        joined(engine, *paths)
    with opened(PARAMS, tmp_path) as engine:
        assert joined(engine, *paths, DataParams(types={"k": "text"})).counts.pairs == 1
        assert joined(engine, *paths, DataParams(types={"k": "number"})).counts.pairs == 0


@pytest.mark.parametrize(
    ("left", "right", "advice"),
    [
        ("1\n2\n", "1.5\n2\n", "integer in `l` and number in `r`; … `types: {k: number}`"),
        ("1\n2\n", "1\nabc\n3\n", "integer in `l` and text in `r` (row 2 has `abc`); … `types: {k: text}`"),
        (
            "2024-01-01\n",
            "2024-01-01 10:00:00\n2024-01-01 00:00:00\n",
            "date in `l` and timestamp in `r`; … `types: {k: timestamp}`",
        ),
    ],
)
def test_the_advice_fits(tmp_path: Path, left: str, right: str, advice: str) -> None:
    paths = write_csv(tmp_path / "l.csv", *left.split()), tmp_path / "r.csv"
    paths[1].write_text("k\n" + right)
    with opened(PARAMS, tmp_path) as engine, pytest.raises(KeyTypesDiffer) as refused:
        joined(engine, *paths)
    shown = str(refused.value).replace("nothing is cast silently: declare the type, as in", "…")
    assert shown == f"the key `k` is {advice}"


def test_every_column_that_differs_is_told(project: Make) -> None:
    files: dict[str, str | bytes] = {"a.csv": "a,b,c\n1,x,1\n", "b.csv": "a,b,c\n1.5,x,1\n2,y,q\n"}
    assert failure(project, "data/append", {"primary_dataset": ["@a", "@b"]}, files) == (
        "ColumnsDiffer: the columns `a` is integer in `primary_dataset[0]`, number in `primary_dataset[1]`; "
        "`c` is integer in `primary_dataset[0]`, text in `primary_dataset[1]` (row 2 has `q`); nothing is cast "
        "silently: declare the type, as in `types: {a: number, c: text}`"
    )


# --- reading -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('[{"v":123456789012345678901234},{"v":123456789012345678901235}]',
         ["123456789012345678901234", "123456789012345678901235"]),
        ('[{"v":9007199254740992},{"v":9007199254740993},{"v":0.5}]', ["9007199254740992", "9007199254740993", "0.5"]),
        ('[{"v":-9223372036854775809},{"v":1}]', ["-9223372036854775809", "1"]),
        ('[{"v":18446744073709551615}]', ["18446744073709551615"]),
        ('[{"v":1E400}]', ["1E400"]),
        ('[{"v":1},{"v":0.5},{"v":null}]', [1.0, 0.5, None]),
        ('[{"v":9223372036854775807},{"v":-9223372036854775808}]', [2**63 - 1, -(2**63)]),
    ],
)  # fmt: skip
def test_integers_of_json_keep_their_digits(tmp_path: Path, text: str, found: list[Any]) -> None:
    (tmp_path / "a.json").write_text(text)
    assert [value for (value,) in values(tmp_path / "a.json")] == found


def test_an_object_with_a_name_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"a":1,"b":2},{"b":2,"a":1,"a":2}]')
    with pytest.raises(UnreadableTable, match="row 2 has the key `a` twice; remove one"):
        values(tmp_path / "a.json")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("2024-01-01 15:30:00\n2024-01-02", "date"),
        ("2024-01-01 00:00:00+02:00", "timestamp"),
        ("2024-01-01 00:00:00+02:00", "date"),
        ("2024-01-01T00:00:00Z", "timestamp"),
        ("2024-01-01 00:00:00.1234567", "timestamp"),
        ("infinity", "date"),
        ("infinity", "timestamp"),
        ("epoch", "date"),
    ],
)
def test_a_date_that_is_asked_for_leaves_nothing_out(tmp_path: Path, text: str, kind: Any) -> None:
    (tmp_path / "a.csv").write_text(f"d\n{text}\n")
    with pytest.raises(ValueNotConvertible):
        values(tmp_path / "a.csv", DataParams(types={"d": kind}))


def test_a_date_that_is_asked_for_may_be_midnight(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("d\n2024-01-01 00:00:00\n2024-1-2\n")
    assert [str(d) for (d,) in values(tmp_path / "a.csv", DataParams(types={"d": "date"}))] == [
        "2024-01-01",
        "2024-01-02",
    ]
    assert [str(d) for (d,) in values(tmp_path / "a.csv", DataParams(types={"d": "timestamp"}))] == [
        "2024-01-01 00:00:00", "2024-01-02 00:00:00",
    ]  # fmt: skip


def test_infinity_is_no_date(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("d\n2024-01-01\ninfinity\n")
    assert values(tmp_path / "a.csv") == [("2024-01-01",), ("infinity",)]


@pytest.mark.parametrize("name", ["p[1]", "p*", "p?", "{a,b}", "p'q"])
def test_a_file_name_is_no_pattern(tmp_path: Path, name: str) -> None:
    parquet(tmp_path / f"{name}.parquet", pa.int64(), [1], "meant")
    parquet(tmp_path / "p1.parquet", pa.int64(), [2], "other")
    for suffix, text in (("csv", "meant\n1\n"), ("json", '[{"meant":1}]')):
        (tmp_path / f"{name}.{suffix}").write_text(text)
        (tmp_path / f"p1.{suffix}").write_text(text.replace("meant", "other"))
    for suffix in ("parquet", "csv", "json"):
        path = tmp_path / f"{name}.{suffix}"
        assert (column_names(path, PARAMS), values(path)) == (["meant"], [(1,)])
    with opened(PARAMS, tmp_path) as engine:
        table = open_table(engine, "it", tmp_path / f"{name}.parquet", PARAMS)
        engine.lock([tmp_path / f"{name}.parquet"])
        assert engine.rows(f"SELECT meant FROM {table.relation}") == [(1,)]


def test_a_folder_is_no_column(tmp_path: Path) -> None:
    (tmp_path / "year=2024").mkdir()
    assert values(parquet(tmp_path / "year=2024" / "a.parquet", pa.int64(), [1])) == [(1,)]


# --- Excel -------------------------------------------------------------------------------------------------------

Change = Callable[[str, bytes], bytes]


def book(path: Path, change: Change = lambda name, content: content, formula: str | None = None) -> Path:
    workbook = openpyxl.Workbook()
    sheet = workbook.active
    assert sheet is not None
    sheet.append(["a", "b"])
    for number in range(10):
        sheet.append([number, formula if number == 7 else number])
    workbook.save(path.with_suffix(".tmp"))
    with zipfile.ZipFile(path.with_suffix(".tmp")) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
    return path


def test_rows_beyond_the_size_that_the_file_says(tmp_path: Path) -> None:
    def smaller(name: str, content: bytes) -> bytes:
        said = b'<dimension ref="A1:A4"/>'
        return re.sub(rb'<dimension ref="[^"]*" ?/>', said, content) if name.endswith("sheet1.xml") else content

    assert values(book(tmp_path / "a.xlsx", smaller)) == [(n, None if n == 7 else n) for n in range(10)]


def test_a_formula_without_a_result_is_no_empty_cell(tmp_path: Path) -> None:
    with pytest.raises(UnreadableTable, match=r"the cell B9 has the formula `=A9\*2` and no result; open the file in"):
        values(book(tmp_path / "a.xlsx", formula="=A9*2"))


def test_a_formula_with_a_result_is_that(tmp_path: Path) -> None:
    def computed(name: str, content: bytes) -> bytes:
        return re.sub(rb"</f><v ?/>|</f><v></v>", b"</f><v>14</v>", content) if name.endswith("sheet1.xml") else content

    found = values(book(tmp_path / "a.xlsx", computed, formula="=A9*2"))
    assert found == [(n, 14 if n == 7 else n) for n in range(10)]


@pytest.mark.parametrize(
    "part", ["xl/workbook.xml", "xl/worksheets/sheet1.xml", "xl/styles.xml", "[Content_Types].xml"]
)
def test_a_damaged_workbook_is_unreadable_and_no_crash(tmp_path: Path, part: str) -> None:
    path = book(tmp_path / "a.xlsx", lambda name, content: content[: len(content) // 2] if name == part else content)
    assert count_rows_and_columns(path, ".xlsx") is None
    with pytest.raises(DataError):
        values(path)


def test_one_column_of_text_is_no_table_to_be_counted(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("sales: turnover in millions\n")
    assert [count_rows_and_columns(tmp_path / "a", suffix) for suffix in (".txt", ".csv", "")] == [
        None, {"rows": 0, "columns": 1}, None,
    ]  # fmt: skip


# --- advice ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "encoding", "advice"),
    [
        ("Größe,v\n1,2\n".encode("latin-1"), "utf-8", "is it `encoding: latin-1`?"),
        (b"v,w\n" + b"x,1\n" * 5000 + "ö,1\n".encode("latin-1"), "utf-8", "is it `encoding: latin-1`?"),
        ("v,w\n1,2\n".encode("utf-16"), "utf-8", "is it `encoding: utf-16`?"),
        (b"v,w\n1,2\n", "utf-16", "is it `encoding: utf-8`?"),
    ],
)
def test_another_encoding_is_advised(tmp_path: Path, content: bytes, encoding: Any, advice: str) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(UnreadableTable) as refused:
        values(tmp_path / "a.csv", DataParams(encoding=encoding))
    assert f"{advice} (`" in str(refused.value)


@pytest.mark.parametrize(
    ("header", "advice"),
    [
        ("firm;year", 'its only column is `firm;year`: is it `delimiter: ";"`?'),
        ("firm\tyear", 'its only column is `firm\tyear`: is it `delimiter: "\\t"`?'),
        ("firm,year", "did you mean `firm`?"),
    ],
)
def test_a_column_that_is_there_in_another_way(tmp_path: Path, header: str, advice: str) -> None:
    (tmp_path / "a.csv").write_text(f"{header}\n")
    with opened(PARAMS, tmp_path) as engine, pytest.raises(ColumnMissing) as refused:
        open_table(engine, "it", tmp_path / "a.csv", PARAMS).column("FIRM", "keys")
    assert str(refused.value) == f"`keys` names `FIRM`, and `it` has no such column; {advice}"


@pytest.mark.parametrize(
    ("tables", "told"),
    [
        ({"A": "@a", "a": "@b"}, "`tables` names `A` and `a`, which are the same name in SQL; rename one"),
        (
            {"__csv_1": "@a"},
            "`tables` names `__csv_1`; names that start with two underscores are reserved, choose another",
        ),
    ],
)
def test_names_of_tables_that_would_be_taken(project: Make, tables: dict[str, str], told: str) -> None:
    files: dict[str, str | bytes] = {"a.csv": "v\n1\n", "b.csv": "v\n2\n"}
    lab = lab_of(project, "data/sql", {"tables": tables, "query": "SELECT 1 AS one FROM a"}, files)
    assert [problem.message for problem in lab.opened().problems] == [told]


def test_a_measure_that_is_called_as_a_group_is_refused(project: Make) -> None:
    with_ = {
        "primary_dataset": ["@a", "@b"], "operation": "summarise", "measures": {"Step": {"of": "v", "how": "sum"}},
    }  # fmt: skip
    files: dict[str, str | bytes] = {"a.csv": "v\n1\n", "b.csv": "v\n2\n"}
    assert failure(project, "data/aggregate", with_, files) == (
        "ColumnsClash: `measures` has `Step`, which is already a column of the result; choose another name"
    )
