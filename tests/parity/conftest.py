from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from parity_lab import BACKENDS, Talks, ten_steps

from project_lab import Lab


@pytest.fixture
def talks(project: Callable[..., Lab]) -> Talks:
    return Talks(project)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str, int], Path]:
    """`made("local", "success", 1)`: the folder of a run of the ten steps, made when it is first asked for; once for
    all processes of a test run."""
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    runs = root / "ten-steps"
    runs.mkdir(exist_ok=True)

    def make(backend: str, ending: str, number: int) -> Path:
        lacks = BACKENDS[backend].lacks
        if lacks is not None:
            pytest.skip(lacks)
        name = f"{backend}-{ending}-{number}"
        with (runs / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            whole = runs / f"{name}.made"  # holds the path, and is there when all is
            if not whole.exists():
                folder = Path(tempfile.mkdtemp(dir=runs)) / name
                whole.write_text(str(ten_steps(folder, backend, ending)))
            return Path(whole.read_text())

    return make
