"""One Chromium and two served projects for all tests of this folder. Without Chromium they are skipped and counted."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from browser_lab import Served, example, hostile_project
from page_objects import Viewer

from project_lab import PATIENCE

if TYPE_CHECKING:
    from playwright.sync_api import Browser

QUIET = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run",
]  # fmt: skip


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """For the package, not for the session: while it runs, other tests of this process cannot start an event loop."""
    playwright_api = pytest.importorskip("playwright.sync_api")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("there is no Chromium: `apt-get install chromium`")
    with playwright_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=QUIET, timeout=PATIENCE * 1000)
        yield browser
        browser.close()


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
