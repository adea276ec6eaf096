"""`whyrun connections`: the list, and the trial of each."""

from __future__ import annotations

import importlib.util
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from fork_server import run_command
from whyrun.cli.commands.connections import Probed, probe
from whyrun.connections.resolve import parse_connections, ready

SECRET = "s3cr3t-of-the-variable"
CONNECTIONS = """
connections:
  mysql:
    primary: {default: true, host: db.example.org, port: "${DB_PORT:-3306}", password: "${DB_PASSWORD}"}
    old: {host: old.example.org, password: hunter2-literal, tls: {names: [a, b]}}
  duckdb:
    there: {path: data/there.duckdb}
    missing: {path: data/none.duckdb}
  s3:
    bucket: {name: b, key: "${S3_KEY:-hunter2-default}"}
"""


def whyrun(folder: Path, *words: str, **environment: str) -> tuple[int, str, str]:
    plain = {key: value for key, value in os.environ.items() if key not in ("DB_PASSWORD", "DB_PORT", "S3_KEY")}
    done = run_command(["connections", *words], cwd=folder, env={**plain, **environment}, timeout=300)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "connections.yaml").write_text(CONNECTIONS)
    return tmp_path


def test_the_list_shows_what_is_written_and_never_a_secret(folder: Path) -> None:
    code, out, err = whyrun(folder, DB_PASSWORD=SECRET)
    assert (code, err) == (0, "")
    assert (
        out
        == """\
@mysql.primary (default)
  host      db.example.org
  port      ${DB_PORT:-3306}
  password  ${DB_PASSWORD}
  DB_PORT is not set; it has a default
  DB_PASSWORD is set
@mysql.old
  host          old.example.org
  password      ***
  tls.names[0]  a
  tls.names[1]  b
@duckdb.there
  path  data/there.duckdb
@duckdb.missing
  path  data/none.duckdb
@s3.bucket
  name  b
  key   ${S3_KEY:-hunter2-default}
  S3_KEY is not set; it has a default
"""
    )


def test_some_can_be_asked_for_by_name_or_family(folder: Path) -> None:
    assert [whyrun(folder, *names)[1].splitlines()[0] for names in (["mysql.old"], ["@mysql.old"], ["@s3"])] == [
        "@mysql.old", "@mysql.old", "@s3.bucket",
    ]  # fmt: skip
    code, out, err = whyrun(folder, "mysql", "--json", DB_PASSWORD=SECRET)
    assert (code, err) == (0, "")
    assert out == (
        '{"connections":[{"alias":"primary","default":true,"family":"mysql","fields":{"host":"db.example.org",'
        '"password":"${DB_PASSWORD}","port":"${DB_PORT:-3306}"},"file":"connections.yaml","line":4,'
        '"reference":"@mysql.primary","variables":[{"has_default":true,"name":"DB_PORT","set":false},'
        '{"has_default":false,"name":"DB_PASSWORD","set":true}]},{"alias":"old","default":false,"family":"mysql",'
        '"fields":{"host":"old.example.org","password":"***","tls.names[0]":"a","tls.names[1]":"b"},'
        '"file":"connections.yaml","line":5,"reference":"@mysql.old","variables":[]}]}\n'
    )


def test_wrong_names_and_a_wrong_file_are_refused(folder: Path) -> None:
    code, out, err = whyrun(folder, "mysql.odl", "duckbd", "s3")
    assert (code, out) == (2, "")
    assert (
        err
        == """\
error[CONNECTION_UNKNOWN] connections.yaml: `@mysql.odl`: the family `mysql` has no connection `odl`
   hint: did you mean `@mysql.old`?
error[CONNECTION_UNKNOWN] connections.yaml: `@duckbd`: `connections.yaml` has no family `duckbd`
   hint: did you mean `@duckdb`?
"""
    )
    (folder / "connections.yaml").write_text("connections: {mysql: {a: {host: '${'}}}")
    code, out, err = whyrun(folder, "test")
    assert (code, out) == (2, "")
    assert (
        err
        == """\
error[CONNECTION_INVALID] connections.yaml:1:34: `${` is not followed by the name of a variable
   hint: write `${NAME}`, or `$${` for a plain `${`
"""
    )


def test_a_project_without_connections(tmp_path: Path) -> None:
    assert whyrun(tmp_path) == (0, "", "the project has no `connections.yaml`\n")
    assert whyrun(tmp_path, "test", "--json") == (0, '{"connections":[]}\n', "")
    (tmp_path / "connections.yaml").write_text("connections: {mysql: {}}")
    assert whyrun(tmp_path) == (0, "", "the project has no connections\n")


def test_each_is_really_connected_to(folder: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    (folder / "data").mkdir()
    with duckdb.connect(str(folder / "data" / "there.duckdb")) as database:
        database.execute("CREATE TABLE t AS SELECT 1 AS x")
    assert whyrun(folder, "test", "duckdb.there") == (
        0, f"@duckdb.there  ok       DuckDB {duckdb.__version__}, 1 table\n", "",
    )  # fmt: skip
    code, out, _ = whyrun(folder, "test", "duckdb", "s3", "mysql.primary")
    there, missing, bucket, primary = out.splitlines()
    assert code == 1
    assert there == f"@duckdb.there    ok       DuckDB {duckdb.__version__}, 1 table"
    assert missing.startswith("@duckdb.missing  failed   IOException: ")
    assert bucket == (
        "@s3.bucket       untried  connections of the family `s3` cannot be tested; these can: "
        "`duckdb`, `mariadb`, `mysql`, `postgres`, `postgresql`, `sqlite`"
    )
    assert primary == "@mysql.primary   failed   not in the environment: `DB_PASSWORD`"
    assert whyrun(folder, "test", "s3")[0] == 0, "what cannot be tried has not failed"


# --- against servers -----------------------------------------------------------------------------------------------


def tried(family: str, fields: dict[str, Any], project: Path) -> Probed:
    text = ", ".join(f'{name}: "{value}"' for name, value in fields.items())
    connections = parse_connections(f"connections: {{{family}: {{one: {{{text}}}}}}}")
    assert connections.problems == ()
    return probe(family, ready(connections.families[family]["one"], ("password",), {"PW": SECRET}), project)


@pytest.mark.parametrize(("family", "driver"), [("mysql", "pymysql"), ("postgres", "adbc_driver_postgresql")])
def test_a_server_that_is_not_there_is_a_failure_without_the_password(family: str, driver: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(driver) is None:
        pytest.skip(f"{driver} is not installed")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    # Closed again: nobody listens there.
    fields = {"host": "127.0.0.1", "port": port, "user": "u", "password": "${PW}", "database": "d"}
    found = tried(family, fields, tmp_path)
    assert found.status == "failed"
    assert "refused" in found.detail
    assert SECRET not in found.detail
    # In the words that a step has for it.
    written = ", ".join(f'{name}: "{value}"' for name, value in fields.items())
    (tmp_path / "connections.yaml").write_text(f"connections: {{{family}: {{one: {{{written}}}}}}}")
    code, out, _ = whyrun(tmp_path, "test", PW=SECRET)
    server = {"mysql": "MySQL", "postgres": "PostgreSQL"}[family]
    beginning = f"@{family}.one  failed   no connection to {server} at 127.0.0.1:{port}, database `d`, user `u`: "
    assert (code, out.startswith(beginning)) == (1, True), out
    assert "refused" in out.lower()
    assert [word for word in (SECRET, "OperationalError", "libpq") if word in out] == []


def test_what_a_driver_says_is_redacted(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    found = tried("duckdb", {"path": "none-${PW}.duckdb"}, tmp_path)
    assert found.status == "failed"
    assert "none-***.duckdb" in found.detail
    assert SECRET not in found.detail


def test_a_connection_without_what_its_family_needs(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    assert tried("duckdb", {"file": "x"}, tmp_path) == Probed("failed", "ValueError: it has no `path:`")
