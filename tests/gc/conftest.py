"""The project is made once; each test prunes a copy of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from gc_lab import Past, copy_of, make_past


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Past:
    return make_past(tmp_path_factory.mktemp("original") / "past")


@pytest.fixture
def past(original: Past, tmp_path: Path) -> Past:
    """A copy of the project with five runs; see gc_lab."""
    return copy_of(original, tmp_path / "past")
