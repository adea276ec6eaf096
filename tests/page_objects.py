"""The page as tests see it: what it says about jobs, reasons, totals and runs, without a word about its markup."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from project_lab import PATIENCE

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

# Goes to a view and comes back when everything that it shows has arrived and is drawn.
GO = """async (hash) => {
    const app = document.querySelector('whyrun-app')
    if (location.hash !== hash) {
        const moved = new Promise((resolve) => addEventListener('hashchange', resolve, {once: true}))
        location.hash = hash
        await moved
    }
    await app.settled()
}"""


def address(view: str, *arguments: str) -> str:
    return "#/" + "/".join([view, *(quote(argument, safe="") for argument in arguments)])


class Viewer:
    """One tab. It counts what must never happen: dialogs, errors of scripts, refused styles or scripts."""

    def __init__(self, page: Page) -> None:
        self.page = page
        page.set_default_timeout(PATIENCE * 1000)  # a loaded machine is slow, not wrong
        self.wrong: list[str] = []
        self.asked: list[str] = []
        page.on("dialog", lambda dialog: (self.wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("pageerror", lambda problem: self.wrong.append(f"error: {problem}"))
        page.on(
            "console",
            lambda said: self.wrong.append(f"{said.text} {said.location['url']}") if said.type == "error" else None,
        )
        page.on("request", lambda request: self.asked.append(request.url))

    def start(self, url: str) -> Viewer:
        self.page.goto(url)
        self.settle()
        return self

    def settle(self) -> None:
        self.page.evaluate("document.querySelector('whyrun-app').settled()")

    def go(self, view: str, *arguments: str) -> Viewer:
        self.page.evaluate(GO, address(view, *arguments))
        return self

    def opened(self, view: str, *arguments: str) -> Viewer:
        """As if this address had been given to the browser: the page is loaded again, and reads it then."""
        self.page.evaluate("hash => history.replaceState(null, '', hash)", address(view, *arguments))
        self.page.reload()
        self.settle()
        return self

    @property
    def hash(self) -> str:
        return str(self.page.evaluate("location.hash"))

    # -- what the page says --

    def said(self) -> str:
        return self.page.locator("[data-said]").inner_text()

    def main_text(self) -> str:
        return self.page.locator("#main").inner_text()

    def totals(self) -> dict[str, int]:
        """State → count, from the line above all views."""
        return self._counts(self.page.locator("[data-headline]"))

    def shown_totals(self) -> dict[str, int]:
        """State → count, as the view itself says (past plans, what-if)."""
        return self._counts(self.page.locator("#main"))

    def _counts(self, part: Locator) -> dict[str, int]:
        counted = part.locator("[data-total]").evaluate_all(
            "all => all.map(e => [e.dataset.total, Number(e.dataset.count)])"
        )
        return {name: count for name, count in counted if name != "failed"}

    def why(self, job: str) -> dict[str, Any]:
        """The state of a job, its reason codes, and the IDs that its reasons name."""
        self.go("why", job)
        shown = self.page.locator("article.why")
        reasons = shown.locator(".reason").evaluate_all(
            "all => all.map(e => ({code: e.dataset.code, job: e.dataset.id ?? null,"
            " names: [...e.querySelectorAll('a.id')].map(a => a.dataset.id)}))"
        )
        return {"id": shown.get_attribute("data-id"), "state": shown.get_attribute("data-state"), "reasons": reasons}

    def boxes(self) -> dict[str, str]:
        """Job of the graph → its loudest state."""
        boxes = self.page.locator("wr-graph .box")
        return dict(boxes.evaluate_all("all => all.map(e => [e.dataset.id, e.dataset.state])"))

    def focused_edges(self) -> set[tuple[str, str]]:
        lines = self.page.locator("wr-graph path.line.focus")
        return {(a, b) for a, b in lines.evaluate_all("all => all.map(e => [e.dataset.from, e.dataset.to])")}

    def digest(self, run: str) -> str | None:
        self.go("plan", run)
        return self.page.locator("[data-digest]").get_attribute("data-digest")

    def differences(self, old: str, new: str) -> dict[str, int]:
        self.go("diff", old, new)
        named = self.page.locator("[data-differs]")
        return dict(named.evaluate_all("all => all.map(e => [e.dataset.differs, Number(e.dataset.count)])"))

    def command(self) -> str | None:
        lines = self.page.locator("#main .command code")
        return lines.last.inner_text() if lines.count() else None

    def ids(self, selector: str) -> list[str]:
        return list(self.page.locator(selector).evaluate_all("all => all.map(e => e.dataset.id)"))

    def log_lines(self) -> list[str]:
        """IDs of the lines of the log that arrived since the page was opened."""
        return list(self.page.evaluate("document.querySelector('whyrun-app').ui.lines.map(line => line.id)"))

    def until(self, condition: str) -> None:
        """Wait until this function of the application is true, however long it takes."""
        self.page.evaluate(f"""async () => {{
            const app = document.querySelector('whyrun-app')
            while (!({condition})(app)) await new Promise((resolve) => setTimeout(resolve, 20))
        }}""")


def external(requests: list[str]) -> Iterator[str]:
    """Requests that leave the file."""
    return (url for url in requests if not url.startswith(("file:", "blob:", "data:", "about:")))
