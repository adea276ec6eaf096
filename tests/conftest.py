"""Shared fixtures: real projects in temporary folders, run by the real engine.

def test_something(project):
    lab = project(workflow, {"photos/a.png": "a"})
    lab.succeed()
    assert lab.plan().headlines() == {}
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from project_lab import Files, Lab
from scenarios.harness import Scenario

# Property tests try the same cases every time, so that what is green here is green for whoever lands it. New cases are
# looked for with WHYRUN_SOAK=1 (`make soak`).
settings.register_profile(
    "same",
    deadline=None,
    database=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
settings.register_profile("soak", parent=settings.get_profile("same"), derandomize=False)
settings.load_profile("soak" if os.environ.get("WHYRUN_SOAK") else "same")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-scenarios",
        action="store_true",
        help="write what tests/scenarios/* now give as their expected files, to be read before it is kept",
    )


@pytest.fixture
def project(tmp_path: Path) -> Callable[..., Lab]:
    """`project(workflow, files)`: a project folder with `workflow.yaml` and these files."""
    made = 0

    def make(workflow: str, files: Files | None = None) -> Lab:
        nonlocal made
        made += 1
        root = tmp_path / f"project{made}"
        root.mkdir()
        return Lab(root).write({"workflow.yaml": workflow, **(files or {})})

    return make


@pytest.fixture
def scenario(tmp_path: Path) -> Callable[[str], Scenario]:
    """`scenario("then-and-now").after_success().with_changed("Input:ThenImages[2]").plan()`: scenarios/harness.py."""
    return lambda name: Scenario.load(name, tmp_path / "scenario")


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """A folder on another file system than `tmp_path`."""
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("needs a second file system, such as /dev/shm")
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)
