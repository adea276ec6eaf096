"""What other folders of tests have made is used here: the backends of `parity`, the server of `e2b`, the cluster of
`cluster`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
sys.path.extend(str(TESTS / folder) for folder in ("parity", "e2b", "cluster") if str(TESTS / folder) not in sys.path)

from backends_lab import BackendLab, environment_of  # noqa: E402
from parity_lab import BACKENDS  # noqa: E402

from project_lab import Files  # noqa: E402


@pytest.fixture(params=list(BACKENDS))
def backend(request: pytest.FixtureRequest) -> str:
    lacks = BACKENDS[request.param].lacks
    if lacks is not None:
        pytest.skip(lacks)
    return str(request.param)


@pytest.fixture
def on_backend(backend: str, tmp_path: Path) -> Iterator[Callable[..., BackendLab]]:
    """`on_backend(workflow, files)`: a project whose runs use this backend."""
    made = 0
    with ExitStack() as stack:
        environment = stack.enter_context(environment_of(backend, tmp_path))

        def make(workflow: str, files: Files | None = None) -> BackendLab:
            nonlocal made
            made += 1
            root = tmp_path / f"project{made}"
            root.mkdir()
            lab = BackendLab(root, backend, environment)
            lab.write({"workflow.yaml": workflow, **(files or {})})
            return lab

        yield make
