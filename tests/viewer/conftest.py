"""One project with a history for all tests of this folder that only read it."""

from __future__ import annotations

import pytest
from viewer_lab import Client, client_of, made

from project_lab import Lab


@pytest.fixture(scope="session")
def told(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return made(tmp_path_factory.mktemp("viewer") / "stories")


@pytest.fixture
def client(told: Lab) -> Client:
    return client_of(told, "lab.example.org")
