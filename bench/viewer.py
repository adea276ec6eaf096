"""The page at many jobs: `python bench/viewer.py [--n N] [--repeats R]`.

How long `whyrun view` takes to its first answers and its first screen in Chromium; how fast the graph and the grid of
instances move; how long a report takes to be made, how large it is, and when it is usable. What the page says of ten
jobs to run is checked against `explain`. Seconds, with the load of the machine: a browser has no peer to be measured
beside. The state is that of `plan_noop_million` (bench/million.py), with ten jobs to run, and a second project of one
job with so many instances. Needs Chromium.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.parse import quote

import million
import workload
from playwright.sync_api import Browser, Page, sync_playwright

import whyrun.viewer

ROOT = Path(__file__).resolve().parent.parent / ".bench"
BUILT = Path(whyrun.viewer.__file__).parent / "assets"
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
ANSWERS = {
    "state": "state",
    "graph": "graph",
    "cells of one job": "cells?job=S0",
    "why of a planned job": "why?id=Job:S0[7]",
    "the run": "run?id=r0001",
    "artifacts, first page": "artifacts?page=0",
}
START = "from the start of `whyrun view` to its first answer"
PAINT, GRID_PAINT = "first paint of the page", "grid of all instances drawn in"
PAN, GRID_PAN = "panning the graph, a frame", "panning the grid, a frame"
USABLE, SIZE, ASSETS = "report usable in", "report, MB", "assets of the page, MB"
BUDGETS = {
    PAINT: 1.0, GRID_PAINT: 1.0, PAN: 0.05, GRID_PAN: 0.05, USABLE: 2.0, SIZE: 10.0, ASSETS: 0.3,
    "first screen, from an empty browser": 2.0,
}  # fmt: skip
ANSWERED = {10_000: 0.5, 100_000: 2.0}  # jobs → the budget of START
SETTLED = "document.querySelector('whyrun-app').settled()"
FIRST_PAINT = "performance.getEntriesByType('paint').find((one) => one.name === 'first-contentful-paint').startTime"
WATCH_FRAMES = """() => {
    window.frames = []
    let last = performance.now()
    const frame = (now) => { window.frames.push(now - last); last = now; window.watch = requestAnimationFrame(frame) }
    window.watch = requestAnimationFrame(frame)
}"""
FRAMES = "(cancelAnimationFrame(window.watch), window.frames.slice(1))"
WIDE = """\
workflow: wide
inputs: {{Count: {{type: integer, default: {jobs}}}}}
loops: {{each: {{count: inputs.Count}}}}
jobs:
  Wide: {{for: [each], uses: shell, with: {{run: "true"}}, outputs: {{T: {{type: text}}}}}}
"""


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def project(jobs: int) -> Path:
    """Made once: delete the folder to make it anew."""
    folder = ROOT / f"viewer-{jobs}"
    if not (folder / ".whyrun").is_dir():
        chains = jobs // workload.DEPTH
        million.make_files(folder, chains)
        million.write_log(folder)
    (folder / "src" / "000007.txt").write_text(f"another source at {time.time()}\n")
    return folder


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The printed address of a server that has just been started."""
    with subprocess.Popen(_whyrun("view", "--port", "0", "--no-open"), cwd=folder, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().decode().strip()
        finally:
            server.terminate()


def _whyrun(*words: str) -> list[str]:
    return [str(Path(sys.executable).with_name("whyrun")), *words]


def answers(url: str) -> dict[str, float]:
    """Seconds of each answer, of a server that has its state. The first one also needs the state to be made."""
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    began = time.perf_counter()
    opener.open(url).read()
    at = url.partition("?")[0]
    opener.open(f"{at}api/state").read()
    taken = {"first `state`, with the plan": time.perf_counter() - began}
    for name, request in ANSWERS.items():
        began = time.perf_counter()
        opener.open(f"{at}api/{request}".replace("[", "%5B").replace("]", "%5D")).read()
        taken[name] = time.perf_counter() - began
    return taken


@contextmanager
def opened(browser: Browser, url: str) -> Iterator[tuple[Page, float]]:
    """A page, and the seconds until everything that its first screen shows has arrived and is drawn."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    began = time.perf_counter()
    page.goto(url)
    page.evaluate(SETTLED)
    yield page, time.perf_counter() - began
    context.close()


def first_screen(browser: Browser, url: str) -> float:
    with opened(browser, url) as (page, seconds):
        text = page.locator("body").inner_text()
        assert "10 to run" in text, text[:500]
    return seconds


def frame_seconds(page: Page, part: str) -> float:
    """How long a frame takes while a hand drags a part of the page: 19 of 20 take less."""
    box = page.locator(part).bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    for _ in range(6):
        page.mouse.wheel(0, -200)  # closer, so that there is something to be moved
    page.mouse.down()
    page.evaluate(WATCH_FRAMES)
    page.mouse.move(x + 200, y + 100, steps=90)
    frames = sorted(page.evaluate(FRAMES))
    page.mouse.up()
    assert len(frames) > 20, frames
    return float(frames[len(frames) * 19 // 20]) / 1000


def check_reasons(page: Page, folder: Path) -> None:
    """The page says of each job to run what `explain` says, and draws the edges of the plan."""
    told = subprocess.run(_whyrun("explain", "--json"), cwd=folder, check=True, capture_output=True).stdout
    jobs = [job for layer in json.loads(told)["layers"] for job in layer["jobs"]]
    assert len(jobs) == workload.DEPTH
    for job in jobs:
        page.evaluate(f"location.hash = '#/why/{quote(job['id'], safe='')}'")
        page.wait_for_selector(f"article.why[data-id='{job['id']}']")
        page.evaluate(SETTLED)
        codes = page.locator("article.why .reason").evaluate_all("all => all.map(e => e.dataset.code)")
        assert codes == [reason["code"] for reason in job["reasons"]], job["id"]
        lines = page.locator("wr-graph path.line.focus").evaluate_all(
            "all => all.map(e => [e.dataset.from, e.dataset.to])"
        )
        stage = int(job["id"].removeprefix("Job:S").partition("[")[0])
        near = [(a, a + 1) for a in (stage - 1, stage) if 0 <= a < workload.DEPTH - 1]
        assert sorted(lines) == [[f"S{a}", f"S{b}"] for a, b in near], lines


def wide(jobs: int) -> Path:
    """One job with so many instances, before its first run."""
    folder = ROOT / f"viewer-wide-{jobs}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "workflow.yaml").write_text(WIDE.format(jobs=jobs))
    return folder


def grid(browser: Browser, jobs: int) -> dict[str, float]:
    """All instances of one job as cells."""
    with served(wide(jobs)) as url, opened(browser, url) as (page, _):
        began = time.perf_counter()
        page.evaluate("location.hash = '#/why/Job%3AWide%5B%2A%5D'")
        page.wait_for_selector("wr-grid canvas")
        page.evaluate(SETTLED)
        return {GRID_PAINT: time.perf_counter() - began, GRID_PAN: frame_seconds(page, "wr-grid canvas")}


def measured(folder: Path, browser: Browser, jobs: int) -> dict[str, float]:
    taken: dict[str, float] = {ASSETS: sum(path.stat().st_size for path in BUILT.iterdir()) / 1e6}
    began = time.perf_counter()
    with served(folder) as url:
        taken["address printed"] = time.perf_counter() - began
        taken |= answers(url)
        taken[START] = taken["address printed"] + taken["first `state`, with the plan"]
        with opened(browser, url) as (page, seconds):
            taken["first screen, of a running server"] = seconds
            taken[PAINT] = float(page.evaluate(FIRST_PAINT)) / 1000
            taken[PAN] = frame_seconds(page, "wr-graph")
            check_reasons(page, folder)
    taken |= grid(browser, jobs)
    began = time.perf_counter()
    with served(folder) as url:
        first_screen(browser, url)
        taken["first screen, from an empty browser"] = time.perf_counter() - began
    report = folder / "report.html"
    began = time.perf_counter()
    subprocess.run(_whyrun("report", "-o", str(report)), cwd=folder, check=True, stdout=subprocess.DEVNULL)
    taken["report made in"] = time.perf_counter() - began
    taken[SIZE] = report.stat().st_size / 1e6
    taken[USABLE] = first_screen(browser, report.as_uri())
    report.unlink()
    return taken


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=100_000, help="jobs (default 100,000)")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="also write the figures into this file")
    asked = parser.parse_args()
    chromium = shutil.which("chromium")
    if chromium is None:
        say("there is no Chromium: `apt-get install chromium`")
        return 2
    gc.disable()  # as the CLI does, for `million`
    folder = project(asked.n)
    rounds: list[dict[str, float]] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=QUIET)
        for _ in range(asked.repeats):
            rounds.append(measured(folder, browser, asked.n))
            say(f"round {len(rounds)} of {asked.repeats}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        browser.close()
    best = {name: min(one[name] for one in rounds) for name in rounds[0]}
    budgets = BUDGETS | ({START: ANSWERED[asked.n]} if asked.n in ANSWERED else {})
    for name, figure in best.items():
        limit = budgets.get(name)
        say(f"  {name:52} {figure:8.3f}{'' if limit is None else f'   budget {limit:g}'}")
    if asked.json is not None:
        asked.json.write_text(json.dumps(best, indent=1))
    return int(any(best[name] > limit for name, limit in budgets.items()))


if __name__ == "__main__":
    sys.exit(main())
