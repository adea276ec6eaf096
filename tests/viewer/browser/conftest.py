"""One Chromium and two real projects with real servers for all tests of this folder. Without Chromium they are skipped."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_lab import DRIVER, ENVIRONMENT, CommandLab

pytest.importorskip("playwright.sync_api")

from page_objects import Viewer
from playwright.sync_api import Browser, sync_playwright

EXAMPLE = Path(__file__).parents[3] / "examples" / "then-and-now"
QUIET = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run",
]  # fmt: skip

# Text that would run where somebody takes it for markup.
HOSTILE = "<img src=x onerror=\"document.title='hacked'\"><script>alert('hacked')</script>"
HOSTILE_WORKFLOW = """
    workflow: hostile
    description: "<script>alert('description')</script>"
    jobs:
      Page:
        uses: python
        with: {call: "code:page"}
        outputs:
          Html: {type: file, path: out/page.html}
          Svg: {type: image, path: out/drawing.svg}
          Json: {type: json, path: out/data.json, leaves: {Name: string}}
      Broken:
        uses: python
        with: {call: "code:broken", page: "${{ jobs.Page.outputs.Json.Name }}"}
        outputs: {Out: {type: json}}
"""
HOSTILE_CODE = f"""
    import sys
    from pathlib import Path

    BAD = {HOSTILE!r}

    def page():
        Path("a.html").write_text("<!doctype html><script>parent.document.title='hacked';alert(1)</script>" + BAD)
        svg = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9" onload="alert(2)"><script>alert(3)</script></svg>'
        Path("b.svg").write_text(svg)
        return {{"Html": Path("a.html"), "Svg": Path("b.svg"), "Json": {{"Name": BAD, BAD: [BAD]}}}}

    def broken(page):
        print(BAD, file=sys.stderr)
        raise ValueError(BAD)
"""


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """For the package, not for the session: while it runs, other tests of this process cannot start an event loop."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("there is no Chromium: `apt-get install chromium`")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=QUIET)
        yield browser
        browser.close()


class Served:
    """A project and its `whyrun view`, as users start it."""

    def __init__(self, lab: CommandLab) -> None:
        self.lab = lab
        self.process = subprocess.Popen(
            [sys.executable, str(DRIVER), "view", "--port", "0", "--no-open"],
            cwd=lab.root, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()  # the first line is the address, token included

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture(scope="package")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The example after three runs, the last of which failed; then a photo is put right and another changed."""
    root = tmp_path_factory.mktemp("browser") / "then-and-now"
    shutil.copytree(EXAMPLE, root, ignore=shutil.ignore_patterns(".whyrun", "out", "__pycache__"))
    lab = CommandLab(root)
    lab.succeed()
    shutil.copy(root / "spare/cleo-later.png", root / "photos/cleo.png")
    lab.succeed()
    lab.write({"photos/ben.png": "not a photo\n"})
    assert lab.run().exit_code == 1
    shutil.copy(root / "spare/ben-rescanned.png", root / "photos/ben.png")
    project = Served(lab)
    yield project
    project.stop()


@pytest.fixture(scope="package")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    lab = CommandLab(tmp_path_factory.mktemp("browser") / "hostile")
    lab.root.mkdir()
    lab.write({"workflow.yaml": HOSTILE_WORKFLOW, "code.py": HOSTILE_CODE})
    assert lab.run().exit_code == 1
    project = Served(lab)
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
