"""Hostile artifacts, errors and names are text; and everybody can read the page."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from browser_lab import HOSTILE, Served

from page_objects import Viewer

AXE = Path(__file__).parents[3] / "frontend" / "node_modules" / "axe-core" / "axe.min.js"
VIEWS = [
    ("graph",), ("why", "Job:ThenImage[1]"), ("why", "Job:ThenImage[*]"), ("plan", "r0003"), ("run", "r0003"),
    ("runs",), ("artifacts",), ("artifact", "Artifact:Script.Story"), ("diff", "r0001", "r0002"), ("whatif",),
]  # fmt: skip


def test_hostile_text_is_text(viewer: Viewer, hostile: Served) -> None:
    viewer.start(hostile.url)
    for view in (("graph",), ("why", "Job:Broken"), ("run", "r0001"), ("artifact", "Artifact:Page.Json")):
        viewer.go(*view)
        viewer.page.locator("details").evaluate_all("all => all.forEach(e => { e.open = true })")
        assert HOSTILE in viewer.main_text(), view
    assert "hacked" not in viewer.page.title()
    viewer.go("artifact", "Artifact:Page.Svg")
    assert viewer.page.locator(".preview img").count() == 1
    assert viewer.page.locator("#main svg script, #main object, #main embed").count() == 0
    assert viewer.wrong == []


def test_html_runs_nothing(viewer: Viewer, hostile: Served) -> None:
    """It is shown in a sandboxed frame. The browser says that it blocked its scripts; nothing else goes wrong."""
    viewer.start(hostile.url).go("artifact", "Artifact:Page.Html")
    frame = viewer.page.locator("iframe")
    assert frame.get_attribute("sandbox") == ""
    viewer.page.frames[1].wait_for_load_state()
    assert "hacked" not in viewer.page.title()
    assert not [line for line in viewer.wrong if line.startswith(("dialog", "error:"))]


def test_an_address_holds_any_id(viewer: Viewer, hostile: Served) -> None:
    """Opened directly, as somebody does who was given it: encoded once, decoded once."""
    viewer.start(hostile.url)
    odd = next(table for table in hostile.lab.opened().graph.tables if table.name == "Odd")
    for job, artifact, (key,) in zip(odd.job_ids(), odd.artifact_ids(0), odd.rows, strict=True):
        assert viewer.opened("why", job).page.locator("article.why").get_attribute("data-id") == job
        assert viewer.go("artifact", artifact).page.locator(".preview pre").inner_text().strip() == key
    assert viewer.opened("artifact", artifact).page.locator(".preview pre").inner_text().strip() == key
    assert viewer.wrong == []


def test_sound_has_a_player(viewer: Viewer, hostile: Served) -> None:
    """Its bytes come in ranges from the server, and out of the file in a report."""
    report = hostile.lab.root / "report.html"
    assert hostile.lab.whyrun("report", "-o", str(report)).code == 0
    for url in (hostile.url, report.as_uri()):
        viewer.start(url).go("artifact", "Artifact:Page.Sound")
        player = viewer.page.locator(".preview audio")
        seconds = player.evaluate(
            "async audio => { if (!(audio.readyState > 0)) await new Promise((resolve) =>"
            " audio.addEventListener('loadedmetadata', resolve, {once: true})); return audio.duration }"
        )
        assert seconds == 0.5
    assert viewer.wrong == []


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed: `make frontend` does")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(shown: Viewer, scheme: Literal["light", "dark"]) -> None:
    shown.page.emulate_media(color_scheme=scheme)
    shown.page.evaluate(AXE.read_text())
    found = {}
    for view in VIEWS if scheme == "light" else VIEWS[:2]:
        shown.go(*view)
        violations = shown.page.evaluate(
            "axe.run(document, {resultTypes: ['violations']}).then(r => r.violations.map(v =>"
            " [v.id, ...v.nodes.slice(0, 3).map(n => n.html.slice(0, 160) + ' ' + (n.any[0]?.message ?? ''))]))"
        )
        if violations:
            found[view] = violations
    shown.page.emulate_media(color_scheme="null")
    assert found == {}


@pytest.mark.parametrize("width", [360, 3840])
def test_nothing_is_wider_than_the_screen(shown: Viewer, width: int) -> None:
    usual = shown.page.viewport_size
    assert usual is not None
    shown.page.set_viewport_size({"width": width, "height": 800})
    wide = {}
    for view in VIEWS:
        shown.go(*view)
        wide[view] = shown.page.evaluate("document.documentElement.scrollWidth")
    shown.page.set_viewport_size(usual)
    assert {view: pixels for view, pixels in wide.items() if pixels > width} == {}
