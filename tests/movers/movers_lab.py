"""Workflows with movers: one job, what it wrote, what it told; and the databases they talk to."""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from project_lab import Lab, Ran
from whyrun.log import events as ev

Make = Callable[..., Lab]
Files = Mapping[str, str | bytes] | None
PARQUET = "out/made.parquet"
ROOT = Path(__file__).parents[2]


def _of_example() -> Any:
    """The example starts its servers itself; so do the tests, with the same code."""
    spec = importlib.util.spec_from_file_location("etl_servers", ROOT / "examples" / "etl" / "servers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["etl_servers"] = module
    spec.loader.exec_module(module)
    return module


servers = _of_example()


def installed(program: str, package: str) -> None:
    """Install it where that is possible; else the test is skipped, and says why."""
    with (Path(tempfile.gettempdir()) / "whyrun-apt.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of several test processes, one installs
        try:
            servers.program(program)
            return
        except servers.NotStarted as missing:
            if shutil.which("apt-get") is None or os.geteuid() != 0:
                pytest.skip(f"{missing}, and cannot be installed here")
        apt = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", package]
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "update", "-qq"], env=quiet, capture_output=True, timeout=300, check=False)
        done = subprocess.run(apt, env=quiet, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            pytest.skip(f"{package} cannot be installed: {done.stderr.strip()[-300:]}")


class MariaDb:
    def __init__(self, server: Any) -> None:
        self.server = server

    @property
    def connection(self) -> dict[str, Any]:
        return dict(self.server.connection)

    def do(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run them; the rows of the last."""
        import pymysql

        session = pymysql.connect(**self.connection, charset="utf8mb4", autocommit=True)
        with session, session.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())

    def clear(self) -> None:
        for (table,) in self.do("SHOW TABLES"):
            self.do(f"DROP TABLE `{table}`")


class Postgres:
    def __init__(self, server: Any) -> None:
        self.server = server

    @property
    def connection(self) -> dict[str, Any]:
        return dict(self.server.connection)

    def do(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run them with psql, in one session; the rows of the last, as texts."""
        command = [*self._psql, *(word for statement in statements for word in ("-c", statement))]
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        return [tuple(line.split("\x1f")) for line in done.stdout.splitlines()]

    @contextmanager
    def locked(self, table: str) -> Iterator[None]:
        """Another session holds the table for itself."""
        pipe = subprocess.PIPE
        with subprocess.Popen(self._psql, env=self._environment, stdin=pipe, stdout=pipe, text=True) as session:
            assert session.stdin is not None
            assert session.stdout is not None
            print(f"BEGIN; LOCK TABLE {table}; SELECT 'locked';", file=session.stdin, flush=True)
            assert session.stdout.readline() == "locked\n"
            yield
            session.stdin.close()  # the session ends, and its transaction with it

    @property
    def _psql(self) -> list[str]:
        server = self.server
        command = [servers.program("psql"), "-XqAt", "-F", "\x1f", "-P", "null=NULL", "-v", "ON_ERROR_STOP=1"]
        return [*command, "-h", "127.0.0.1", "-p", str(server.port), "-U", server.user, "-d", server.database]

    @property
    def _environment(self) -> dict[str, str]:
        return {**os.environ, "PGPASSWORD": self.server.password, "PGTZ": "UTC"}

    def clear(self) -> None:
        self.do("DROP SCHEMA IF EXISTS public, staging CASCADE", "CREATE SCHEMA public")


def flow_of(uses: str, blocks: Sequence[Mapping[str, Any]], out: str | None, files: Files) -> dict[str, str]:
    """A workflow with one job `J0`, `J1`, … for each block (`J` where it is one), and its connections.

    Each makes `made` (`report` where `out` is None). Every file is an input, `<stem>` in a block. A `connection` is
    given by its fields, and put where connections are.
    """
    inputs = {f"F_{Path(path).stem}": {"type": "dataset", "default": path} for path in files or ()}
    family = uses.split("/")[0]
    jobs, connections = {}, {}
    for number, block in enumerate(blocks):
        mark = "" if len(blocks) == 1 else str(number)
        with_ = dict(block)
        if "connection" in block:
            connections[f"c{mark}"] = block["connection"]
            with_["connection"] = f"@{family}.c{mark}"
        outputs: dict[str, Any] = {"report": {"type": "json"}}
        if out is not None:
            outputs = {"made": {"type": "dataset", "path": out.replace("made", f"made{mark}")}}
        jobs[f"J{mark}"] = {"uses": uses, "with": _bound(with_), "outputs": outputs}
    made = {"workflow.yaml": json.dumps({"workflow": "w", "inputs": inputs, "jobs": jobs})}
    if connections:
        made["connections.yaml"] = json.dumps({"connections": {family: connections}})
    return made


def _bound(value: Any) -> Any:
    if isinstance(value, str) and value.startswith("<"):
        return f"${{{{ inputs.F_{value[1:-1]} }}}}"
    if isinstance(value, Mapping):
        return {key: _bound(member) for key, member in value.items()}
    return [_bound(member) for member in value] if isinstance(value, list) else value


def lab_of(project: Make, uses: str, with_: Mapping[str, Any], files: Files = None, out: str | None = PARQUET) -> Lab:
    flow = flow_of(uses, [with_], out, files)
    return project(flow["workflow.yaml"], {**(files or {}), **flow})


def made(project: Make, uses: str, with_: Mapping[str, Any], files: Files = None, out: str = PARQUET) -> Path:
    lab = lab_of(project, uses, with_, files, out)
    lab.succeed()
    return lab.root / out


def failures(
    project: Make, uses: str, blocks: Sequence[Mapping[str, Any]], files: Files = None, out: str | None = PARQUET
) -> list[str]:
    """`Type: message` of steps that all fail: one for each block, in one run."""
    flow = flow_of(uses, blocks, out, files)
    ran = project(flow["workflow.yaml"], {**(files or {}), **flow}).run()
    assert ran.exit_code == 1
    told = {failed.step_id: f"{failed.error_type}: {failed.error}" for failed in ran.of(ev.StepFailed)}
    steps = ["Job:J"] if len(blocks) == 1 else [f"Job:J{number}" for number in range(len(blocks))]
    assert sorted(told) == sorted(steps), "some did not fail"
    return [told[step] for step in steps]


def rows(path: Path) -> list[tuple[Any, ...]]:
    """Of a Parquet file, as Python values."""
    import pyarrow.parquet as pq

    found = pq.read_table(path)
    return [tuple(row.values()) for row in found.to_pylist()]


def types(path: Path) -> dict[str, str]:
    """Of a Parquet file: column → Arrow's type."""
    import pyarrow.parquet as pq

    return {field.name: str(field.type) for field in pq.read_schema(path)}


def metrics(ran: Ran) -> dict[str, float]:
    """What the action counted."""
    assert ran.folder is not None
    lines = (ran.folder / "metrics.jsonl").read_text().splitlines()
    found = {entry["metric"]: entry["value"] for entry in map(json.loads, lines)}
    return {name: value for name, value in found.items() if name in ("rows_read", "rows_written")}
