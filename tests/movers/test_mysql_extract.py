"""`mysql/extract` from a real MariaDB."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from movers_lab import Make, MariaDb, failures, lab_of, made, metrics, rows, types

from whyrun.log import events as ev

TABLE = """CREATE TABLE kinds (
    id INT UNSIGNED PRIMARY KEY, tiny TINYINT, small SMALLINT UNSIGNED, big BIGINT, huge BIGINT UNSIGNED, bits BIT(9),
    price DECIMAL(12,2), long_price DECIMAL(65,4), f FLOAT, d DOUBLE, flag BOOLEAN, name VARCHAR(20), word CHAR(5),
    body TEXT, raw VARBINARY(10), blobby BLOB, mood ENUM('sad','ok'), marks SET('a','b'), doc JSON,
    born DATE, at DATETIME(6), stamp TIMESTAMP(3) NULL, span TIME(2), y YEAR) CHARACTER SET utf8mb4"""
ROW = """INSERT INTO kinds VALUES (1, -128, 65535, -9223372036854775808, 18446744073709551615, b'100000001',
    -1234567890.12, 99999999999999999999999999999999.1234, 1.5, 0.1, TRUE, 'Grüße €😀', 'ab', 'two
lines', x'00ff27', x'', 'ok', 'a,b', '{"a": [1, "ü"]}', '2024-02-29', '2024-02-29 10:30:00.123456',
    '2024-07-01 12:00:00.5', '-100:30:00.25', 1999)"""


def test_every_type_keeps_its_values(project: Make, mariadb: MariaDb) -> None:
    mariadb.do(TABLE, "SET time_zone = '+02:00'", ROW.replace("(1,", "(7,"), "INSERT INTO kinds (id) VALUES (8)")
    path = made(project, "mysql/extract", {"connection": mariadb.connection, "table": "kinds"})
    assert types(path) == {
        "id": "uint32", "tiny": "int8", "small": "uint16", "big": "int64", "huge": "uint64", "bits": "uint64",
        "price": "decimal128(12, 2)", "long_price": "decimal128(38, 4)", "f": "float", "d": "double", "flag": "int8",
        "name": "string", "word": "string", "body": "string", "raw": "binary", "blobby": "binary", "mood": "string",
        "marks": "string", "doc": "string", "born": "date32[day]", "at": "timestamp[us]",
        "stamp": "timestamp[us, tz=UTC]", "span": "string", "y": "int16",
    }  # fmt: skip
    first, second = rows(path)
    assert first == (
        7, -128, 65535, -(2**63), 2**64 - 1, 257, Decimal("-1234567890.12"),
        Decimal("99999999999999999999999999999999.1234"), 1.5, 0.1, 1, "Grüße €😀", "ab", "two\nlines", b"\x00\xff'",
        b"", "ok", "a,b", '{"a": [1, "ü"]}', dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 10, 30, 0, 123456),
        dt.datetime(2024, 7, 1, 10, 0, 0, 500000, tzinfo=dt.UTC), "-100:30:00.25", 1999,
    )  # fmt: skip
    assert second == (8, *[None] * 23)


def test_csv_holds_the_same_as_text(project: Make, mariadb: MariaDb) -> None:
    mariadb.do(TABLE, "SET time_zone = '+00:00'", ROW)
    query = "SELECT id, price, name, raw, at, stamp, doc, NULL AS nothing FROM kinds"
    path = made(project, "mysql/extract", {"connection": mariadb.connection, "query": query}, out="out/made.csv")
    assert path.read_text() == (
        "id,price,name,raw,at,stamp,doc,nothing\n"
        "1,-1234567890.12,Grüße €😀,00ff27,2024-02-29 10:30:00.123456,2024-07-01 12:00:00.5+00,"
        '"{""a"": [1, ""ü""]}",\n'
    )


def test_values_are_values_and_never_part_of_the_query(project: Make, mariadb: MariaDb) -> None:
    mariadb.do("CREATE TABLE t (n INT, s VARCHAR(40))", r"INSERT INTO t VALUES (1, 'a\'; DROP TABLE t; --'), (2, 'b')")
    with_ = {
        "connection": mariadb.connection,
        "query": "SELECT n, '$s' AS quoted /* $s */ FROM t WHERE s = $s AND n >= $least -- $other\n;",
        "values": {"s": "a'; DROP TABLE t; --", "least": 0.5},
    }
    lab = lab_of(project, "mysql/extract", with_)
    ran = lab.succeed()
    assert rows(lab.root / "out/made.parquet") == [(1, "$s")]
    assert metrics(ran) == {"rows_read": 1, "rows_written": 1}
    assert len(mariadb.do("SELECT * FROM t")) == 2


def test_the_same_rows_are_the_same_bytes_in_whatever_order_they_lie(project: Make, mariadb: MariaDb) -> None:
    found = []
    for order in ("(2, NULL), (1, 'b'), (1, 'a')", "(1, 'a'), (2, NULL), (1, 'b')"):
        mariadb.clear()
        mariadb.do("CREATE TABLE t (n INT, s VARCHAR(9))", f"INSERT INTO t VALUES {order}")
        path = made(project, "mysql/extract", {"connection": mariadb.connection, "table": "t"})
        assert rows(path) == [(1, "a"), (1, "b"), (2, None)]
        found.append(path.read_bytes())
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"query": "SELECT n, s FROM t ORDER BY s DESC"}, [(2, "c"), (1, "b"), (3, "a")]),
        ({"query": "SELECT n, s FROM t ORDER BY s DESC", "order_by": ["s"]}, [(3, "a"), (1, "b"), (2, "c")]),
        ({"query": "SELECT n, s FROM (SELECT * FROM t ORDER BY s LIMIT 9) x"}, [(1, "b"), (2, "c"), (3, "a")]),
        ({"table": "t", "columns": ["s", "n"], "order_by": ["n"]}, [("b", 1), ("c", 2), ("a", 3)]),
    ],
    ids=["as the query sorts", "order_by goes first", "a subquery does not sort", "columns of a table"],
)
def test_the_order_is_defined(
    project: Make, mariadb: MariaDb, more: dict[str, object], expected: list[tuple[object, ...]]
) -> None:
    mariadb.do("CREATE TABLE t (n INT, s VARCHAR(9))", "INSERT INTO t VALUES (3, 'a'), (1, 'b'), (2, 'c')")
    assert rows(made(project, "mysql/extract", {"connection": mariadb.connection, **more})) == expected


def test_many_rows_go_by_in_batches(project: Make, mariadb: MariaDb) -> None:
    mariadb.do("CREATE TABLE t (n INT, s VARCHAR(40))", "INSERT INTO t SELECT seq, MD5(seq) FROM seq_1_to_25001")
    lab = lab_of(project, "mysql/extract", {"connection": mariadb.connection, "table": "t"})
    ran = lab.succeed()
    assert metrics(ran) == {"rows_read": 25001, "rows_written": 25001}
    found = rows(lab.root / "out/made.parquet")
    assert [n for n, _ in found] == list(range(1, 25002))
    (task,) = ran.of(ev.Task)
    assert task.message == f"read 25,001 rows from MySQL at 127.0.0.1:{mariadb.server.port}"
    assert ran.folder is not None


def test_no_rows_are_a_table_too(project: Make, mariadb: MariaDb) -> None:
    mariadb.do("CREATE TABLE t (n INT, price DECIMAL(9,3))")
    path = made(project, "mysql/extract", {"connection": mariadb.connection, "table": "t"})
    assert (rows(path), types(path)) == ([], {"n": "int32", "price": "decimal128(9, 3)"})
    text = made(project, "mysql/extract", {"connection": mariadb.connection, "table": "t"}, out="out/made.csv")
    assert text.read_text() == "n,price\n"


# --- what goes wrong ---------------------------------------------------------------------------------------------


NO_DATE = (
    "the column `born` holds `0000-00-00`, which is not a date; change it in the query: NULLIF(`born`, …), or "
    "CAST(`born` AS CHAR)"
)
READ_ONLY = "Cannot execute statement in a READ ONLY transaction [1792] (SQLSTATE 25006)"
TWICE = "`the result` has the column `A` and also `a`, which is the same name in SQL; rename one"


FAILURES: list[tuple[dict[str, object], str]] = [
    ({"table": "nope"},
     "QueryFailed: `table: nope` cannot be answered: Table 'shop.nope' doesn't exist [1146] (SQLSTATE 42S02)"),
    ({"query": "SELECT nope FROM t"},
     "QueryFailed: `query` cannot be answered: Unknown column 'nope' in 'SELECT' [1054] (SQLSTATE 42S22)"),
    ({"query": "DELETE FROM t"}, f"QueryFailed: `query` cannot be answered: {READ_ONLY}"),
    ({"query": "DO 1"}, "QueryFailed: `query` gives no rows: it takes one SELECT"),
    ({"query": "SELECT 1 AS a, 2 AS A"}, f"UnreadableTable: {TWICE}"),
    ({"table": "t", "order_by": ["bron"]},
     "ColumnMissing: `order_by` names `bron`, and the result has no such column; did you mean `born`?"),
    ({"table": "t"}, f"ValueNotConvertible: {NO_DATE}"),
]  # fmt: skip


def test_a_failure_says_what_and_where(project: Make, mariadb: MariaDb) -> None:
    mariadb.do("SET sql_mode = ''", "CREATE TABLE t (born DATE)", "INSERT INTO t VALUES ('0000-00-00')")
    told = failures(project, "mysql/extract", [{"connection": mariadb.connection, **more} for more, _ in FAILURES])
    assert [one.replace("'field list'", "'SELECT'") for one in told] == [expected for _, expected in FAILURES]
    assert mariadb.do("SELECT COUNT(*) FROM t") == [(1,)]


REFUSED: list[tuple[dict[str, object], str]] = [
    ({"password": "wrong-pass-word"}, "Access denied for user 'etl'@'127.0.0.1' (using password: YES) [1045]"),
    ({"database": "nowhere"}, "Access denied for user 'etl'@'127.0.0.1' to database 'nowhere' [1044]"),
    ({"port": 1}, "Can't connect to MySQL server on '127.0.0.1' ([Errno 111] Connection refused) [2003]"),
]


def test_no_connection_and_no_password_in_any_word(project: Make, mariadb: MariaDb) -> None:
    connections = [{**mariadb.connection, **change} for change, _ in REFUSED]
    told = failures(project, "mysql/extract", [{"connection": c, "query": "SELECT 1 AS a"} for c in connections])
    places = [f"MySQL at 127.0.0.1:{c['port']}, database `{c['database']}`, user `etl`" for c in connections]
    assert told == [
        f"ConnectionFailed: no connection to {place}: {expected}"
        for place, (_, expected) in zip(places, REFUSED, strict=True)
    ]


def test_a_connection_is_checked_before_a_server_is_asked(project: Make) -> None:
    good = {"host": "127.0.0.1", "user": "u", "password": "some-pass-word", "database": "d"}
    wrong: list[tuple[dict[str, object], str]] = [
        ({"pasword": "x"}, "a MySQL connection has no field `pasword`; did you mean `password`?"),
        ({"user": ""}, "the MySQL connection lacks `user`"),
        ({"host": ["a"]}, "`host` of the MySQL connection is a list"),
    ]
    blocks = [{"connection": {**good, **change}, "query": "SELECT 1 AS a"} for change, _ in wrong]
    assert failures(project, "mysql/extract", blocks) == [f"ConnectionUnusable: {expected}" for _, expected in wrong]
