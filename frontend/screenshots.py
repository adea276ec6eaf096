"""Pictures of the page of a real project, in Chromium, to be looked at: `screenshots.py [PROJECT] [-o FOLDER]`.

Without a project it makes the demo's. `--gallery` writes the pictures of the docs instead, in one size.
It needs the developers' packages (playwright, Pillow) and nothing from a network.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image, ImageOps
from playwright.sync_api import Browser, sync_playwright

HERE = Path(__file__).parent
EXAMPLE = HERE.parent / "examples" / "then-and-now"
DOCS = HERE.parent / "docs" / "img"
QUIET = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run",
]  # fmt: skip
SIZES = [(360, 780), (1280, 800), (2560, 1440)]
VIEWS = {
    "graph": "#/graph",
    "why": "#/why/Job%3AThenImage%5B1%5D",
    "job": "#/why/Job%3AThenImage%5B%2A%5D",
    "plan": "#/plan/r0003",
    "artifacts": "#/artifacts",
    "artifact": "#/artifact/Artifact%3AThenImage.Image%5B2%5D",
    "results": "#/results",
    "runs": "#/runs",
    "run": "#/run/r0003",
    "whatif": "#/whatif?assume=%5B%22Input%3ATopic%3Dopera%22%5D",
    "diff": "#/diff/r0001/r0002",
    "lineage": "#/lineage/Artifact%3AMontage.Picture",
}
# A traceback would show a path of the machine that made the picture.
GALLERY = {
    "viewer": ("graph", "light"), "viewer-why": ("why", "dark"), "viewer-compare": ("diff", "light"),
    "viewer-what-if": ("whatif", "light"),
}  # fmt: skip


def demo(folder: Path) -> Path:
    """The example after `make demo`, and one photo turned round since."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(
        ["bash", str(EXAMPLE / "demo.sh"), str(folder)], check=True, stdout=subprocess.DEVNULL,
        env={**os.environ, "PATH": path},
    )  # fmt: skip
    project = folder / "then-and-now"
    photo = project / "photos" / "ben.png"
    with Image.open(photo) as before:
        turned = ImageOps.mirror(before)
    turned.save(photo)
    return project


@contextmanager
def served(project: Path) -> Iterator[str]:
    command = [str(Path(sys.executable).with_name("whyrun")), "view", "--port", "0", "--no-open"]
    with subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def shoot(browser: Browser, url: str, target: Path, view: str, size: tuple[int, int], scheme: Any) -> None:
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
    page = context.new_page()
    page.goto(url)
    page.evaluate(
        """async (hash) => {
            location.hash = hash
            await new Promise((resolve) => setTimeout(resolve, 50))
            await document.querySelector('whyrun-app').settled()
            await Promise.all([...document.images].map((image) => image.decode().catch(() => null)))
        }""",
        VIEWS[view],
    )
    page.screenshot(path=target)
    context.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("project", nargs="?", type=Path, help="a folder with a workflow (default: the demo)")
    parser.add_argument("-o", "--output", type=Path, default=Path("screenshots"))
    parser.add_argument("--gallery", action="store_true", help="write the pictures of the docs")
    asked = parser.parse_args()
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("there is no Chromium: `apt-get install chromium`")
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        project = asked.project or demo(Path(scratch))
        browser = playwright.chromium.launch(executable_path=chromium, args=QUIET)
        with served(project) as url:
            if asked.gallery:
                for name, (view, scheme) in GALLERY.items():
                    target = DOCS / f"{name}.png"
                    shoot(browser, url, target, view, (1280, 800), scheme)
                    with Image.open(target) as shot:
                        plain = shot.convert("RGB")
                    plain.save(target, optimize=True)
            else:
                asked.output.mkdir(parents=True, exist_ok=True)
                for view in VIEWS:
                    for size in SIZES:
                        for scheme in ("light", "dark"):
                            shoot(browser, url, asked.output / f"{view}-{size[0]}-{scheme}.png", view, size, scheme)
        browser.close()


if __name__ == "__main__":
    main()
