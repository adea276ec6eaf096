"""The example `etl`: its demo between two real servers, and its numbers against a computation of its own."""

from __future__ import annotations

import csv
import importlib.util
import shutil
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

import page_checks
from fork_server import DATA_LIBRARIES, shell_environment, with_imported
from project_lab import Lab

for needed in ("duckdb", "pymysql", "adbc_driver_postgresql"):
    pytest.importorskip(needed)

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "etl"
COUNTRIES = ("DE", "FR", "PL", "SE", "TR", "US")


def servers() -> Any:
    spec = importlib.util.spec_from_file_location("servers_of_etl", EXAMPLE / "servers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["servers_of_etl"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module", autouse=True)
def _installed() -> None:
    known = servers()
    for program in ("mariadbd", "mariadb", "postgres", "psql"):
        try:
            known.program(program)
        except known.NotStarted as missing:
            pytest.skip(str(missing))


@pytest.fixture(scope="module", autouse=True)
def _imported() -> Iterator[None]:
    with with_imported(*DATA_LIBRARIES):
        yield


def run_demo(scratch: Path, example: Path = EXAMPLE) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", example / "demo.sh", scratch],
        env=shell_environment(scratch / "bin", {"HOME": str(scratch), "LANG": "C.UTF-8"}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


# --- the same once more, with plain Python -----------------------------------------------------------------------


def orders() -> Iterator[tuple[int, datetime, str, Decimal]]:
    """(customer, when, currency, total), as seed.sql makes them."""
    for number in range(1, 6001):
        when = datetime(2024, 1, 1) + timedelta(minutes=50 * number)
        cents = (number * 7919) % 49000 + 1000
        yield 1 + (number * 37) % 240, when, ("EUR", "USD", "SEK")[number // 11 % 3], Decimal(cents) / 100


def revenue(until: datetime) -> dict[tuple[str, str], tuple[int, Decimal]]:
    """(country, month) → number of orders, and euros."""
    with (EXAMPLE / "data" / "rates.csv").open(newline="") as file:
        rates = {(row["month"], row["currency"]): Decimal(row["rate"]) for row in csv.DictReader(file, delimiter=";")}
    found: dict[tuple[str, str], tuple[int, Decimal]] = defaultdict(lambda: (0, Decimal(0)))
    for customer, when, currency, total in orders():
        if when < until:
            euros = (total * rates[when.strftime("%Y-%m"), currency]).quantize(Decimal("0.01"), ROUND_HALF_UP)
            key = (COUNTRIES[customer % 6], when.strftime("%m/%Y"))
            count, so_far = found[key]
            found[key] = count + 1, so_far + euros
    return found


def rows(path: Path, delimiter: str) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file, delimiter=delimiter))


def test_the_demo_holds_and_its_numbers_are_right(tmp_path: Path) -> None:
    done = run_demo(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert done.stdout.count("(the plan has exactly the expected jobs: ") == 2
    if shutil.which("bwrap"):
        assert "are equal: " in done.stdout
    assert not (tmp_path / "servers").exists(), "the servers are stopped"
    expected = revenue(datetime(2024, 6, 1))
    assert rows(tmp_path / "etl/results/monthly.csv", ";") == [
        ["country", "month", "orders", "revenue_eur"],
        *([*key, str(count), str(euros)] for key, (count, euros) in sorted(expected.items())),
    ]
    by_country = {country: [values for key, values in expected.items() if key[0] == country] for country in COUNTRIES}
    totals = {c: (sum(n for n, _ in v), sum((euros for _, euros in v), Decimal(0))) for c, v in by_country.items()}
    assert rows(tmp_path / "etl/results/warehouse.csv", ",") == [
        ["country", "orders", "euros", "of_sales"],
        *([country, str(count), str(euros), str(euros)] for country, (count, euros) in totals.items()),
    ]
    page_checks.check_views(Lab(tmp_path / "etl"))


def test_the_demo_fails_where_it_would_lie(tmp_path: Path) -> None:
    """In a copy that exports nothing. It is noticed before the first run."""
    example = tmp_path / "example"
    shutil.copytree(EXAMPLE, example)
    workflow = yaml.safe_load((example / "workflow.yaml").read_text(encoding="utf-8"))
    del workflow["jobs"]["Export"]
    (example / "workflow.yaml").write_text(yaml.safe_dump(workflow), encoding="utf-8")
    done = run_demo(tmp_path / "scratch", example)
    assert done.returncode == 1
    assert "the demo failed: the output lacks: 10 of 10 jobs to run" in done.stderr
    assert not (tmp_path / "scratch" / "servers").exists(), "the servers are stopped"


def test_the_developers_set_contains_what_the_example_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    assert {*extras["data"], *extras["db"]} <= set(extras["dev"])
