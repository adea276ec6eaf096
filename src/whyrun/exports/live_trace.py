"""The trace of a run while it goes on: each attempt is sent to an OTLP receiver when it has ended, the run at its end.

The log is the source here, too: a thread reads what the run has appended, so the spans are those that `whyrun export
otel` makes later. A receiver that does not answer never delays a step and never fails a run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from whyrun.errors import error
from whyrun.exports.formats.otel import SPANS, attempt_span, request, root_span
from whyrun.exports.reading import cleaner_of, plan_of
from whyrun.exports.record import Folding, RunRecord
from whyrun.exports.registry import known_secrets_of
from whyrun.log import events as ev

if TYPE_CHECKING:
    from whyrun.log.runs import RunRef
    from whyrun.project import Project

POLL = 1.0  # seconds
TIMEOUT = 5.0  # of a request
TRIES = 3  # at the end of the run
MOST_WAITING = 8192  # spans that a receiver has not taken yet; further ones are dropped and counted
PATH = "/v1/traces"


def endpoint_of(url: str) -> str:
    """`http://host:4318` → with the path of traces. USAGE if it is no such URL."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise error("USAGE", f"`--otel {url}` is no URL of a receiver", hint="write `http://localhost:4318`")
    return url if parts.path not in ("", "/") else url.rstrip("/") + PATH


class LiveTrace:
    """Begin before the run, `finish` after it. `note` tells what was not sent."""

    def __init__(self, project: Project, endpoint: str, note: Callable[[str], None]) -> None:
        self._project, self._endpoint, self._note = project, endpoint, note
        self._before = {run.name for run in project.state.runs()}
        self._reader: _Reader | None = None
        self._waiting: list[bytes] = []
        self._dropped, self._sent = 0, 0
        self._failure = ""
        self._stop = threading.Event()
        self._secrets = known_secrets_of(project)
        self._thread = threading.Thread(target=self._work, name="whyrun-otel", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        self._stop.set()
        self._thread.join()
        lost = self._dropped + len(self._waiting)
        if lost:
            why = f": {self._failure}" if self._failure else ""
            self._note(f"{lost} of {lost + self._sent} spans were not sent to {self._endpoint}{why}; "
                       "`whyrun export otel` has them all")  # fmt: skip

    def _work(self) -> None:
        try:
            while not self._stop.wait(POLL):
                self._collect(at_end=False)
                self._send()
            self._collect(at_end=True)
            any(self._send() for _ in range(TRIES))
        except Exception as problem:  # a trace that cannot be made is no reason to fail a run
            self._failure = f"{type(problem).__name__}: {problem}"
            self._dropped += 1

    def _collect(self, *, at_end: bool) -> None:
        if self._reader is None:
            run = next((run for run in self._project.state.runs() if run.name not in self._before), None)
            if run is None:
                return
            self._reader = _Reader(self._project, run)
        self._waiting += self._reader.spans(at_end=at_end)
        too_many = max(0, len(self._waiting) - MOST_WAITING)
        self._dropped += too_many
        self._waiting = self._waiting[too_many:]

    def _send(self) -> bool:
        """Whether nothing is left. What the receiver did not take waits for the next look."""
        while self._waiting and self._reader is not None:
            some = self._waiting[:SPANS]
            body = request(self._reader.record, some)
            if self._secrets and self._secrets.found_in(body):
                self._failure = "a secret of this workflow is in them"
                self._dropped += len(some)
            elif not self._post(body):
                return False
            else:
                self._sent += len(some)
            del self._waiting[:SPANS]
        return True

    def _post(self, body: bytes) -> bool:
        from urllib.request import ProxyHandler, Request, build_opener

        is_here = urlsplit(self._endpoint).hostname in ("localhost", "127.0.0.1", "::1")
        opener = build_opener(ProxyHandler({})) if is_here else build_opener()
        asked = Request(self._endpoint, body, {"Content-Type": "application/x-protobuf"}, method="POST")
        try:
            with opener.open(asked, timeout=TIMEOUT) as answer:
                answer.read()
        except OSError as problem:  # also an answer other than 2xx
            self._failure = str(problem)
            return False
        return True


class _Reader:
    """Folds what a run has appended since the last look."""

    def __init__(self, project: Project, run: RunRef) -> None:
        self._project, self._run = project, run
        self.record = RunRecord(project.state.workflow, run.name)
        self._folding: Folding | None = None
        self._computed: list[str] = []
        self._offset = 0
        self._sent: set[tuple[str, int]] = set()

    def spans(self, *, at_end: bool) -> list[bytes]:
        """Those of attempts that have ended since; at the end also the others, and the run."""
        for event in self._new_events():
            if isinstance(event, ev.RunStart):
                self._folding = Folding(self.record, cleaner_of(self._project, event.host))
            if self._folding is not None:
                self._folding.add(event)
            if isinstance(event, ev.PlanComputed) and self._folding is not None:
                self._computed.append(event.plan_sha256)  # of the plan, then of each stage
                self._folding.add_plan(plan_of(self._run, self._computed) or {})
        if self._folding is None:
            return []
        if at_end:
            self._folding.finished(None, is_running=False)
        found = []
        for step, attempt in self.record.attempts():
            key = step.id, attempt.number
            if key not in self._sent and (at_end or attempt.end is not None):
                self._sent.add(key)
                found.append(attempt_span(self.record, step, attempt))
        return [*found, root_span(self.record)] if at_end else found

    def _new_events(self) -> list[ev.AnyEvent]:
        import msgspec

        with open(self._run.events_path, "rb") as file:
            file.seek(self._offset)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        decode = msgspec.json.Decoder(ev.AnyEvent).decode
        return [decode(line) for line in whole.split(b"\n") if line]
