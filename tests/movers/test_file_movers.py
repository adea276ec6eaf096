"""`csv/read`, `csv/write`, `parquet/read`, `parquet/write` and `duckdb/query`: files in, files out."""

from __future__ import annotations

import datetime as dt
import io
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from movers_lab import Make, failures, lab_of, made, metrics, rows, types

from whyrun.errors import InvalidError

CSV = 'id;name;price;since\n007;"a;b";1.10;2024-02-29\n008;NA;12345678901234567.89;\n'


def parquet_bytes() -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    held = io.BytesIO()
    columns = {
        "n": pa.array([3, 1, 2], pa.int16()),
        "price": pa.array([Decimal("1.50"), None, Decimal("-2.25")], pa.decimal128(9, 2)),
        "raw": [b"\x00\xff", None, b""],
        "at": pa.array([dt.datetime(2024, 1, 1, 10), None, None], pa.timestamp("us", tz="UTC")),
        "born": pa.array([dt.date(2024, 2, 29), None, None]),
        "list": [[1, None], None, []],
        "name": ['ü,"quoted"\nline', None, ""],
    }
    pq.write_table(pa.table(columns), held)
    return held.getvalue()


def database(path: Path) -> bytes:
    import duckdb

    with duckdb.connect(str(path)) as session:
        session.execute("CREATE TABLE rates AS SELECT * FROM (VALUES ('EUR', 1.0), ('USD', 1.1)) v(currency, rate)")
    return path.read_bytes()


def test_csv_is_read_with_the_types_that_are_asked_for(project: Make) -> None:
    with_ = {
        "data": "<a>", "delimiter": ";", "missing": ["", "NA"], "rename": {"since": "known_since"},
        "types": {"price": "decimal(20,2)", "id": "integer"}, "columns": ["price", "id", "since", "name"],
    }  # fmt: skip
    lab = lab_of(project, "csv/read", with_, {"a.csv": CSV})
    ran = lab.succeed()
    path = lab.root / "out/made.parquet"
    assert types(path) == {"price": "decimal128(20, 2)", "id": "int64", "known_since": "date32[day]", "name": "string"}
    assert rows(path) == [
        (Decimal("1.10"), 7, dt.date(2024, 2, 29), "a;b"),
        (Decimal("12345678901234567.89"), 8, None, None),
    ]
    assert metrics(ran) == {"rows_read": 2, "rows_written": 2}


@pytest.mark.parametrize(
    ("more", "data", "expected"),
    [
        ({"types": {"v": "decimal(5,2)"}}, "v\n1.255\n", "ValueNotConvertible: `types` says `v: decimal(5,2)`, but "
         "1 value of `data` cannot be that: '1.255'; correct the data, or write `v: text`"),
        ({"types": {"v": "decimal(5,2)"}}, "v\n1.250\n1e3\n", "ValueNotConvertible: `types` says `v: "
         "decimal(5,2)`, but 1 value of `data` cannot be that: '1e3'; correct the data, or write `v: text`"),
        ({"types": {"w": "text"}}, "v\n1\n", "ColumnMissing: `types` names `w`, and `data` has no such column; "
         "known: `v`"),
        ({"columns": ["vv"]}, "v,w\n1,2\n", "ColumnMissing: `columns` names `vv`, and `data` has no such column; "
         "did you mean `v`?"),
        ({"rename": {"v": "W"}}, "v,w\n1,2\n", "UnreadableTable: `the result` has the column `w` and also `W`, "
         "which is the same name in SQL; rename one"),
    ],
)  # fmt: skip
def test_csv_that_is_not_what_was_said(project: Make, more: dict[str, Any], data: str, expected: str) -> None:
    assert failures(project, "csv/read", [{"data": "<a>", **more}], {"a.csv": data}) == [expected]


def test_csv_without_a_header(project: Make) -> None:
    path = made(project, "csv/read", {"data": "<a>", "names": ["n", "s"]}, {"a.tsv": "2\tb\n1\ta\n"})
    assert rows(path) == [(2, "b"), (1, "a")]


def test_what_is_written_as_text_is_as_it_was_in_its_order(project: Make) -> None:
    with_ = {"data": "<a>", "order_by": ["n"], "rename": {"n": "number"}}
    path = made(project, "csv/write", with_, {"a.parquet": parquet_bytes()}, out="out/made.csv")
    assert path.read_text() == (
        "number,price,raw,at,born,list,name\n"
        "1,,,,,,\n"
        '2,-2.25,"",,,[],""\n'
        '3,1.50,00ff,2024-01-01 10:00:00+00,2024-02-29,"[1,null]","ü,""quoted""\nline"\n'
    )


def test_csv_the_way_others_want_it(project: Make) -> None:
    with_ = {
        "data": "<a>", "columns": ["born", "n"], "delimiter": ";", "header": False, "quote": "all", "missing": "NA",
        "date_format": "%d.%m.%Y",
    }  # fmt: skip
    path = made(project, "csv/write", with_, {"a.parquet": parquet_bytes()}, out="out/made.txt")
    assert path.read_text() == '"29.02.2024";"3"\nNA;"1"\nNA;"2"\n'


def test_parquet_there_and_back_is_the_same(project: Make) -> None:
    data = parquet_bytes()
    first = made(project, "parquet/write", {"data": "<a>", "compression": "none"}, {"a.parquet": data})
    again = made(project, "parquet/read", {"data": "<b>"}, {"b.parquet": first.read_bytes()})
    assert rows(first) == rows(again)
    assert types(first) == types(again) == {
        "n": "int16", "price": "decimal128(9, 2)", "raw": "binary", "at": "timestamp[us, tz=UTC]",
        "born": "date32[day]", "list": "list<element: int64>", "name": "string",
    }  # fmt: skip
    twice = made(project, "parquet/read", {"data": "<c>"}, {"c.parquet": first.read_bytes()})
    assert again.read_bytes() == twice.read_bytes()


def test_parquet_from_csv_sorted(project: Make) -> None:
    with_ = {"data": "<a>", "order_by": ["g"], "types": {"n": "number"}, "row_group_size": 2048}
    path = made(project, "parquet/write", with_, {"a.csv": "g,n\nb,1\na,2\nb,0\na,1\n"})
    assert (rows(path), types(path)) == (
        [("a", 2.0), ("a", 1.0), ("b", 1.0), ("b", 0.0)],
        {"g": "string", "n": "double"},
    )


def test_what_is_no_parquet_is_not_read_as_something_else(project: Make) -> None:
    (told,) = failures(project, "parquet/read", [{"data": "<a>"}], {"a.csv": "n\n1\n"})
    assert told == "UnreadableTable: `data` is not a Parquet file; use `csv/read` for CSV, `duckdb/query` for both"
    (told,) = failures(project, "parquet/write", [{"data": "<a>"}], {"a.csv": "n\n1\n"}, out="out/made.csv")
    assert (
        told
        == "OutputUnusable: `parquet/write` writes `.parquet`, `.pq`, and `made` ends in `.csv`; change its `path:`"
    )


# --- duckdb/query ------------------------------------------------------------------------------------------------

ORDERS = "id,currency,total\n1,EUR,10\n2,USD,11\n3,CHF,5\n"
JOIN = """SELECT o.id, o.total / r.rate AS euros FROM orders o JOIN rates r USING (currency)
    WHERE o.total > $least ORDER BY o.id"""


def test_files_and_a_database_are_asked_together(project: Make, tmp_path: Path) -> None:
    with_ = {"tables": {"orders": "<orders>"}, "database": "<shop>", "query": JOIN, "values": {"least": 1}}
    lab = lab_of(
        project, "duckdb/query", with_, {"orders.csv": ORDERS, "shop.duckdb": database(tmp_path / "d")}, "out/made.csv"
    )
    ran = lab.succeed()
    assert (lab.root / "out/made.csv").read_text() == "id,euros\n1,10.0\n2,10.0\n"
    assert metrics(ran) == {"rows_read": 3, "rows_written": 2}
    assert lab.run().result.run is None


def test_a_column_may_be_called_rowid(project: Make) -> None:
    with_ = {"tables": {"orders": "<orders>"}, "query": "SELECT id AS rowid FROM orders ORDER BY id DESC"}
    path = made(project, "duckdb/query", with_, {"orders.csv": ORDERS}, out="out/made.csv")
    assert path.read_text() == "rowid\n3\n2\n1\n"


def test_a_database_can_be_a_connection(project: Make, tmp_path: Path) -> None:
    with_ = {"connection": {"path": "data/shop.duckdb"}, "query": "SELECT currency FROM db.rates ORDER BY 1"}
    lab = lab_of(project, "duckdb/query", with_, {}, "out/made.csv")
    lab.write({"data/shop.duckdb": database(tmp_path / "d")})
    lab.succeed()
    assert (lab.root / "out/made.csv").read_text() == "currency\nEUR\nUSD\n"
    assert (lab.root / "data/shop.duckdb").read_bytes() == (tmp_path / "d").read_bytes()


def test_a_query_reads_what_it_was_given(project: Make, tmp_path: Path) -> None:
    asked = {
        "SELECT * FROM read_csv('/etc/passwd')": "Permission Error",
        "INSERT INTO db.rates VALUES ('X', 1)": "`query` is INSERT, not SELECT; a query may only read",
        "SELECT * FROM ordres": "its tables: `orders`",
        "SELECT $x FROM orders": "`query` uses `$x`, and `values` does not have it",
    }
    blocks = [{"tables": {"orders": "<orders>"}, "database": "<shop>", "query": query} for query in asked]
    files = {"orders.csv": ORDERS, "shop.duckdb": database(tmp_path / "d")}
    for told, expected in zip(failures(project, "duckdb/query", blocks, files), asked.values(), strict=True):
        assert told.startswith("QueryFailed: ")
        assert expected in told


# --- before anything runs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("uses", "with_", "expected"),
    [
        ("csv/read", {"types": {"v": "decimal(39,2)"}}, "`data`"),
        ("csv/read", {"data": "<a>", "types": {"v": "decimal(2,3)"}}, "more digits after the point than in total"),
        ("csv/read", {"data": "<a>", "delimiter": "ab"}, "`delimiter` is"),
        ("csv/write", {"data": "<a>", "quote": "none"}, "`quote` is"),
        ("parquet/write", {"data": "<a>", "compression": "brotli"}, "`compression` is"),
        ("duckdb/query", {"tables": {"db": "<a>"}, "query": "SELECT 1"}, "which is the name of the database"),
        ("mysql/extract", {"query": "SELECT 1", "table": "t"}, "write either `query` or `table`"),
        ("mysql/extract", {"query": "SELECT $a"}, "`query` uses `$a`, and `values` does not have it"),
        ("mysql/extract", {"query": "SELECT 1", "columns": ["a"]}, "`columns` belongs to `table`"),
        ("postgres/extract", {"query": "SELECT 1; SELECT 2"}, "`query` has more than one statement"),
        ("postgres/load", {"data": "<a>", "table": "t", "mode": "upsert"}, "`mode: upsert` needs `keys`"),
        ("postgres/load", {"data": "<a>", "table": "t", "mode": "merge"}, "`mode` is"),
        ("postgres/load", {"data": "<a>", "table": "t", "mode": "create", "column_types": {"a": "int; DROP"}},
         "it takes a type of PostgreSQL"),
    ],
    ids=range(13),
)  # fmt: skip
def test_parameters_are_checked_before_anything_runs(
    project: Make, uses: str, with_: dict[str, Any], expected: str
) -> None:
    connection = {"host": "127.0.0.1", "port": 1, "user": "u", "password": "some-pass-word", "database": "d"}
    given = {**with_, "connection": connection} if uses.split("/")[0] in ("mysql", "postgres") else with_
    lab = lab_of(project, uses, given, {"a.csv": "v\n1\n"}, None if uses == "postgres/load" else "out/made.parquet")
    with pytest.raises(InvalidError) as refused:
        lab.run()
    assert expected in str(refused.value)
    assert "INVALID_PARAMETER" in str(refused.value)


@pytest.mark.parametrize(
    "uses",
    ["csv/read", "csv/write", "parquet/read", "parquet/write", "duckdb/query", "mysql/extract", "postgres/extract"],
)
def test_the_example_of_an_action_is_a_workflow(project: Make, uses: str) -> None:
    """It is valid as it stands; what it makes is shown by the other tests."""
    from whyrun.actions.builtin import BUILTIN

    jobs = BUILTIN[uses].load().example
    inputs = re.findall(r"inputs\.(\w+)", jobs)
    given: dict[str, Any] = {name: {"type": "dataset", "default": "a.csv"} for name in inputs}
    if "Until" in inputs:
        given["Until"] = {"type": "string", "default": "2024-01-01"}
    families = {"mysql": "shop", "postgres": "warehouse"}
    fields = {"host": "127.0.0.1", "user": "u", "password": "some-pass-word", "database": "d"}
    connections = {family: {alias: fields} for family, alias in families.items()}
    lab = project("x", {"a.csv": "v\n1\n", "connections.yaml": json.dumps({"connections": connections})})
    lab.write({"workflow.yaml": f"workflow: w\ninputs: {json.dumps(given)}\n{jobs}"})
    (planned,) = lab.plan().headlines()
    assert planned.startswith("Job:")
