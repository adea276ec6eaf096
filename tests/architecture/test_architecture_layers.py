"""Imports go downward only; the contract itself stands in pyproject.toml."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from source_tree import PACKAGE, PROJECT


def test_imports_go_downward_only() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter, "--no-cache"], cwd=PROJECT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Contracts: 13 kept, 0 broken." in done.stdout


def test_the_linter_would_notice_an_import_upward(tmp_path: Path) -> None:
    """The contract bites: in a copy in which `ids` imports the planner, it is broken."""
    package = tmp_path / "whyrun"
    for file in PACKAGE.rglob("*.py"):
        target = package / file.relative_to(PACKAGE)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.read_bytes())
    ids = package / "ids.py"
    ids.write_text(ids.read_text(encoding="utf-8") + "\nimport whyrun.planning.plan  # noqa\n", encoding="utf-8")
    (tmp_path / "pyproject.toml").write_bytes((PROJECT / "pyproject.toml").read_bytes())
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "whyrun.ids -> whyrun.planning.plan" in done.stdout
