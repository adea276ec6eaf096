"""Real servers: MariaDB and PostgreSQL, installed where they are missing, started once and stopped at the end."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from movers_lab import MariaDb, Postgres, installed, servers

from fork_server import DATA_LIBRARIES, with_imported


@pytest.fixture(scope="module", autouse=True)
def _imported() -> Iterator[None]:
    """For a module. That of a folder would stay until the end, and workers of other folders would have them, too."""
    with with_imported(*DATA_LIBRARIES):
        yield


@pytest.fixture(scope="session")
def server_folder() -> Iterator[Path]:
    """Not below pytest's own folder: that is closed to other users, and the paths of sockets must be short."""
    folder = Path(tempfile.mkdtemp(prefix="whyrun-db-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def mariadb_server(server_folder: Path) -> Iterator[MariaDb]:
    pytest.importorskip("pymysql")
    installed("mariadbd", "mariadb-server")
    server = servers.start_mariadb(server_folder / "m")
    yield MariaDb(server)
    server.stop()


@pytest.fixture(scope="session")
def postgres_server(server_folder: Path) -> Iterator[Postgres]:
    pytest.importorskip("adbc_driver_postgresql")
    installed("postgres", "postgresql")
    server = servers.start_postgres(server_folder / "p")
    yield Postgres(server)
    server.stop()


@pytest.fixture
def mariadb(mariadb_server: MariaDb) -> MariaDb:
    """An empty database."""
    mariadb_server.clear()
    return mariadb_server


@pytest.fixture
def postgres(postgres_server: Postgres) -> Postgres:
    """An empty database."""
    postgres_server.clear()
    return postgres_server
