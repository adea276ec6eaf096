"""`duckdb/load`, `sqlite/extract` and `sqlite/load`: modes, what is refused, and types both ways."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

from project_lab import Lab
from whyrun.log import events as ev

Make = Callable[..., Lab]
KINDS = ("duckdb", "sqlite")
ROWS = "id,name,v\n1,a,1.5\n2,b,\n"
NEWER = "id,name,v\n2,B,2.5\n3,c,3.5\n"


def workflow(kind: str, action: str, **with_: Any) -> str:
    entries = "".join(f"      {key}: {value}\n" for key, value in with_.items())
    outputs = "{report: {type: json}}" if action == "load" else "{made: {type: dataset, path: out/made.parquet}}"
    data = "      data: ${{ inputs.Data }}\n" if action == "load" else ""
    inputs = "inputs: {Data: {type: dataset, default: data.csv}}\n" if action == "load" else ""
    return (
        f"workflow: w\n{inputs}jobs:\n  J:\n    uses: {kind}/{action}\n    with:\n"
        f'      connection: "@{kind}.it"\n{data}{entries}    outputs: {outputs}\n'
    )


def lab_of(project: Make, kind: str, data: str = ROWS, **with_: Any) -> Lab:
    connections = f"connections: {{{kind}: {{it: {{path: it.db}}}}}}\n"
    return project(workflow(kind, "load", table="t", **with_), {"data.csv": data, "connections.yaml": connections})


def database(lab: Lab, kind: str) -> Any:
    path = str(lab.root / "it.db")
    return closing(duckdb.connect(path) if kind == "duckdb" else sqlite3.connect(path, isolation_level=None))


def do(lab: Lab, kind: str, *statements: str) -> list[tuple[Any, ...]]:
    with database(lab, kind) as connection:
        for statement in statements[:-1]:
            connection.execute(statement)
        return [tuple(row) for row in connection.execute(statements[-1]).fetchall()]


def failure(lab: Lab) -> str:
    (failed,) = lab.run(force=["Job:J"]).of(ev.StepFailed)
    return f"{failed.error_type}: {failed.error}"


@pytest.mark.parametrize("kind", KINDS)
def test_each_mode_does_what_it_says(project: Make, kind: str) -> None:
    lab = lab_of(project, kind, mode="create", keys="[id]")
    ran = lab.succeed()
    assert do(lab, kind, "SELECT * FROM t ORDER BY id") == [(1, "a", 1.5), (2, "b", None)]
    assert lab.content("Artifact:J.report")["rows"] == 2
    assert [event.message for event in ran.of(ev.Task)] == ["loaded 2 rows in `t`"]
    lab.write({"data.csv": NEWER})
    for mode, keys, expected in (
        ("upsert", {"keys": "[id]"}, [(1, "a", 1.5), (2, "B", 2.5), (3, "c", 3.5)]),
        ("replace", {"keys": "[id]"}, [(2, "B", 2.5), (3, "c", 3.5)]),
    ):
        lab.write({"workflow.yaml": workflow(kind, "load", table="t", mode=mode, **keys)})
        lab.succeed()
        assert do(lab, kind, "SELECT * FROM t ORDER BY id") == expected
    lab.write({"data.csv": ROWS, "workflow.yaml": workflow(kind, "load", table="plain", mode="create")})
    lab.succeed()
    for mode, number in (("append", 4), ("truncate", 2)):
        lab.write({"workflow.yaml": workflow(kind, "load", table="plain", mode=mode)})
        lab.succeed()
        assert do(lab, kind, "SELECT count(*) FROM plain") == [(number,)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["append", "truncate", "upsert"])
def test_create_if_missing(project: Make, kind: str, mode: str) -> None:
    lab = lab_of(project, kind, mode=mode, keys="[id]", create_if_missing="true")
    lab.succeed()
    assert do(lab, kind, "SELECT * FROM t ORDER BY id") == [(1, "a", 1.5), (2, "b", None)]
    lab.write({"data.csv": NEWER if mode == "upsert" else "id,name,v\n9,z,9\n"})
    lab.succeed()
    number = {"append": 3, "truncate": 1, "upsert": 3}[mode]
    assert do(lab, kind, "SELECT count(*) FROM t") == [(number,)]
    if mode == "truncate":  # the same keys again, in the transaction that deletes them
        lab.write({"data.csv": "id,name,v\n9,y,8\n1,z,9\n"})
        lab.succeed()
        assert do(lab, kind, "SELECT * FROM t ORDER BY id") == [(1, "z", 9.0), (9, "y", 8.0)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("before", "data", "with_", "expected"),
    [
        ([], ROWS, {"mode": "append"},
         "LoadRefused: there is no table `t`; create it, or write `create_if_missing: true`"),
        (["CREATE TABLE t (id BIGINT)"], ROWS, {"mode": "create"},
         "LoadRefused: `t` exists already; write `mode: replace`, `truncate` or `append`"),
        (["CREATE VIEW t AS SELECT 1 AS id"], ROWS, {"mode": "replace"},
         "LoadRefused: `t` is a view, not a table; name a table"),
        (["CREATE TABLE t (id BIGINT, nam VARCHAR, v DOUBLE)"], ROWS, {"mode": "append"},
         "LoadRefused: `t` does not fit `data`: it has no column `name` (did you mean `nam`?)"),
        (["CREATE TABLE t (id BIGINT PRIMARY KEY, name VARCHAR, v DOUBLE)"], "id,name,v\n1,a,1\n1,b,2\n",
         {"mode": "upsert", "keys": "[id]"},
         "LoadRefused: 1 key occurs more than once in `data`; an upsert could take either row"),
        (["CREATE TABLE t (id BIGINT PRIMARY KEY, name VARCHAR, v DOUBLE)"], "id,name,v\n,a,1\n",
         {"mode": "upsert", "keys": "[id]"}, "LoadRefused: 1 row of `data` has no value in `keys`"),
        (["CREATE TABLE t (id BIGINT, name VARCHAR, v DOUBLE)"], ROWS, {"mode": "upsert", "keys": "[id]"},
         "LoadRefused: `keys` of `t` need a primary key or a unique index on exactly `id`"),
        (["CREATE TABLE t (id BIGINT PRIMARY KEY, name VARCHAR UNIQUE, v DOUBLE)"], ROWS,
         {"mode": "upsert", "keys": "[id]"},
         "LoadRefused: `t` is also unique by `name`, so an upsert by `id` could hit another row"),
        ([], ROWS, {"mode": "create", "keys": "[idd]"},
         "ColumnMissing: `keys` names `idd`, and `data` has no such column; did you mean `id`?"),
    ],
)  # fmt: skip
def test_what_is_refused_and_changes_nothing(
    project: Make, kind: str, before: list[str], data: str, with_: dict[str, str], expected: str
) -> None:
    lab = lab_of(project, kind, data, **with_)
    if before:
        do(lab, kind, *before)
    assert failure(lab) == expected
    if before and "VIEW" not in before[0]:
        assert do(lab, kind, "SELECT count(*) FROM t") == [(0,)]


@pytest.mark.parametrize("kind", KINDS)
def test_all_or_nothing(project: Make, kind: str) -> None:
    lab = lab_of(project, kind, "id,name,v\n5,x,1\n1,y,2\n", mode="append")
    do(
        lab,
        kind,
        "CREATE TABLE t (id BIGINT PRIMARY KEY, name VARCHAR, v DOUBLE)",
        "INSERT INTO t VALUES (1, 'old', 0)",
    )
    assert failure(lab).startswith("LoadFailed: `t` was not loaded, and nothing was changed: ")
    assert do(lab, kind, "SELECT * FROM t") == [(1, "old", 0.0)]


def test_duckdb_takes_only_values_that_stay_what_they_are(project: Make) -> None:
    lab = lab_of(project, "duckdb", "id,name,v\n300,007,1.5\n", mode="append", types="{name: text}")
    do(lab, "duckdb", "CREATE TABLE t (id TINYINT, name VARCHAR, v DOUBLE)")
    assert failure(lab) == (
        "ValueNotConvertible: 1 value of `id` would change as TINYINT: `300`; round it first, or change the table; "
        "nothing was changed"
    )
    do(lab, "duckdb", "DROP TABLE t", "CREATE TABLE t (id INTEGER, name INTEGER, v DOUBLE)")
    assert failure(lab) == (
        "LoadRefused: `t` does not fit `data`: `name` is INTEGER in the table and VARCHAR in `data`; "
        "declare the type with `types`"
    )
    do(lab, "duckdb", "DROP TABLE t", "CREATE TABLE t (id INTEGER, name VARCHAR, v DECIMAL(5,2))")
    lab.succeed()
    assert do(lab, "duckdb", "SELECT id, name, CAST(v AS VARCHAR) FROM t") == [(300, "007", "1.50")]


def test_sqlite_never_converts_by_affinity(project: Make) -> None:
    lab = lab_of(project, "sqlite", "id,name,v\n9007199254740993,007,2024-01-31\n", mode="append", types="{name: text}")
    do(lab, "sqlite", "CREATE TABLE t (id REAL, name TEXT, v DATE)")
    assert failure(lab) == "ValueNotConvertible: 1 value of `id` would change as REAL: `9007199254740993`"
    do(lab, "sqlite", "DROP TABLE t", "CREATE TABLE t (id INTEGER, name INTEGER, v DATE)")
    assert failure(lab) == (
        "LoadRefused: `t` does not fit `data`: `name` is INTEGER in the table and text in `data`, and SQLite would "
        "convert it; declare the type with `types`"
    )
    do(lab, "sqlite", "DROP TABLE t", "CREATE TABLE t (id INTEGER, name TEXT, v DATE)")
    lab.succeed()
    assert do(lab, "sqlite", "SELECT id, name, v FROM t") == [(9007199254740993, "007", "2024-01-31")]


def test_an_upsert_of_sqlite_compares_keys_as_the_table_does(project: Make) -> None:
    lab = lab_of(project, "sqlite", "id,v\nA,1\na,2\n", mode="upsert", keys="[id]")
    do(lab, "sqlite", "CREATE TABLE t (id TEXT COLLATE NOCASE PRIMARY KEY, v INTEGER)")
    assert failure(lab) == (
        "LoadRefused: 1 key of `data` is the same as another one for `t`, which compares them in its own way"
    )
    assert do(lab, "sqlite", "SELECT count(*) FROM t") == [(0,)]


# --- sqlite/extract ----------------------------------------------------------------------------------------------


def extracted(project: Make, statements: list[str], **with_: Any) -> Lab:
    connections = "connections: {sqlite: {it: {path: it.db}}}\n"
    lab = project(workflow("sqlite", "extract", **with_), {"connections.yaml": connections})
    do(lab, "sqlite", *statements)
    return lab


def test_every_kind_of_value_comes_back_as_it_is(project: Make) -> None:
    lab = extracted(
        project,
        ["CREATE TABLE t (i, r, s, b, m, n)",
         "INSERT INTO t VALUES (9223372036854775807, 0.1, '007', x'00ff', 1, NULL)",
         "INSERT INTO t VALUES (-9223372036854775808, 1e300, '', x'', 2.5, NULL)"],
        table="t",
    )  # fmt: skip
    lab.succeed()
    made: Path = lab.root / "out/made.parquet"
    assert duckdb.sql(f"SELECT * FROM '{made}' ORDER BY i DESC").fetchall() == [
        (9223372036854775807, 0.1, "007", b"\x00\xff", 1.0, None),
        (-9223372036854775808, 1e300, "", b"", 2.5, None),
    ]
    types = [row[1] for row in duckdb.sql(f"DESCRIBE SELECT * FROM '{made}'").fetchall()]
    assert types == ["BIGINT", "DOUBLE", "VARCHAR", "BLOB", "DOUBLE", "VARCHAR"]


def test_a_query_with_values_keeps_its_order(project: Make) -> None:
    lab = extracted(
        project,
        ["CREATE TABLE t (a, b)", "INSERT INTO t VALUES (1, 'x'), (2, 'y; --'), (3, 'z')"],
        query="SELECT a, b FROM t WHERE b <> $not ORDER BY a DESC",
        values='{not: "y; --"}',
    )
    lab.succeed()
    assert duckdb.sql(f"SELECT * FROM '{lab.root / 'out/made.parquet'}'").fetchall() == [(3, "z"), (1, "x")]


@pytest.mark.parametrize(
    ("statements", "with_", "expected"),
    [
        (["CREATE TABLE t (a)", "INSERT INTO t VALUES (1), ('x')"], {"table": "t"},
         "ValueNotConvertible: the column `a` has values of the types `integer`, `text`; make them alike in the query: "
         'CAST("a" AS TEXT)'),
        (["CREATE TABLE t (a)", "INSERT INTO t VALUES (9007199254740993), (0.5)"], {"table": "t"},
         "ValueNotConvertible: the column `a` has values of the types `integer`, `real`; make them alike in the query: "
         'CAST("a" AS TEXT)'),
        (["CREATE TABLE t (a)"], {"table": "u"}, "QueryFailed: `table: u` cannot be answered: no such table: u"),
        (["CREATE TABLE t (a)"], {"query": "DELETE FROM t"},
         'QueryFailed: `query` cannot be answered: near "DELETE": syntax error'),
    ],
)  # fmt: skip
def test_what_cannot_be_extracted(project: Make, statements: list[str], with_: dict[str, str], expected: str) -> None:
    assert failure(extracted(project, statements, **with_)) == expected
