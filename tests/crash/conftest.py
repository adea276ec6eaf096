"""Projects for crash tests. The reference is run once and never disturbed."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from crash_lab import TOPICS, Lab, Reference
from fault_lab import Courses, Nursery

ARCHITECTURE = str(Path(__file__).parents[1] / "architecture")  # how the source is looked at
if ARCHITECTURE not in sys.path:
    sys.path.append(ARCHITECTURE)


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    lab = Lab(tmp_path_factory.mktemp("reference") / "project")
    artifacts = {}
    seconds = 0.0
    for topic in TOPICS:
        lab.sets = (f"Topic={topic}",)
        host = lab.start()
        host.wait_ready()
        began = time.monotonic()
        ended = host.ended()
        assert ended.code == 0, ended.err
        seconds = seconds or time.monotonic() - began
        artifacts[topic] = lab.artifacts()
    lab.check_evidence()
    lab.check_replay()
    return Reference(artifacts, seconds)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path / "project")


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """Where commands are forked from."""
    nursery = Nursery()
    yield nursery
    nursery.close()


@pytest.fixture(scope="session")
def courses(tmp_path_factory: pytest.TempPathFactory, nursery: Nursery) -> Courses:
    return Courses(tmp_path_factory.mktemp("courses"), nursery)
