"""The page of any project, held against what the engine itself says: every job, every plan, every dataset.

`check_views` asks for the views, `Opened` reads the parts of a report, and `check_report` opens it in Chromium.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from page_objects import Viewer
from project_lab import PATIENCE, Lab
from whyrun.planning.answers.explain import explain_json
from whyrun.project import Project
from whyrun.viewer.current import Params, load_state
from whyrun.viewer.report import ReportOptions, make_report, write_report
from whyrun.viewer.views import Views

if TYPE_CHECKING:
    from playwright.sync_api import Browser

QUIET = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run",
]  # fmt: skip


@contextmanager
def chromium() -> Iterator[Browser]:
    """While it runs, nothing else of this thread can start an event loop. Without Chromium the test is skipped."""
    playwright_api = pytest.importorskip("playwright.sync_api")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("there is no Chromium: `apt-get install chromium`")
    with playwright_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=QUIET, timeout=PATIENCE * 1000)
        yield browser
        browser.close()


def explained(project: Project) -> dict[str, list[str]]:
    """By job that is not clean: the codes of its reasons, as `explain --json` lists them."""
    body = explain_json(load_state(project).found.plan)
    jobs = [job for layer in body["layers"] for job in layer["jobs"]] + body["deferred"]
    return {job["id"]: [reason["code"] for reason in job["reasons"]] for job in jobs}


def check_views(lab: Lab) -> None:
    """Every job, artifact, plan and composition of a project: the views say what the engine and the evidence say."""
    state, views = load_state(lab.opened()), Views()

    def view(name: str, **parameters: str) -> Any:
        return json.loads(json.dumps(views.answer(state, name, Params.of(**parameters))))

    reasons = explained(lab.opened())
    inactive = {job.id for job in state.found.plan.jobs if job.state == "inactive"}
    for id_ in state.graph.node_of:
        found = view("why", id=id_)
        (answer, *_) = found["answer"]["jobs"]
        assert found["explain"] is None or found["explain"]["id"] == id_
        if id_ in inactive:
            assert answer["state"] == "inactive"
            assert answer["because"]
        else:
            assert [reason["code"] for reason in answer.get("reasons", ())] == reasons.get(id_, [])
            assert (answer["state"] == "clean") == (id_ not in reasons)
    for row in view("artifacts")["rows"]:
        if row["state"] == "available":
            shown = view("artifact", id=row["id"])["preview"]
            assert shown["sha256"] == row["sha256"] == sha256_of(lab.blob(row["sha256"]))
    for run in lab.runs():
        plan = json.loads((lab.run_folder(run) / "plan.json").read_bytes())
        found = view("plan", run=run)
        assert (found["digest"], found["checked"], found["totals"]) == (plan["digest"], True, plan["totals"])
        summary = lab.run_folder(run) / "composition_summary.json"
        if summary.exists():
            assert view("datasets", run=run)["answer"] == json.loads(summary.read_bytes())


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Opened:
    """A report as the page reads it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.elements = dict(re.findall(r'<script type="text/plain" id="(\w+)">([^<]*)</script>', text))
        self.first = self.part("m0")
        self.index = self.first.pop("index")

    def part(self, name: str) -> dict[str, Any]:
        return json.loads(gzip.decompress(base64.b64decode(self.elements[name])))

    def get(self, member: str) -> Any:
        if member in self.first:
            return self.first[member]
        return self.part(self.index["members"]["others"][member])[member]

    def whys(self, job: str) -> list[Any]:
        parts = self.index["members"]["why"][job]
        return [one for n, part in enumerate(parts) for one in self.part(part)[f"why/{job}/{n}"]]

    def bytes(self, sha256: str) -> bytes:
        return base64.b64decode(self.elements[self.index["blobs"][sha256]["element"]])


def check_report(lab: Lab, file: Path, then: Callable[[Viewer], None] = lambda _: None) -> None:
    """The report of a project, in Chromium from disk: what it says, then what `then` checks.

    It runs in a thread of its own. A thread has one Playwright at a time, and this one may have that of another test.
    """
    with ThreadPoolExecutor(1) as thread:
        thread.submit(_check_report, lab, file, then).result()


def _check_report(lab: Lab, file: Path, then: Callable[[Viewer], None]) -> None:
    write_report(str(file), make_report(load_state(lab.opened()), Views(), ReportOptions()))
    with chromium() as browser:
        viewer = Viewer(browser.new_context(viewport={"width": 1280, "height": 800}).new_page()).start(file.as_uri())
        check_page(viewer, lab)
        then(viewer)
        assert [url for url in viewer.asked if not url.startswith(("file:", "blob:", "data:"))] == []
        assert viewer.wrong == []


def check_page(viewer: Viewer, lab: Lab) -> None:
    """On the page itself: the reasons of every job that is not clean, one clean job of each name, and every digest."""
    project = lab.opened()
    wanted = explained(project)
    plan = load_state(project).found.plan
    for table in project.graph.tables:
        clean = next((id_ for id_ in table.job_ids() if id_ not in {job.id for job in plan.jobs}), None)
        wanted |= {clean: []} if clean else {}
    assert {id_: [reason["code"] for reason in viewer.why(id_)["reasons"]] for id_ in wanted} == wanted
    for run in lab.runs():
        assert viewer.digest(run) == json.loads((lab.run_folder(run) / "plan.json").read_bytes())["digest"]
