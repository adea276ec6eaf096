"""What other folders of tests have made is used here: the places of `parity`, the server of `e2b`, the cluster of
`cluster`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
sys.path.extend(str(TESTS / folder) for folder in ("parity", "e2b", "cluster") if str(TESTS / folder) not in sys.path)

from backends_lab import PlaceLab, surrounded  # noqa: E402
from parity_lab import PLACES  # noqa: E402

from project_lab import Files  # noqa: E402


@pytest.fixture(params=list(PLACES))
def place(request: pytest.FixtureRequest) -> str:
    lacks = PLACES[request.param].lacks
    if lacks is not None:
        pytest.skip(lacks)
    return str(request.param)


@pytest.fixture
def at_place(place: str, tmp_path: Path) -> Iterator[Callable[..., PlaceLab]]:
    """`at_place(workflow, files)`: a project whose runs are at this place."""
    made = 0
    with ExitStack() as stack:
        surroundings = stack.enter_context(surrounded(place, tmp_path))

        def make(workflow: str, files: Files | None = None) -> PlaceLab:
            nonlocal made
            made += 1
            root = tmp_path / f"project{made}"
            root.mkdir()
            lab = PlaceLab(root, place, surroundings)
            lab.write({"workflow.yaml": workflow, **(files or {})})
            return lab

        yield make
