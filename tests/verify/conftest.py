"""The project is made once; each test damages a copy of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from verify_lab import Tales, make


@pytest.fixture(scope="session")
def told_tales(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tales, Tales]:
    return make(tmp_path_factory.mktemp("tales"))


@pytest.fixture
def tales(told_tales: tuple[Tales, Tales], tmp_path: Path) -> Tales:
    return told_tales[0].copy(tmp_path / "project")


@pytest.fixture
def killed(told_tales: tuple[Tales, Tales], tmp_path: Path) -> Tales:
    return told_tales[1].copy(tmp_path / "killed")
