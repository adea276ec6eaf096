"""`postgres/load` into a real PostgreSQL."""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
from typing import Any

from movers_lab import Make, Postgres, failures, lab_of, metrics

DESCRIBE = """SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
    WHERE attrelid = to_regclass('{}') AND attnum > 0 AND NOT attisdropped ORDER BY attnum"""


def loading(postgres: Postgres, mode: str, **more: Any) -> dict[str, Any]:
    return {"connection": postgres.connection, "data": "<a>", "table": "t", "mode": mode, **more}


def load(project: Make, postgres: Postgres, mode: str, data: str, **more: Any) -> dict[str, float]:
    return metrics(lab_of(project, "postgres/load", loading(postgres, mode, **more), {"a.csv": data}, None).succeed())


def refused(project: Make, postgres: Postgres, mode: str, data: str, **more: Any) -> str:
    (told,) = failures(project, "postgres/load", [loading(postgres, mode, **more)], {"a.csv": data}, None)
    return told


def parquet_of(query: str) -> bytes:
    """What DuckDB makes of a query, as a file."""
    import duckdb
    import pyarrow.parquet as pq

    held = io.BytesIO()
    with duckdb.connect() as session:
        session.execute("SET TimeZone = 'UTC'")
        pq.write_table(session.sql(query).to_arrow_table(), held)
    return held.getvalue()


def test_a_table_is_made_from_what_the_file_holds(project: Make, postgres: Postgres) -> None:
    data = parquet_of(
        """SELECT * FROM (VALUES (1::TINYINT, 2::UINTEGER, 3::BIGINT, 18446744073709551615::UBIGINT,
            1.50::DECIMAL(12,2), 0.1::FLOAT, 0.1::DOUBLE, true, 'Grüße €😀', '\\x00\\xFF'::BLOB, DATE '2024-02-29',
            TIMESTAMP '2024-02-29 10:30:00.123456', TIMESTAMPTZ '2024-07-01 12:00:00+02', TIME '10:00:00', [1, NULL],
            {'a': 1})) v(i8, u32, big, u64, price, f, d, flag, name, raw, born, at_, stamp, clock, list, doc)
        UNION ALL SELECT """
        + ", ".join(["NULL"] * 16)
    )
    lab = lab_of(project, "postgres/load", loading(postgres, "create"), {"a.parquet": data}, None)
    ran = lab.succeed()
    columns = {
        "i8": "smallint", "u32": "bigint", "big": "bigint", "u64": "numeric(20,0)", "price": "numeric(12,2)",
        "f": "real", "d": "double precision", "flag": "boolean", "name": "text", "raw": "bytea", "born": "date",
        "at_": "timestamp without time zone", "stamp": "timestamp with time zone", "clock": "time without time zone",
        "list": "integer[]", "doc": "jsonb",
    }  # fmt: skip
    assert dict(postgres.do(DESCRIBE.format("t"))) == columns
    first, second = postgres.do("SELECT * FROM t ORDER BY i8")
    assert first == (
        "1", "2", "3", "18446744073709551615", "1.50", "0.1", "0.1", "t", "Grüße €😀", "\\x00ff", "2024-02-29",
        "2024-02-29 10:30:00.123456", "2024-07-01 10:00:00+00", "10:00:00", "{1,NULL}", '{"a": 1}',
    )  # fmt: skip
    assert second == ("NULL",) * 16
    assert metrics(ran) == {"rows_read": 2, "rows_written": 2}
    assert lab.content("Artifact:J.report") == {
        "schema": "public", "table": "t", "mode": "create", "rows": 2, "columns": columns,
        "data_sha256": hashlib.sha256(data).hexdigest(),
    }  # fmt: skip


def test_each_mode_does_what_it_says(project: Make, postgres: Postgres) -> None:
    everything = "SELECT * FROM t ORDER BY id"
    assert load(project, postgres, "create", "id,name\n1,a\n2,b\n", keys=["id"]) == {"rows_read": 2, "rows_written": 2}
    load(project, postgres, "append", "name,id\nc,3\n")
    assert postgres.do(everything) == [("1", "a"), ("2", "b"), ("3", "c")]
    load(project, postgres, "upsert", "id,name\n3,C\n4,d\n", keys=["id"])
    assert postgres.do(everything) == [("1", "a"), ("2", "b"), ("3", "C"), ("4", "d")]
    postgres.do("ALTER TABLE t ADD COLUMN note text DEFAULT 'new'", "CREATE VIEW v AS SELECT id FROM t")
    load(project, postgres, "truncate", "id,name\n9,z\n")
    assert postgres.do(everything) == [("9", "z", "new")]
    told = refused(project, postgres, "replace", "id\n5\n")
    assert told == (
        "LoadFailed: `t` was not loaded, and nothing was changed: cannot drop table t because other objects "
        "depend on it DETAIL: view v depends on table t (SQLSTATE 2BP01); use `mode: truncate`, which "
        "keeps the table and the objects that depend on it"
    )
    assert postgres.do(everything) == [("9", "z", "new")]
    postgres.do("DROP VIEW v")
    load(project, postgres, "replace", "id,name\n5,e\n", column_types={"name": "varchar(3)"})
    assert postgres.do(everything) == [("5", "e")]
    assert postgres.do(DESCRIBE.format("t")) == [("id", "bigint"), ("name", "character varying(3)")]


def test_create_if_missing(project: Make, postgres: Postgres) -> None:
    for rows in ("id,v\n1,a\n", "id,v\n1,b\n2,c\n"):
        load(project, postgres, "upsert", rows, keys=["id"], create_if_missing=True)
    assert postgres.do("SELECT * FROM t ORDER BY id") == [("1", "b"), ("2", "c")]
    load(project, postgres, "append", "id,v\n9,z\n", table="u", create_if_missing=True, column_types={"v": "char(2)"})
    assert postgres.do(DESCRIBE.format("u")) == [("id", "bigint"), ("v", "character(2)")]
    postgres.do("DROP TABLE u")


def test_what_the_table_asks_for_is_met_as_far_as_nothing_is_lost(project: Make, postgres: Postgres) -> None:
    postgres.do(
        """CREATE TABLE t (n smallint, price numeric(8,2), ratio real, name varchar(3), doc jsonb, key uuid, raw bytea,
            at timestamptz, day date, extra int DEFAULT 7)"""
    )
    data = (
        "n,price,ratio,name,doc,key,raw,at,day\n"
        '1,1.5,0.5,abc,"{""a"": 1}",a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11,00ff,2024-01-01 10:00:00,2024-01-01 00:00:00\n'
        ",,,,,,,,\n"
    )
    assert load(project, postgres, "append", data) == {"rows_read": 2, "rows_written": 2}
    assert postgres.do("SELECT * FROM t ORDER BY n") == [
        ("1", "1.50", "0.5", "abc", '{"a": 1}', "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "\\x00ff",
         "2024-01-01 10:00:00+00", "2024-01-01", "7"),
        (*["NULL"] * 9, "7"),
    ]  # fmt: skip


REFUSED: list[tuple[str, str, dict[str, Any], str]] = [
    ("append", "n\n70000\n", {}, "LoadFailed: `t` was not loaded, and nothing was changed: "
     "smallint out of range (SQLSTATE 22003)"),
    ("append", "n,price\n1,1.5\n2,1.255\n", {}, "ValueNotConvertible: 1 value of `price` would change as "
     "numeric(8,2): `1.255`; round it first, or change the table; nothing was changed"),
    ("append", "n,name\n1,abcd\n", {}, "LoadFailed: `t` was not loaded, and nothing was changed: "
     "value too long for type character varying(3) (SQLSTATE 22001)"),
    ("append", "n,price\n1,x\n", {}, "LoadRefused: `public.t` does not fit `data`: `price` is numeric(8,2) in "
     "the table and text in `data`"),
    ("append", "m,nmae\n1,x\n", {}, "LoadRefused: `public.t` does not fit `data`: it has no column `m` "
     "(known: `n`, `price`, `name`); it has no column `nmae` (did you mean `name`?)"),
    ("upsert", "n,name\n1,a\n1,b\n", {"keys": ["n"]}, "LoadFailed: `t` was not loaded, and nothing was "
     "changed: ON CONFLICT DO UPDATE command cannot affect row a second time (SQLSTATE 21000); two rows of `data` "
     "have the same `keys`"),
    ("upsert", "n,name\n1,a\n", {"keys": ["name"]}, "LoadFailed: `t` was not loaded, and nothing was "
     "changed: there is no unique or exclusion constraint matching the ON CONFLICT specification (SQLSTATE "
     "42P10); `keys` need a primary key or a unique index on exactly these columns"),
    ("append", "n\n0\n", {}, "LoadFailed: `t` was not loaded, and nothing was changed: duplicate key value "
     'violates unique constraint "t_pkey" DETAIL: Key (n)=(0) already exists (SQLSTATE 23505)'),
    ("create", "n\n1\n", {}, "LoadRefused: `public.t` exists already; write `mode: replace`, `truncate` or "
     "`append`"),
    ("append", "n\n1\n", {"table": "T"}, "LoadRefused: there is no table `T`; create it, or write "
     "`create_if_missing: true`"),
    ("append", "n\n1\n", {"table": "v"}, "LoadRefused: `public.v` is a view, not a table; name a table"),
    ("create", "n\n1\n", {"table": "x", "schema": "nowhere"}, "LoadFailed: `nowhere.x` was not loaded, and nothing "
     'was changed: schema "nowhere" does not exist (SQLSTATE 3F000)'),
    ("replace", "n\n1\n", {"keys": ["m"]}, "ColumnMissing: `keys` names `m`, and `data` has no such column; "
     "known: `n`"),
]  # fmt: skip


def test_all_or_nothing(project: Make, postgres: Postgres) -> None:
    postgres.do(
        "CREATE TABLE t (n smallint PRIMARY KEY, price numeric(8,2), name varchar(3))",
        "INSERT INTO t VALUES (0, 0.5, 'old')",
        "CREATE VIEW v AS SELECT n FROM t",
    )
    files = {f"a{number}.csv": data for number, (_, data, _, _) in enumerate(REFUSED)}
    blocks = [
        loading(postgres, mode, **{"data": f"<a{number}>", **more}) for number, (mode, _, more, _) in enumerate(REFUSED)
    ]
    assert failures(project, "postgres/load", blocks, files, None) == [expected for _, _, _, expected in REFUSED]
    assert postgres.do("SELECT * FROM t") == [("0", "0.50", "old")]


def test_a_load_that_breaks_off_leaves_the_old_table(project: Make, postgres: Postgres) -> None:
    """The last of many rows is refused by a constraint of the table."""
    postgres.do("CREATE TABLE t (n bigint CHECK (n < 200000))", "INSERT INTO t VALUES (-1)")
    data = "n\n" + "\n".join(map(str, range(1, 200_001))) + "\n"
    told = refused(project, postgres, "truncate", data)
    assert 'new row for relation "t" violates check constraint "t_n_check"' in told
    assert "(SQLSTATE 23514)" in told
    assert postgres.do("SELECT * FROM t") == [("-1",)]


def test_what_is_not_known_is_not_claimed(project: Make, postgres: Postgres) -> None:
    """The session dies while the transaction is committed; a constraint that is looked at only then says a plain no."""
    postgres.do(
        "CREATE TABLE t (n bigint PRIMARY KEY DEFERRABLE INITIALLY DEFERRED)",
        "CREATE TABLE u (n bigint)",
        "CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END'",
        "CREATE CONSTRAINT TRIGGER d AFTER INSERT ON u DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION die()",
    )
    blocks = [loading(postgres, "append", table=table) for table in ("t", "u")]
    refused_, lost = failures(project, "postgres/load", blocks, {"a.csv": "n\n1\n1\n"}, None)
    assert refused_.startswith("LoadFailed: `t` was not loaded, and nothing was changed: duplicate key value violates")
    unknown = "LoadFailed: it is not known whether `u` was loaded, check the table: "
    assert lost.startswith(f"{unknown}terminating connection due to")


def test_names_are_taken_as_they_are(project: Make, postgres: Postgres) -> None:
    postgres.do("CREATE SCHEMA staging")
    data = 'select,"Two ""words"""\n1,x\n'
    load(project, postgres, "create", data, table='My "t"; DROP', schema="staging")
    assert postgres.do('SELECT "select", "Two ""words""" FROM staging."My ""t""; DROP"') == [("1", "x")]


def test_what_was_loaded_before_is_loaded_again_when_other_rows_were_since(project: Make, postgres: Postgres) -> None:
    """Its report is in the log; but what stands in the table is not what it tells of."""
    lab = lab_of(project, "postgres/load", loading(postgres, "replace"), {"a.csv": "n\n1\n"}, None)
    lab.succeed()
    lab.write({"a.csv": "n\n2\n"}).succeed()
    ran = lab.write({"a.csv": "n\n1\n"}).succeed()
    assert (ran.executed, ran.reused) == (["Job:J"], {})
    assert postgres.do("SELECT * FROM t") == [("1",)]
    assert lab.plan().headlines() == {}


def test_comparing_loads_nothing(project: Make, postgres: Postgres) -> None:
    lab = lab_of(project, "postgres/load", loading(postgres, "create"), {"a.csv": "n\n1\n"}, None)
    lab.succeed()
    postgres.do("INSERT INTO t VALUES (2)")
    command = [sys.executable, "-m", "whyrun.cli.main", "compare"]
    done = subprocess.run(command, cwd=lab.root, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0
    assert "SKIPS Job:J → not comparable: it changes things outside the project, and would do so again" in done.stderr
    assert postgres.do("SELECT * FROM t ORDER BY n") == [("1",), ("2",)]
