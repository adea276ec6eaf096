"""One project with a history for all tests of this folder, which only read it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from export_lab import made

from project_lab import Lab


@pytest.fixture(scope="session")
def exporting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EXPORT_TOKEN", "")
        yield made(tmp_path_factory.mktemp("exports") / "study")
