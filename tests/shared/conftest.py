from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from s3_server import S3Server, s3_server
from shared_lab import Kept, Team, use_server

from project_lab import PATIENCE, Lab
from whyrun.execution.sharing import sharing
from whyrun.execution.sharing.sharing import Patience


@pytest.fixture(autouse=True)
def no_word_of_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a run may have to wait for its last result, and says so; or the store is so slow to answer that
    it is left alone. Here that is of no interest, but where a test has a patience of its own."""
    monkeypatch.setattr(sharing, "QUIETLY", PATIENCE)
    monkeypatch.setattr(sharing, "Patience", lambda: Patience(PATIENCE, PATIENCE))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    with s3_server() as running:
        use_server(monkeypatch, running)
        yield running


@pytest.fixture
def s3_team(server: S3Server, project: Callable[..., Lab]) -> Team:
    return Team(Kept("s3://team/demo", None, server), project)


@pytest.fixture
def folder_team(tmp_path: Path, project: Callable[..., Lab]) -> Team:
    (tmp_path / "kept" / "v1").mkdir(parents=True)  # not the first who uses it: those are told so
    return Team(Kept(str(tmp_path / "kept"), tmp_path / "kept", None), project)


@pytest.fixture(params=["s3", "folder"])
def team(request: pytest.FixtureRequest) -> Team:
    found: Team = request.getfixturevalue(f"{request.param}_team")
    return found
