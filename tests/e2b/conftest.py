"""`server`: an E2B of this machine, to which the SDK of this process is pointed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from loopback.server import Loopback


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Loopback]:
    folder = tmp_path / "e2b"
    folder.mkdir()
    with Loopback(folder) as server:
        environment = server.environment()
        saved = {name: os.environ.get(name) for name in environment}
        os.environ.update(environment)
        try:
            yield server
        finally:
            for name, value in saved.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
