"""Every format in; what is no table is refused with the reason; reading rules written down hold."""

from __future__ import annotations

import datetime
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from data_lab import Make, failure, lab_of, made

from whyrun.actions.data.engine import opened
from whyrun.actions.data.params import DataParams, UnreadableTable
from whyrun.actions.data.tables import column_names, open_table

pytestmark = pytest.mark.usefixtures("data_libraries")

ROWS: list[dict[str, Any]] = [
    {"id": 1, "share": 0.5, "name": "ä, ö", "ok": True, "day": datetime.date(2024, 2, 29)},
    {"id": None, "share": None, "name": None, "ok": None, "day": None},
    {"id": 3, "share": 2.0, "name": "日本", "ok": False, "day": datetime.date(1999, 12, 31)},
]
KINDS = ["integer", "number", "text", "boolean", "date"]


def csv_bytes() -> bytes:
    return 'id,share,name,ok,day\n1,0.5,"ä, ö",true,2024-02-29\n,,,,\n3,2,日本,False,1999-12-31\n'.encode()


def tsv_bytes() -> bytes:
    lines = [
        "id\tshare\tname\tok\tday",
        "1\t0.5\tä, ö\ttrue\t2024-02-29",
        '\t\t""\t\t',
        "3\t2\t日本\tfalse\t1999-12-31",
    ]
    return "\r\n".join(lines).encode()


def parquet_bytes() -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(ROWS), sink)
    return sink.getvalue()


def xlsx_bytes() -> bytes:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.append(list(ROWS[0]))
    for row in ROWS:
        sheet.append(list(row.values()))
    sheet.append([None, None, None])
    other = book.create_sheet("more")
    other.append(["x"])
    other.append([7])
    sink = io.BytesIO()
    book.save(sink)
    return sink.getvalue()


def dta_bytes(tmp_path: Path) -> bytes:
    frame = pd.DataFrame(
        {
            "id": pd.array([1, None, 3], dtype="Int32"),
            "share": [0.5, None, 2.0],
            "name": ["ä, ö", "", "日本"],
            "day": pd.to_datetime(["2024-02-29", None, "1999-12-31"]),
        }
    )
    path = tmp_path / "made.dta"
    frame.to_stata(path, write_index=False, convert_dates={"day": "td"}, version=118)
    return path.read_bytes()


def read(path: Path, **options: Any) -> tuple[list[tuple[str, str]], list[tuple[Any, ...]]]:
    params = DataParams(**options)
    with opened(params, path.parent) as engine:
        table = open_table(engine, "it", path, params)
        rows = engine.rows(f"SELECT * EXCLUDE (__whyrun_row) FROM {table.relation} ORDER BY __whyrun_row")
        assert column_names(path, params) == table.names
        assert table.rows == len(rows)
        return [(column.name, column.kind) for column in table.columns], rows


@pytest.mark.parametrize(
    ("name", "data"),
    [("a.csv", csv_bytes), ("a.tsv", tsv_bytes), ("a.parquet", parquet_bytes), ("a.xlsx", xlsx_bytes),
     ("csv", csv_bytes), ("parquet", parquet_bytes), ("a.large", csv_bytes), ("a.1", parquet_bytes)],
)  # fmt: skip
def test_the_same_table_in_every_format(tmp_path: Path, name: str, data: Callable[[], bytes]) -> None:
    """Also without a suffix, and with one that is none."""
    path = tmp_path / name
    path.write_bytes(data())
    assert read(path) == (
        list(zip(ROWS[0], KINDS, strict=True)),
        [tuple(row.values()) for row in ROWS],
    )


def test_an_integer_is_kept_in_half_of_the_memory_while_that_is_enough(tmp_path: Path) -> None:
    """Nobody sees it: the type is the same, also where a number that needs more comes late."""
    numbers = [*range(1500), -(2**31), 2**31 - 1]
    for more in ([], [2**31], [-(2**31) - 1, 2**63 - 1, -(2**63)]):
        path = tmp_path / "a.csv"
        path.write_text("n,m\n" + "".join(f"{number},\n" for number in [*numbers, *more]))
        assert read(path) == ([("n", "integer"), ("m", "text")], [(number, None) for number in [*numbers, *more]])
        params = DataParams()
        with opened(params, tmp_path) as engine:
            assert open_table(engine, "it", path, params).columns[0].type == "BIGINT"
    path.write_text(path.read_text() + f"{2**63},\n")
    assert read(path)[0] == [("n", "text"), ("m", "text")]


def test_stata(tmp_path: Path) -> None:
    path = tmp_path / "a.dta"
    path.write_bytes(dta_bytes(tmp_path))
    assert read(path) == (
        [("id", "integer"), ("share", "number"), ("name", "text"), ("day", "date")],
        [(1, 0.5, "ä, ö", datetime.date(2024, 2, 29)), (None, None, None, None),
         (3, 2.0, "日本", datetime.date(1999, 12, 31))],
    )  # fmt: skip


@pytest.mark.parametrize("name", ["a.json", "a.ndjson", "b.json"])
def test_json_in_all_three_forms(tmp_path: Path, name: str) -> None:
    objects = ['{"a": 1, "b/c": "x", "mixed": 1, "inner": {"k": [1]}}', '{"late": true, "a": 2, "mixed": "y"}']
    text = {"a.json": f"[{objects[0]},\n{objects[1]}]", "a.ndjson": "\n".join(objects), "b.json": objects[0]}[name]
    path = tmp_path / name
    path.write_text(text)
    columns, rows = read(path)
    first = (1, "x", "1", '{"k":[1]}')
    if name == "b.json":
        assert columns == [("a", "integer"), ("b/c", "text"), ("mixed", "integer"), ("inner", "text")]
        assert rows == [(1, "x", 1, '{"k":[1]}')]
    else:
        assert columns == [("a", "integer"), ("b/c", "text"), ("mixed", "text"), ("inner", "text"), ("late", "boolean")]
        assert rows == [(*first, None), (2, None, "y", None, True)]


def test_a_late_row_decides_the_type(tmp_path: Path) -> None:
    """What comes first is only a proposal."""
    path = tmp_path / "a.csv"
    lines = [f"{n},{n},{n},,2020-01-01" for n in range(30_000)]
    path.write_text("\n".join(["a,b,c,d,e", *lines, "007,1.5,4,late,2020-01-01 10:00:00"]) + "\n")
    columns, rows = read(path)
    assert columns == [("a", "text"), ("b", "number"), ("c", "integer"), ("d", "text"), ("e", "text")]
    assert rows[-2:] == [("29999", 29999.0, 29999, None, "2020-01-01"), ("007", 1.5, 4, "late", "2020-01-01 10:00:00")]


def test_what_is_missing_the_delimiter_the_encoding_and_the_sheet_are_said(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("id;né\n1;NA\n.;é\n".encode("latin-1"))
    assert read(path, delimiter=";", encoding="latin-1", missing=["NA", "."]) == (
        [("id", "integer"), ("né", "text")],
        [(1, None), (None, "é")],
    )
    path = tmp_path / "a.xlsx"
    path.write_bytes(xlsx_bytes())
    assert read(path, sheet="more") == ([("x", "integer")], [(7,)])


def test_many_columns(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    names = [f"c{n}" for n in range(300)]
    path.write_text(",".join(names) + "\n" + ",".join("1" for _ in names) + "\n" * 1 + ",".join("x" for _ in names))
    columns, _ = read(path)
    assert columns == [(name, "text") for name in names]


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("a.csv", b"", "`it` cannot be read as csv: it has no header line: the first line names the columns"),
        ("a.csv", b"a,a\n1,2\n", "it has the column `a` twice; rename one"),
        ("a.csv", b"id,ID\n", "it has the column `ID` and also `id`, which is the same name in SQL; rename one"),
        ("a.csv", b",a\n1,2\n", "column 1 has no name; give it one, or leave it out"),
        ("a.csv", b"a,__whyrun_row\n", "names with this start are reserved, rename it"),
        ("a.csv", b"a,b\n1,2\n1,2,3\n", "`it` cannot be read as csv: line 3 has 3 values instead of 2; "),
        ("a.csv", b"a,b\n1\n", "`it` cannot be read as csv: line 2 has 1 value instead of 2; "),
        ("a.csv", b'a,b\n"Expected Number of Columns: 7 Found: 9",1,2\n', "csv: line 2 has 3 values instead of 2; "),
        ("a.csv", b'a,b\n1,2\n"1,2\n', "csv: line 3 has a `\"` that does not end a value; write `\"\"` for a quote "),
        ("a.csv", b"a,b\n1," + b"x" * 2_000_001 + b"\n", "csv: line 2 has more than 2,000,000 bytes; shorten it"),
        ("a.csv", b"a\n" + b"1\n" * 9999 + b"\xff\n", "csv: line 10,001 is not utf-8 text; is it `encoding: latin-1`"),
        ("a.csv", b"a\n\xff\xfe\xfa\n", "`it` cannot be read as csv: it is not utf-8 text; is it `encoding: latin-1`"),
        ("a.parquet", b"PAR1 no", "as parquet: File too small to be a Parquet file .`[^`]*/a.parquet`.$"),
        ("a.json", b"[1, 2]", "`it` cannot be read as json: row 1 is not an object with columns, but ubigint"),
        ("a.json", b'{"a": ', "`it` cannot be read as json: "),
        ("a.json", b"[]", "`it` cannot be read as json: it has no columns"),
        ("a.xlsx", b"PK no", "`it` cannot be read as excel: it is not a workbook, or is damaged: "),
        ("a.dta", b"no", "`it` cannot be read as stata: it is not a Stata file: "),
        ("a.sas7bdat", b"\0\0", "a.sas7bdat` is in an unknown format; readable: `.csv`, `.tsv`"),
    ],
)  # fmt: skip
def test_what_is_no_table_is_refused(tmp_path: Path, name: str, data: bytes, problem: str) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    params = DataParams()
    with opened(params, tmp_path) as engine, pytest.raises(UnreadableTable, match=f"(?is){problem}"):
        open_table(engine, "it", path, params)


def test_a_sheet_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    path.write_bytes(xlsx_bytes())
    with pytest.raises(UnreadableTable, match="it has no sheet `x`; known: `Sheet`, `more`"):
        column_names(path, DataParams(sheet="x"))


def test_types_that_are_asked_for_are_exact_or_refused(tmp_path: Path, project: Make) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b,c\n1,007,2\n2,8,3\n")
    assert read(path, types={"a": "text", "b": "integer", "c": "number"}) == (
        [("a", "text"), ("b", "integer"), ("c", "number")],
        [("1", 7, 2.0), ("2", 8, 3.0)],
    )
    with_ = {"primary_dataset": ["@a", "@b"], "types": {"v": "integer"}}
    files = {"a.csv": "v\n1\n", "b.csv": "v\n1.5\n2.0\nx\n\nq\n3\ny\nz\nw\n"}
    assert failure(project, "data/append", with_, files) == (
        "ValueNotConvertible: `types` says `v: integer`, but 7 values of `primary_dataset[1]` cannot be that: "
        "'1.5', '2.0', 'x', 'q', 'y', …; correct the data, or write `v: text`"
    )


def test_the_message_names_the_users_own_file(project: Make) -> None:
    files = {"a.csv": "v\n1\n", "b.csv": 'v\n"open\n'}
    message = failure(project, "data/append", {"primary_dataset": ["@a", "@b"]}, files)
    assert message.startswith("UnreadableTable: `primary_dataset[1]` cannot be read as csv: ")
    assert "/tmp" not in message
    assert message.endswith("(`b.csv`)")


def test_a_dataset_that_another_step_made_without_a_path(project: Make) -> None:
    """No suffix: written as Parquet, and read as what it is."""
    lab = lab_of(project, "data/append", {"primary_dataset": ["@a", "@a"]}, {"a.csv": "v\n1\n"})
    text = lab.read("workflow.yaml").replace(', "path": "out/made.csv"', "")
    sql = {
        "uses": "data/sql",
        "with": {"primary_dataset": "${{ jobs.J.outputs.made }}", "query": "SELECT sum(v) AS s FROM primary_dataset"},
        "outputs": {"s": {"type": "dataset", "path": "out/s.csv"}},
    }
    document = json.loads(text)
    document["jobs"]["S"] = sql
    lab.write({"workflow.yaml": json.dumps(document)}).succeed()
    assert lab.read("out/s.csv") == "s\n2\n"


def test_crlf_and_quotes_come_back_as_they_were(project: Make) -> None:
    files = {"a.csv": b'v,w\r\n"a ""quoted"" one",1\r\n"two\r\nlines",2\r\n'}
    assert made(project, "data/append", {"primary_dataset": ["@a", "@a"]}, files) == [
        ["v", "w"], ['a "quoted" one', "1"], ["two\r\nlines", "2"], ['a "quoted" one', "1"], ["two\r\nlines", "2"],
    ]  # fmt: skip
