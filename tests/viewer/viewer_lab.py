"""A real project with a history, its state as the viewer reads it, and its server behind its guard, without a port."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

import httpx

from project_lab import Lab
from whyrun.project import Project
from whyrun.viewer.current import CurrentState, Params, StateSource
from whyrun.viewer.server import Access, application, known_hosts
from whyrun.viewer.views import Views

# A script, a loop with an image, a condition, an import, values and a failing job: something for each view.
WORKFLOW = """
    workflow: stories
    description: Tales of <b>pictures</b>.
    inputs:
      Topic: {type: string, default: cinema}
      Photos: {type: "file[]", default: photos/*.txt}
      Notes: {type: text, default: notes.txt}
      Fails: {type: boolean, default: false}
    loops:
      photo: {each: inputs.Photos}
      seed: {count: 3}
    jobs:
      Script:
        uses: python
        with: {call: "story:script", topic: "${{ inputs.Topic }}", notes: "${{ inputs.Notes }}"}
        outputs:
          Story: {type: json, path: out/story.json, leaves: {Long: boolean, Words: integer}}
      Print:
        for: [photo]
        uses: python
        with: {call: "story:copy", source: "${{ inputs.Photos[photo] }}", topic: "${{ inputs.Topic }}"}
        outputs: {Copy: {type: file, path: "out/copy-${{ photo }}.txt"}}
      Epilogue:
        if: ${{ jobs.Script.outputs.Story.Long }}
        uses: python
        with: {call: "story:copy", source: "${{ jobs.Print.outputs.Copy[0] }}", topic: end}
        outputs: {Copy: {type: file, path: out/epilogue.html}}
      Fit:
        for: [seed]
        uses: python
        with: {call: "story:fit", seed: "${{ seed }}", story: "${{ jobs.Script.outputs.Story }}"}
        outputs: {Score: {type: number}}
      Check:
        uses: python
        with: {call: "story:check", fails: "${{ inputs.Fails }}", scores: "${{ jobs.Fit.outputs.Score[:] }}"}
        outputs: {Report: {type: text, path: out/report.md}}
"""
CODE = """
    import sys
    from pathlib import Path

    def script(topic, notes):
        words = len(Path(notes).read_text().split())
        return {"Story": {"Title": topic, "Long": topic == "opera", "Words": words}}

    def copy(source, topic):
        Path("copy.out").write_text(f"<b>{topic}</b> " + Path(source).read_text())
        return {"Copy": Path("copy.out")}

    def fit(seed, story):
        return {"Score": seed / 2}

    def check(fails, scores):
        print("checking", scores)
        print("<script>alert(1)</script>", file=sys.stderr)
        if fails:
            raise ValueError("<script>alert('error')</script>")
        Path("report.out").write_text("# fine\\n")
        return {"Report": Path("report.out")}
"""
FILES = {
    "story.py": CODE,
    "photos/a.txt": "Ada\n",
    "photos/b.txt": "Ben\n",
    "notes.txt": "one\ntwo\nthree\n",
}


def open_state(lab: Lab, at: str | None = None) -> CurrentState:
    state = StateSource(lambda: Project.open(lab.file), at=at).state()
    assert isinstance(state, CurrentState), state.problems
    return state


def view(state: Any, name: str, **parameters: str) -> dict[str, Any]:
    """The answer to a view, as the page gets it."""
    return json.loads(json.dumps(Views(("explain",)).answer(state, name, Params.of(**parameters))))


T = TypeVar("T")


def result_of(coroutine: Coroutine[Any, Any, T]) -> T:
    """What it returns, from an event loop in a thread of its own.

    After a browser test, Playwright keeps a running loop in the main thread, where no second one can start.
    """
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


@dataclass
class Client:
    """A browser that has exchanged the token; `plain` is one that has not."""

    lab: Lab
    access: Access
    plain: httpx.AsyncClient
    app: Any
    pages: Any
    source: StateSource

    @property
    def cookies(self) -> dict[str, str]:
        return {self.access.cookie: self.access.key}

    async def get(self, path: str, *, headers: dict[str, str] | None = None, **parameters: str) -> httpx.Response:
        query = f"?{urlencode(parameters)}" if parameters else ""
        return await self.raw(f"{self.access.path}{path}{query}", headers=headers)

    async def raw(
        self, path: str, *, headers: dict[str, str] | None = None, method: str = "GET", cookies: bool = True
    ) -> httpx.Response:
        sent = {"host": "127.0.0.1:7780", **(headers or {})}
        if cookies:
            sent.setdefault("cookie", "; ".join(f"{name}={value}" for name, value in self.cookies.items()))
        return await self.plain.request(method, path, headers=sent)


def client_of(lab: Lab, *allowed: str) -> Client:
    source = StateSource(lambda: Project.open(lab.file), title="stories")
    access = Access(7780, known_hosts("127.0.0.1", allowed))
    app, pages = application(source, Views(("explain",)), access)
    plain = httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1:7780")
    return Client(lab, access, plain, app, pages, source)


def made(root: Path) -> Lab:
    """Three runs: all of it, a changed photo, a failure."""
    root.mkdir()
    lab = Lab(root).write({"workflow.yaml": WORKFLOW, **FILES})
    lab.succeed()
    lab.write({"photos/b.txt": "Ben, later\n", "notes.txt": "one\n2\nthree\n"})
    lab.succeed()
    assert lab.run(sets=["Fails=true"]).exit_code == 1
    lab.write({"photos/a.txt": "Ada, later\n"})
    return lab
