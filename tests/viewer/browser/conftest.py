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


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """All tests that use it run in one process. From then on, nothing else in its thread can start an event loop."""
    with page_checks.chromium() as browser:
        yield browser


@pytest.fixture(scope="session")
def served(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    project = Served(example(tmp_path_factory.mktemp("browser") / "then-and-now"))
    yield project
    project.stop()


@pytest.fixture(scope="session")
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


@pytest.fixture(scope="session")
def open_tab(chromium: Browser, served: Served) -> Iterator[Viewer]:
    """Opening a page takes as long as thirty steps from view to view, so tests that only look share a tab."""
    context = chromium.new_context(viewport={"width": 1280, "height": 800})
    yield Viewer(context.new_page()).start(served.url)
    context.close()


@pytest.fixture
def shown(open_tab: Viewer) -> Iterator[Viewer]:
    """On the first screen, in a tab that other tests have used."""
    yield open_tab.go("graph")
    assert open_tab.wrong == []
