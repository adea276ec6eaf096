"""`whyrun connections discover`: what a database has, from its catalogue alone."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner
from movers_lab import MariaDb, Postgres

from whyrun.actions.movers.discovery import FoundColumn, FoundTable, columns_of, tables_of
from whyrun.cli.commands.connections import command
from whyrun.errors import InvalidError


def test_mariadb(mariadb: MariaDb, tmp_path: Path) -> None:
    mariadb.do("CREATE TABLE `od'd` (id INT UNSIGNED PRIMARY KEY, name VARCHAR(20) NOT NULL, v DECIMAL(9,2))",
               "CREATE VIEW v AS SELECT 1 AS one")  # fmt: skip
    try:
        found = tables_of("mysql", mariadb.connection, tmp_path)
        assert [(one.name, one.kind) for one in found] == [("od'd", "table"), ("v", "view")]
        assert columns_of("mysql", mariadb.connection, tmp_path, "od'd") == [
            FoundColumn("id", "int(10) unsigned", False, True),
            FoundColumn("name", "varchar(20)", False, False),
            FoundColumn("v", "decimal(9,2)", True, False),
        ]
        assert columns_of("mysql", mariadb.connection, tmp_path, "none") == []
    finally:
        mariadb.do("DROP VIEW v", "DROP TABLE `od'd`")


def test_postgres(postgres: Postgres, tmp_path: Path) -> None:
    postgres.do('CREATE TABLE "Sales" (id bigint PRIMARY KEY, name varchar(20) NOT NULL, tags text[])')
    found = [one for one in tables_of("postgres", postgres.connection, tmp_path) if one.name == "Sales"]
    assert [(one.schema, one.kind, one.rows) for one in found] == [("public", "table", None)]
    assert columns_of("postgres", postgres.connection, tmp_path, "Sales") == [
        FoundColumn("id", "bigint", False, True),
        FoundColumn("name", "character varying(20)", False, False),
        FoundColumn("tags", "text[]", True, False),
    ]


def test_files(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "s.db")) as source:
        source.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT NOT NULL)")
        source.execute("CREATE VIEW v AS SELECT 1")
    fields = {"path": "s.db"}
    assert tables_of("sqlite", fields, tmp_path) == [
        FoundTable(None, "t", "table", None),
        FoundTable(None, "v", "view", None),
    ]
    assert columns_of("sqlite", fields, tmp_path, "t") == [
        FoundColumn("id", "INTEGER", True, True),
        FoundColumn("name", "TEXT", False, False),
    ]
    with closing(duckdb.connect(str(tmp_path / "d.db"))) as target:
        target.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, name VARCHAR)")
        target.execute("INSERT INTO t VALUES (1, 'a')")
    assert tables_of("duckdb", {"path": "d.db"}, tmp_path) == [FoundTable("main", "t", "table", 1)]
    assert columns_of("duckdb", {"path": "d.db"}, tmp_path, "t") == [
        FoundColumn("id", "BIGINT", False, True),
        FoundColumn("name", "VARCHAR", True, False),
    ]


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("connections.yaml").write_text(
        "connections:\n  sqlite: {shop: {path: s.db}, gone: {path: no.db}}\n  s3: {bucket: {name: x}}\n"
    )
    with closing(sqlite3.connect("s.db")) as source:
        source.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, total REAL NOT NULL)")
    run = CliRunner()
    assert run.invoke(command, ["discover", "@sqlite.shop"]).output == "orders  table\n"
    assert run.invoke(command, ["discover", "sqlite.shop", "orders"]).output == (
        "id     INTEGER            key\ntotal  REAL     not null\n"
    )
    for words, message in (
        (["discover"], "`discover` takes one connection, and a table"),
        (["discover", "sqlite"], "`sqlite` stands for 2 connections"),
        (["discover", "@s3.bucket"], "connections of the family `s3` are not known"),
        (["discover", "@sqlite.shop", "order"], "@sqlite.shop has no table `order`"),
        (["discover", "@sqlite.gone"], "@sqlite.gone: unable to open database file"),
    ):
        problem = run.invoke(command, words).exception
        assert isinstance(problem, InvalidError)
        assert problem.diagnostics[0].message == message
