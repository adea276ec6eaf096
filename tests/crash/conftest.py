"""Projects for crash tests. The reference runs once and is never disturbed."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from crash_lab import TOPICS, Lab, Reference, made_once
from fault_lab import Courses, FaultRunner

ARCHITECTURE = str(Path(__file__).parents[1] / "architecture")  # its modules read the source
if ARCHITECTURE not in sys.path:
    sys.path.append(ARCHITECTURE)


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all processes of pytest-xdist."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "crash"


@pytest.fixture(scope="session")
def reference(shared_folder: Path) -> Reference:
    return made_once(shared_folder / "reference", make_reference)


def make_reference(folder: Path) -> Reference:
    lab = Lab(folder / "project")
    artifacts = {}
    seconds = 0.0
    operations: dict[str, int] = {}
    for topic in TOPICS:
        lab.sets = (f"Topic={topic}",)
        host = lab.start(crash_at=0)
        host.wait_ready()
        began = time.monotonic()
        ended = host.ended()
        assert ended.code == 0, ended.err
        seconds = seconds or time.monotonic() - began
        operations[topic] = ended.result["operations"]
        artifacts[topic] = lab.artifacts()
    lab.check_evidence()
    lab.check_replay()
    return Reference(artifacts, seconds, operations)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path / "project")


@pytest.fixture(scope="session")
def runner() -> FaultRunner:
    return FaultRunner()


@pytest.fixture(scope="session")
def courses(shared_folder: Path, runner: FaultRunner) -> Courses:
    return Courses(shared_folder / "courses", runner)
