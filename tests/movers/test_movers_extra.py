"""The movers without the packages that they need."""

from __future__ import annotations

import subprocess
import sys

import pytest
from movers_lab import Make, lab_of

CONNECTION = {"host": "127.0.0.1", "user": "u", "password": "some-pass-word", "database": "d"}


@pytest.mark.parametrize(
    ("uses", "module"), [("mysql/extract", "pymysql"), ("postgres/extract", "adbc_driver_postgresql")]
)
def test_a_workflow_that_needs_the_extra_is_refused_before_anything_runs(project: Make, uses: str, module: str) -> None:
    lab = lab_of(project, uses, {"connection": CONNECTION, "query": "SELECT 1 AS a"})
    # What Python answers to a search for a package that is not installed.
    without = f"import sys; sys.modules[{module!r}] = None; from whyrun.cli.main import main; main()"
    command = [sys.executable, "-c", without, "run"]
    done = subprocess.run(command, cwd=lab.root, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 2
    assert f"the action `{uses}` needs `{module}`" in done.stderr
    assert "   hint: `pip install 'whyrun[db]'`, in a clone of Whyrun `pip install '.[db]'`" in done.stderr
    assert not (lab.root / ".whyrun").exists()
