"""The command that makes a place ready before its first step, as `whyrun.toml` names it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from whyrun.execution.commands import Prepared
from whyrun.execution.isolation import end_descendants, has_children

_TOLD = 2000  # bytes: the last of what it printed


def prepare_place(command: str, project: Path, tmp: Path) -> Prepared:
    """Run it in the project folder. What it prints goes to a file: it may be much, and only its end is told."""
    import tempfile  # it brings `random`, which a worker seeds anew for every step that finds it there

    with tempfile.TemporaryFile(dir=tmp) as printed:
        try:
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", command],
                cwd=project,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                check=False,
            )
        except OSError as problem:
            return Prepared(f"bash cannot be started: {problem.strerror}")
        finally:
            if has_children():
                end_descendants()
        if done.returncode == 0:
            return Prepared()
        printed.seek(max(0, printed.seek(0, 2) - _TOLD))
        last = printed.read().decode("utf-8", "replace").strip()
    how = f"exit status {done.returncode}" if done.returncode > 0 else f"signal {-done.returncode}"
    return Prepared(f"`{command}` ended with {how}" + (f"\n{last}" if last else ""))
