"""`http/json`: a request to a service, and its answer as JSON; where it takes long, submitted once and asked for.

What was paid for is not paid for twice: the id of a submitted request is in the log before the wait for it starts, and
a later attempt asks for that request instead of making another.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote, urljoin

import msgspec

from whyrun.actions.base import Action, WorkerContext
from whyrun.actions.builtin.http_exchange import (
    Answer,
    AnswerLost,
    Exchange,
    Limits,
    NoConnection,
    Request,
    Stopped,
    origin,
    shown,
)
from whyrun.actions.builtin.http_params import ID, Params, Poll, Wait, seconds
from whyrun.actions.builtin.http_rules import (
    MOVED,
    NotInAnswer,
    PollTimedOut,
    RedirectRefused,
    RequestFailed,
    RequestGone,
    UnexpectedStatus,
    absolute,
    is_good,
    matches,
    parsed,
    place,
    plain,
    redirected,
    retry_after,
    with_query,
)
from whyrun.actions.builtin.http_submission import RequestId, Submission
from whyrun.actions.builtin.json_pointer import ABSENT, value_at

_SLICE = 0.1  # seconds between two looks at whether the step should stop
_REPEATABLE = frozenset({"GET", "PUT", "DELETE"})  # by HTTP's own rules: twice does what once does
_TOLD = {"level": "summary"}  # a task that is told at the usual level of detail
_LONG = 1.0  # seconds of a wait that somebody wonders about
_GONE = frozenset({404, 410})
_IN_PROGRESS = frozenset({409, 425})  # what servers say of a key whose first request still runs


class HttpJson(Action):
    """Ask a web service for JSON, with retries; or submit a request once and poll until it is done."""

    name = "http/json"
    version = "1"
    outputs: ClassVar[Mapping[str, str]] = {"Answer": "json", "Body": "file"}
    Params = Params
    example = """\
jobs:
  Draw:
    uses: http/json
    secrets: [API_TOKEN]
    with:
      url: https://api.example.com/v1/images
      headers: {Authorization: "Bearer ${{ secrets.API_TOKEN }}"}
      json: {prompt: "${{ inputs.Prompt }}"}
      poll: {id: /id, url: "https://api.example.com/v1/images/{id}", until: {/status: done}, fail: {/status: failed}}
      download: /image_url
    outputs: {Answer: {type: json}, Body: {type: image, path: out/image.png}}
"""

    def run(
        self, inputs: dict[str, Any], mode: str = "dry-run", context: Any = None, logger: Any = None
    ) -> dict[str, Any] | None:
        del inputs, mode, logger
        return Call(self.params, context).outputs()


class Call:
    """One step's conversation with a service."""

    def __init__(self, params: Params, context: WorkerContext) -> None:
        self.params, self.context = params, context
        self.submission = Submission(params, context)
        self.limits = Limits(seconds(params.connect_timeout), seconds(params.timeout), params.max_bytes)
        self.body_path = context.output("Body") if "Body" in context.output_names else None
        self.wants_json = bool(
            "Answer" in context.output_names or params.result or params.download is not None or params.poll
        )
        if params.download is not None and self.body_path is None:
            raise ValueError("`download` fills the output `Body`, which the job does not declare")

    def outputs(self) -> dict[str, Any]:
        params = self.params
        if not self.wants_json:
            self.submitted(sink=self.body_path)
            return {}
        if params.poll is not None:
            return self.taken_from(self.polled(params.poll))
        answer = self.submission.answer_to_others() if self.is_paid else None
        if answer is not None:
            self.context.task("EXECUTES", "takes the answer that an attempt with other parameters received", _TOLD)
            return self.taken_from(answer)
        answer = self.submitted()
        try:
            return self.taken_from(answer)
        except NotInAnswer as problem:
            if not self.is_paid or not self.submission.keep_answer(answer):
                raise
            kept = "the answer is remembered: a corrected `result` or `download` is looked for in it"
            raise NotInAnswer(f"{problem}; {kept}") from None

    @property
    def is_paid(self) -> bool:
        """Whether to ask twice may cost twice."""
        return self.params.verb not in _REPEATABLE

    def taken_from(self, answer: Answer) -> dict[str, Any]:
        params, document = self.params, parsed(answer)
        if params.download is not None:
            named = value_at(document, params.download)
            if not isinstance(named, str):
                raise NotInAnswer(f"{place(answer)}: there is no URL at `download: {params.download}`")
            self.download(absolute(answer, named, f"download: {params.download}"))
        elif self.body_path is not None:
            self.body_path.write_bytes(answer.body)
        if "Answer" not in self.context.output_names:
            return {}
        result = value_at(document, params.result)
        if result is ABSENT:
            raise NotInAnswer(f"{place(answer)}: there is nothing at `result: {params.result}`")
        return {"Answer": result}

    # -- the request itself --

    def submitted(self, sink: Path | None = None) -> Answer:
        params = self.params
        headers = dict(params.headers)
        present = {name.lower() for name in headers}
        body: bytes | Path | None = None
        if params.json is not None:
            body = msgspec.json.encode(params.json)
            if "content-type" not in present:
                headers["Content-Type"] = "application/json"
        elif params.body is not None:
            body = params.body.encode() if isinstance(params.body, str) else Path(params.body)
        if isinstance(body, Path):
            headers["Content-Length"] = str(body.stat().st_size)
        if params.key_header is not None:
            headers[params.key_header] = self.submission.idempotency_key()
        request = Request(params.verb, with_query(params.url, params.query), self.usual(headers), body)
        repeatable = request.method in _REPEATABLE or params.key_header is not None
        try:
            return self.ask(request, params.is_expected, repeatable=repeatable, sink=sink, submits=True)
        except UnexpectedStatus as problem:
            answer = problem.answer
            if not self.is_paid or answer is None or not is_good(answer.status):
                raise
            # The service has done it. That `expect` names another status is no reason to pay again.
            if not self.submission.keep_accepted(answer, params.poll):
                raise
            kept = "it was accepted, and the answer is remembered: correct `expect`, and the next run goes on from it"
            raise UnexpectedStatus(f"{problem}; {kept}") from None

    def usual(self, headers: dict[str, str]) -> dict[str, str]:
        present = {name.lower() for name in headers}
        if "user-agent" not in present:
            headers["User-Agent"] = "whyrun"
        if "accept" not in present:
            headers["Accept"] = "application/json" if self.wants_json else "*/*"
        return headers

    # -- submit and poll --

    def polled(self, poll: Poll) -> Answer:
        known = self.submission.known(poll, self.params.is_expected)
        if known is None:
            known = self.submission.keep(self.submitted(), poll)
            self.context.task("EXECUTES", f"submitted request {known}")
        else:
            message = f"asks again for request {known}, which an earlier attempt submitted"
            self.context.task("EXECUTES", message, _TOLD)
        url = str(known) if poll.url == ID else poll.url.replace(ID, quote(str(known), safe=""))
        headers = {name: value for name, value in self.params.headers.items() if name.lower() != "content-type"}
        if poll.url == ID and origin(url) != origin(self.params.url):
            headers = {}  # a URL that an answer named: what is meant for the one server is not told to another
        return self.poll_until(poll, self.params.wait, Request("GET", url, self.usual(headers)), known)

    def poll_until(self, poll: Poll, wait: Wait, request: Request, known: RequestId) -> Answer:
        started = time.monotonic()
        told = None
        while True:
            try:
                answer = self.ask(request, is_good, repeatable=True, also=_GONE)
            except RequestGone as gone:
                raise self.gone(gone, known, was_known=told is not None) from None
            document = parsed(answer)
            for pointer, wanted in poll.fail.items():
                if matches(document, pointer, wanted):
                    self.submission.forget()  # asking for it again would give the same
                    message = f"request {known} failed: `{pointer}` is {plain(value_at(document, pointer))}"
                    raise RequestFailed(f"{message}: {place(answer)}")
            if all(matches(document, pointer, wanted) for pointer, wanted in poll.until.items()):
                return answer
            state = {pointer: value_at(document, pointer) for pointer in poll.until}
            if state != told:
                told = state
                self.say(f"request {known}: " + ", ".join(f"{p} is {plain(v)}" for p, v in state.items()))
            self.tell_progress(wait, document)
            left = started + seconds(wait.timeout) - time.monotonic()
            if left <= 0:
                message = f"request {known} is not done after `wait.timeout` ({seconds(wait.timeout):g}s)"
                message += "; the next run asks for it again, also with a longer one"
                raise PollTimedOut(f"{message}: {place(answer)}")
            every = max(seconds(wait.every), min(retry_after(answer) or 0.0, seconds(self.params.retries.limit)))
            self.pause(min(every, left))

    def gone(self, gone: RequestGone, known: RequestId, *, was_known: bool) -> RequestGone:
        """A request that was known and is not any more is over. One that never was may be asked for at the wrong place:
        to submit it anew, run after run, would be to pay again and again."""
        if was_known:
            self.submission.forget()
            return RequestGone(f"{gone}: request {known} is not known any more; the next attempt submits it anew")
        advice = "correct `poll.url` or `poll.id`, and the next run asks again; `--force` submits anew"
        return RequestGone(f"{gone}: request {known} was submitted, but is not known there; {advice}")

    def tell_progress(self, wait: Wait, document: Any) -> None:
        if wait.progress is None:
            return
        total = wait.progress.total
        numbers = [
            value_at(document, wait.progress.done),
            value_at(document, total) if isinstance(total, str) else total,
        ]
        if all(isinstance(number, int | float) and not isinstance(number, bool) for number in numbers):
            self.context.progress(*numbers)

    # -- what an answer names --

    def download(self, url: str) -> None:
        headers = dict(self.params.headers) if origin(url) == origin(self.params.url) else {}
        headers = {name: value for name, value in headers.items() if name.lower() not in ("content-type", "accept")}
        request = Request("GET", url, {**headers, "Accept": "*/*", "User-Agent": "whyrun"})
        self.ask(request, is_good, repeatable=True, sink=self.body_path)

    # -- asking --

    def ask(
        self,
        request: Request,
        is_fine: Callable[[int], bool],
        *,
        repeatable: bool,
        sink: Path | None = None,
        also: frozenset[int] = frozenset(),
        submits: bool = False,
    ) -> Answer:
        """The answer, after as many tries as it takes and `retries` allows. The schedule is the same every time.

        `also`: statuses that are tried again as well, since what was just submitted may not be visible at once; if
        they stay, the request is gone. `submits`: a refusal ends the request, so its key is not used again.
        """
        retries = self.params.retries
        for number in range(retries.max + 1):
            answer: Answer | None = None
            problem: Exception
            try:
                answer = self.followed(request, is_fine, repeatable=repeatable, sink=sink)
                if is_fine(answer.status):
                    return answer
                again = self.params.is_retried(answer.status) or answer.status in also
                kind = RequestGone if answer.status in also else UnexpectedStatus
                problem = kind(place(answer))
            except NoConnection as failed:
                again, problem = True, failed
            except AnswerLost as failed:
                again, problem = repeatable, failed
                if not repeatable:
                    hint = "it may have been accepted, so this attempt does not send it again (see `idempotency_key`)"
                    problem = AnswerLost(f"{failed}; {hint}")
            if not again or number == retries.max:
                refused = answer is not None and answer.status not in _IN_PROGRESS and not is_good(answer.status)
                if submits and refused and not again:
                    self.submission.forget()
                tried = f" (tried {number + 1} times)" if number else ""
                last = type(problem)(f"{problem}{tried}")
                if isinstance(last, UnexpectedStatus):
                    last.answer = answer
                raise last from None
            wait = self.delay(number, answer, problem)
            self.say(f"{problem}; again in {wait:g}s")
            if wait >= _LONG:
                left = f"try {number + 2} of {retries.max + 1}"
                self.context.task("EXECUTES", f"{problem}; again in {wait:g}s ({left})", _TOLD)
            self.pause(wait)
        raise AssertionError("the last try returns or raises")

    def delay(self, number: int, answer: Answer | None, problem: Exception) -> float:
        limit = seconds(self.params.retries.limit)
        asked = retry_after(answer) if answer is not None else None
        if asked is not None and asked > limit:
            message = f"it asks to wait {asked:g}s, more than `retries.limit` allows ({limit:g}s)"
            raise UnexpectedStatus(f"{problem}; {message}")
        doubled: float = seconds(self.params.retries.backoff) * 2**number
        return max(min(doubled, limit), asked or 0.0)

    def followed(
        self, request: Request, is_fine: Callable[[int], bool], *, repeatable: bool, sink: Path | None
    ) -> Answer:
        """The answer where the redirects end."""
        seen: list[str] = []
        while True:
            if self.context.cancelled:
                raise Stopped("told to stop")
            exchange = Exchange(request, self.limits, is_fine, sink)
            answer = exchange.answer(lambda: self.context.cancelled, unbroken=not repeatable)
            location = answer.headers.get("location")
            if answer.status not in MOVED or location is None:
                return answer
            seen.append(shown(request.url))
            if len(seen) > self.params.redirects:
                chain = " → ".join(seen[-4:])
                raise RedirectRefused(f"{place(answer)}: more than {self.params.redirects} redirects: … {chain}")
            request = redirected(request, answer, urljoin(request.url, location))

    def pause(self, wait: float) -> None:
        until = time.monotonic() + wait
        while (left := until - time.monotonic()) > 0:
            if self.context.cancelled:
                raise Stopped("told to stop while waiting")
            time.sleep(min(left, _SLICE))

    def say(self, text: str) -> None:
        """Into the step's log: the statuses of tasks have no word for what is only on its way."""
        print(text, file=sys.stderr, flush=True)
