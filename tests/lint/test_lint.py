"""Style, types and import layers. Here, so that `make test` checks them beside the tests and not before them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHECKED = [folder for folder in ("src", "tests", "examples", "docs", "bench") if (ROOT / folder).is_dir()]
COMMANDS = {"style": ["ruff", "check", *CHECKED], "types": ["mypy"], "layers": ["lint-imports"]}


@pytest.mark.parametrize("what", COMMANDS)
def test_the_source_passes(what: str) -> None:
    program, *arguments = COMMANDS[what]
    done = subprocess.run(
        [Path(sys.executable).with_name(program), *arguments],
        cwd=ROOT,
        env={**os.environ, "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(COMMANDS[what])}\n{done.stdout}"
