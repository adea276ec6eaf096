"""`postgres/extract` from a real PostgreSQL."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from uuid import UUID

import pytest
from movers_lab import Make, Postgres, failures, lab_of, made, metrics, rows, types

TABLE = """CREATE TABLE kinds (
    id int PRIMARY KEY, s smallint, big bigint, price numeric(12,2), round_price numeric(5,-2), tiny_price numeric(3,5),
    any_price numeric, f real, d double precision, flag boolean, name varchar(20), word char(3), body text, raw bytea,
    born date, at timestamp, stamp timestamptz, clock time, span interval, doc json, docb jsonb, key uuid,
    list int[], grid int[][], words text[], ip inet, mood mood, cash money, number oid)"""
ROW = """INSERT INTO kinds VALUES (1, -32768, -9223372036854775808, -1234567890.12, 12345, 0.00123,
    12345678901234567890.123456789, 1.5, 0.1, true, 'Grüße €😀', 'a', E'two\\nlines', '\\x00ff27',
    '2024-02-29', '2024-02-29 10:30:00.123456', '2024-07-01 12:00:00.5+02', '23:59:59.25', '1 year 2 days 03:04:05',
    '{"a": [1, "ü"]}', '{"b":  2}', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{1,NULL}', '{{1,2},{3,4}}', '{a,"b,c"}',
    '10.0.0.1/8', 'ok', '12.34', 4294967295)"""


def seed(postgres: Postgres) -> None:
    postgres.do("DROP TYPE IF EXISTS mood", "CREATE TYPE mood AS ENUM ('sad', 'ok')", TABLE, ROW)
    postgres.do("INSERT INTO kinds (id, any_price) VALUES (2, -0.5)")


def test_every_type_keeps_its_values(project: Make, postgres: Postgres) -> None:
    seed(postgres)
    path = made(project, "postgres/extract", {"connection": postgres.connection, "table": "kinds", "schema": "public"})
    assert types(path) == {
        "id": "int32", "s": "int16", "big": "int64", "price": "decimal128(12, 2)", "round_price": "decimal128(7, 0)",
        "tiny_price": "decimal128(5, 5)", "any_price": "decimal128(38, 9)", "f": "float", "d": "double", "flag": "bool",
        "name": "string", "word": "string", "body": "string", "raw": "binary", "born": "date32[day]",
        "at": "timestamp[us]", "stamp": "timestamp[us, tz=UTC]", "clock": "time64[us]", "span": "string",
        "doc": "extension<arrow.json>", "docb": "extension<arrow.json>", "key": "extension<arrow.uuid>",
        "list": "extension<arrow.json>", "grid": "extension<arrow.json>", "words": "extension<arrow.json>",
        "ip": "string", "mood": "string", "cash": "string", "number": "int64",
    }  # fmt: skip
    first, second = rows(path)
    assert first == (
        1, -32768, -(2**63), Decimal("-1234567890.12"), Decimal(12300), Decimal("0.00123"),
        Decimal("12345678901234567890.123456789"), 1.5, 0.1, True, "Grüße €😀", "a  ", "two\nlines", b"\x00\xff'",
        dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 10, 30, 0, 123456),
        dt.datetime(2024, 7, 1, 10, 0, 0, 500000, tzinfo=dt.UTC), dt.time(23, 59, 59, 250000), "P1Y2DT3H4M5S",
        '{"a": [1, "ü"]}', '{"b": 2}', UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"), "[1,null]", "[[1,2],[3,4]]",
        '["a","b,c"]', "10.0.0.1/8", "ok", "$12.34", 4294967295,
    )  # fmt: skip
    assert second == (2, *[None] * 5, Decimal("-0.500000000"), *[None] * 22)


def test_csv_holds_the_same_as_text(project: Make, postgres: Postgres) -> None:
    seed(postgres)
    query = "SELECT id, price, name, raw, stamp, grid, NULL AS nothing FROM kinds WHERE id = 1"
    path = made(project, "postgres/extract", {"connection": postgres.connection, "query": query}, out="out/made.csv")
    assert path.read_text() == (
        "id,price,name,raw,stamp,grid,nothing\n"
        '1,-1234567890.12,Grüße €😀,00ff27,2024-07-01 10:00:00.5+00,"[[1,2],[3,4]]",\n'
    )


def test_values_are_values_and_never_part_of_the_query(project: Make, postgres: Postgres) -> None:
    postgres.do("CREATE TABLE t (n int, s text)", r"INSERT INTO t VALUES (1, E'a\\''; DROP TABLE t; --'), (2, 'b')")
    with_ = {
        "connection": postgres.connection,
        "query": "SELECT n, '$s' AS quoted, $$ $s $$ AS more /* $s /* $s */ */ FROM t "
        "WHERE s = $s AND n >= $least -- $x",
        "values": {"s": "a\\'; DROP TABLE t; --", "least": -1},
    }
    lab = lab_of(project, "postgres/extract", with_)
    ran = lab.succeed()
    assert rows(lab.root / "out/made.parquet") == [(1, "$s", " $s ")]
    assert metrics(ran) == {"rows_read": 1, "rows_written": 1}
    assert postgres.do("SELECT count(*) FROM t") == [("2",)]


def test_rows_come_sorted_and_many(project: Make, postgres: Postgres) -> None:
    postgres.do("CREATE TABLE t AS SELECT 300001 - n AS n, md5(n::text) AS s FROM generate_series(1, 300000) n")
    lab = lab_of(project, "postgres/extract", {"connection": postgres.connection, "table": "t"})
    ran = lab.succeed()
    assert metrics(ran) == {"rows_read": 300000, "rows_written": 300000}
    assert [n for n, _ in rows(lab.root / "out/made.parquet")] == list(range(1, 300001))
    assert ran.folder is not None
    assert (ran.folder / "steps" / "J" / "query.sql").read_text() == 'SELECT * FROM "t"\n'


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT n, mood FROM t ORDER BY mood DESC", [(2, "ok"), (3, "ok"), (1, "sad")]),
        ("WITH x AS (SELECT * FROM t ORDER BY n DESC) SELECT * FROM x", [(1, "sad"), (2, "ok"), (3, "ok")]),
        ("SELECT n AS rowid, n::numeric AS x FROM t ORDER BY n DESC", [(3, 3), (2, 2), (1, 1)]),
    ],
)
def test_a_query_that_sorts_is_obeyed(
    project: Make, postgres: Postgres, query: str, expected: list[tuple[object, ...]]
) -> None:
    """Also where the server has to write a type out, which takes a query around it."""
    postgres.do(
        "DROP TYPE IF EXISTS mood", "CREATE TYPE mood AS ENUM ('sad', 'ok')", "CREATE TABLE t (n int, mood mood)"
    )
    postgres.do("INSERT INTO t VALUES (2, 'ok'), (1, 'sad'), (3, 'ok')")
    assert rows(made(project, "postgres/extract", {"connection": postgres.connection, "query": query})) == expected


NO_FILE = 'which is not a {} that a file can hold; change it in the query: NULLIF("a", …), or CAST("a" AS text)'


FAILURES = [
    ("SELECT * FROM nope", "QueryFailed",
     '`query` cannot be answered: relation "nope" does not exist (SQLSTATE 42P01)'),
    ("SELECT 1 / (n - 50000) AS a FROM generate_series(1, 100000) n", "QueryFailed",
     "`query` cannot be answered: division by zero (SQLSTATE 22012)"),
    ("DELETE FROM t", "QueryFailed", "`query` gives no rows: it takes one SELECT"),
    ("DELETE FROM t RETURNING n AS a", "QueryFailed",
     "`query` cannot be answered: cannot execute DELETE in a read-only transaction (SQLSTATE 25006)"),
    ("SELECT 'infinity'::timestamptz AS a", "ValueNotConvertible",
     "the column `a` holds `infinity`, " + NO_FILE.format("timestamp")),
    ("SELECT '-infinity'::date AS a", "ValueNotConvertible",
     "the column `a` holds `infinity`, " + NO_FILE.format("date")),
    ("SELECT 'NaN'::numeric(5,2) AS a", "ValueNotConvertible",
     "the column `a` holds `nan`, " + NO_FILE.format("decimal of 38 digits")),
    ("SELECT 10::numeric ^ 40 AS a", "ValueNotConvertible",
     "the column `a` holds 41 digits before and 16 after the point, and a decimal has 38 digits; cast it in the "
     "query"),
    ("SELECT 1 AS a, 2 AS a", "UnreadableTable", "`the result` has the column `a` twice; rename one"),
]  # fmt: skip


def test_a_failure_says_what_and_where(project: Make, postgres: Postgres) -> None:
    postgres.do("CREATE TABLE t (n int)", "INSERT INTO t VALUES (1)")
    blocks = [{"connection": postgres.connection, "query": query} for query, _, _ in FAILURES]
    assert failures(project, "postgres/extract", blocks) == [f"{type_}: {told}" for _, type_, told in FAILURES]
    assert postgres.do("SELECT count(*) FROM t") == [("1",)]


REFUSED: list[tuple[dict[str, object], str]] = [
    ({"password": "wrong-pass-'word"}, 'password authentication failed for user "etl"'),
    ({"database": "nowhere"}, 'database "nowhere" does not exist'),
    ({"port": 1}, "Connection refused Is the server running on that host and accepting TCP/IP connections?"),
]


def test_no_connection_and_no_password_in_any_word(project: Make, postgres: Postgres) -> None:
    connections = [{**postgres.connection, **change} for change, _ in REFUSED]
    told = failures(project, "postgres/extract", [{"connection": c, "query": "SELECT 1 AS a"} for c in connections])
    places = [f"PostgreSQL at 127.0.0.1:{c['port']}, database `{c['database']}`, user `etl`" for c in connections]
    assert told == [
        f"ConnectionFailed: no connection to {place}: {expected}"
        for place, (_, expected) in zip(places, REFUSED, strict=True)
    ]
