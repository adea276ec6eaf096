"""The page at many jobs: `python bench/viewer.py [--n N] [--repeats R]`.

How long `whyrun view` takes to its first answers and its first screen in Chromium; how long a report takes to be made,
how large it is, and when it is usable. Seconds, with the load of the machine: a browser has no peer to be measured
beside. The state is that of `plan_noop_million` (bench/million.py), with ten jobs to run. Needs Chromium.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

import million
import workload
from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parent.parent / ".bench"
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
ANSWERS = {
    "state": "state",
    "graph": "graph",
    "cells of one job": "cells?job=S0",
    "why of a planned job": "why?id=Job:S0[7]",
    "the run": "run?id=r0001",
    "artifacts, first page": "artifacts?page=0",
}
BUDGETS = {"first screen, from an empty browser": 2.0, "report usable in": 2.0, "report, MB": 10.0}
SETTLED = "document.querySelector('whyrun-app').settled()"


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


def first_screen(browser: Browser, url: str, scripts_end: Callable[[Any], None] | None = None) -> float:
    """Until everything that the first screen shows has arrived and is drawn."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    began = time.perf_counter()
    page.goto(url)
    page.evaluate(SETTLED)
    seconds = time.perf_counter() - began
    text = page.locator("body").inner_text()
    assert "10 to run" in text, text[:500]
    context.close()
    return seconds


def measured(folder: Path, browser: Browser) -> dict[str, float]:
    taken: dict[str, float] = {}
    began = time.perf_counter()
    with served(folder) as url:
        taken["address printed"] = time.perf_counter() - began
        taken |= answers(url)
        taken["first screen, of a running server"] = first_screen(browser, url)
    began = time.perf_counter()
    with served(folder) as url:
        first_screen(browser, url)
        taken["first screen, from an empty browser"] = time.perf_counter() - began
    report = folder / "report.html"
    began = time.perf_counter()
    subprocess.run(_whyrun("report", "-o", str(report)), cwd=folder, check=True, stdout=subprocess.DEVNULL)
    taken["report made in"] = time.perf_counter() - began
    taken["report, MB"] = report.stat().st_size / 1e6
    taken["report usable in"] = first_screen(browser, report.as_uri())
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
            rounds.append(measured(folder, browser))
            say(f"round {len(rounds)} of {asked.repeats}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        browser.close()
    best = {name: min(one[name] for one in rounds) for name in rounds[0]}
    for name, figure in best.items():
        limit = BUDGETS.get(name)
        say(f"  {name:40} {figure:8.2f}{'' if limit is None else f'   budget {limit:g}'}")
    if asked.json is not None:
        asked.json.write_text(json.dumps(best, indent=1))
    return int(any(best[name] > limit for name, limit in BUDGETS.items()))


if __name__ == "__main__":
    sys.exit(main())
