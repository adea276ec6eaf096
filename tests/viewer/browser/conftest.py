"""One Chromium and two served projects for all tests of this folder. Without Chromium they are skipped and counted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from browser_lab import Served, example, hostile_project

import page_checks
from page_objects import Viewer

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """For the package, not for the session: while it runs, other tests of this process cannot start an event loop."""
    with page_checks.chromium() as browser:
        yield browser


@pytest.fixture(scope="package")
def served(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    project = Served(example(tmp_path_factory.mktemp("browser") / "then-and-now"))
    yield project
    project.stop()


@pytest.fixture(scope="package")
def hostile(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    project = Served(hostile_project(tmp_path_factory.mktemp("browser") / "hostile"))
    yield project
    project.stop()


@pytest.fixture
def viewer(chromium: Browser) -> Iterator[Viewer]:
    """A tab with cookies of its own."""
    context = chromium.new_context(viewport={"width": 1280, "height": 800})
    yield Viewer(context.new_page())
    context.close()


@pytest.fixture
def shown(viewer: Viewer, served: Served) -> Iterator[Viewer]:
    yield viewer.start(served.url)
    assert viewer.wrong == []
