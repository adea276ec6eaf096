from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sandbox_lab import SandboxLab, SandboxProject, why_not


@pytest.fixture(scope="session")
def open_folder() -> Iterator[Path]:
    """Where every user may enter, which a folder of pytest's is not."""
    folder = Path(tempfile.mkdtemp(prefix="whyrun-sandbox-tests-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(params=["root", "user"], scope="session")
def who(request: pytest.FixtureRequest) -> str:
    reason = why_not(request.param)
    if reason is not None:
        pytest.skip(reason)
    return str(request.param)


@pytest.fixture(scope="session")
def lab(who: str, open_folder: Path) -> Iterator[SandboxLab]:
    folder = open_folder / f"lab-{who}"
    folder.mkdir()
    lab = SandboxLab(who, folder)
    yield lab
    lab.close()


@pytest.fixture
def sandboxed(who: str, open_folder: Path) -> Callable[[dict[str, str]], SandboxProject]:
    """`sandboxed(files)`: a project of root, or of an ordinary user."""

    def make(files: dict[str, str]) -> SandboxProject:
        return SandboxProject(who, Path(tempfile.mkdtemp(prefix="project-", dir=open_folder)), files)

    return make
