"""Connections to real servers: tried by the command, used by actions, and no password of theirs anywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from movers_lab import MariaDb, Postgres

from project_lab import Lab

Make = Callable[..., Lab]

WRONG = "a-password-that-is-wrong"
FLOW = """
    workflow: flow
    jobs:
      Extract:
        uses: FAMILY/extract
        with: {connection: "@FAMILY", query: SELECT 1 AS one}
        outputs: {rows: {type: dataset, path: out/rows.parquet}}
"""


def connections_yaml(family: str, server: MariaDb | Postgres) -> str:
    written = {**server.connection, "password": "${DB_PASSWORD}", "user": "${DB_USER}", "default": True}
    return json.dumps({"connections": {family: {"main": written}}})


def whyrun(lab: Lab, server: MariaDb | Postgres, *words: str, password: str | None = None) -> tuple[int, str, str]:
    given: dict[str, Any] = server.connection
    values = {"DB_PASSWORD": password or given["password"], "DB_USER": given["user"]}
    done = subprocess.run(
        [sys.executable, "-m", "whyrun.cli.main", *words], cwd=lab.root, env={**os.environ, **values},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def traces(root: Path, secret: str) -> list[str]:
    files = [path for path in root.rglob("*") if path.is_file()]
    return [str(path.relative_to(root)) for path in files if secret.encode() in path.read_bytes()]


@pytest.mark.parametrize(("family", "says"), [("mysql", "ok       MariaDB "), ("postgres", "ok       PostgreSQL ")])
def test_a_connection_is_tried_used_and_kept_secret(
    family: str, says: str, project: Make, request: pytest.FixtureRequest
) -> None:
    server = request.getfixturevalue("mariadb" if family == "mysql" else "postgres")
    secret = server.connection["password"]
    assert len(secret) >= 8
    lab = project(FLOW.replace("FAMILY", family), {"connections.yaml": connections_yaml(family, server)})

    code, out, err = whyrun(lab, server, "connections", "test")
    assert (code, err) == (0, ""), out
    assert out.startswith(f"@{family}.main  {says}")

    code, out, err = whyrun(lab, server, "run")
    assert code == 0, err
    assert (lab.root / "out" / "rows.parquet").is_file()
    assert traces(lab.root, secret) == []
    assert secret not in out + err

    code, out, err = whyrun(lab, server, "connections", "test", "--json", password=WRONG)
    assert code == 1
    (tried,) = json.loads(out)["connections"]
    assert tried["status"] == "failed"
    assert WRONG not in out + err

    code, out, err = whyrun(lab, server, "run", "--force", "Job:Extract", password=WRONG)
    assert code == 1
    assert "FAILED" in out + err
    assert WRONG not in out + err
    assert traces(lab.root, WRONG) == []
    assert traces(lab.root, secret) == []
