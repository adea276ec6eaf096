"""The project is made once; each test damages a copy of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from verify_lab import Tales, make


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tales, Tales]:
    return make(tmp_path_factory.mktemp("tales"))


@pytest.fixture
def tales(made: tuple[Tales, Tales], tmp_path: Path) -> Tales:
    return made[0].copy(tmp_path / "project")


@pytest.fixture
def killed(made: tuple[Tales, Tales], tmp_path: Path) -> Tales:
    return made[1].copy(tmp_path / "killed")
