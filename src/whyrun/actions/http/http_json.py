"""`http/json`: sends a request to a service and returns its answer as JSON; long requests are submitted and polled.

No request is paid for twice: the log has the id of a submitted request before polling starts, and a later attempt polls
that request instead of submitting another.
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
from whyrun.actions.http.billing import Billing
from whyrun.actions.http.exchange import (
    ABSENT,
    MOVED,
    Answer,
    AnswerLost,
    Exchange,
    Limits,
    NoConnection,
    NotInAnswer,
    PollTimedOut,
    RedirectRefused,
    Request,
    RequestFailed,
    RequestGone,
    Stopped,
    UnexpectedStatus,
    absolute,
    described,
    is_good,
    matches,
    origin,
    parsed,
    plain,
    redirected,
    retry_after,
    shown,
    value_at,
    with_query,
)
from whyrun.actions.http.params import ID, Params, Poll, Wait, seconds
from whyrun.actions.http.submission import RequestId, Submission

_CHECK_INTERVAL = 0.1  # seconds between two checks whether the step is cancelled
_REPEATABLE = frozenset({"GET", "PUT", "DELETE"})  # idempotent methods
_SUMMARY = {"level": "summary"}  # a task line that the default log level shows
_LONG = 1.0  # seconds; a longer wait gets its own line
_GONE = frozenset({404, 410})
_TOO_MANY = frozenset({429, 503})
_IN_PROGRESS = frozenset({409, 425})  # the first request with this idempotency key is still running


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
        self.billing = Billing(params, context)
        self.submission = Submission(params, context, self.billing)
        self.limits = Limits(seconds(params.connect_timeout), seconds(params.timeout), params.max_bytes)
        self.body_path = context.output("Body") if "Body" in context.output_names else None
        self.wants_json = bool(
            "Answer" in context.output_names or params.result or params.download is not None or params.poll
            or isinstance(params.cost, dict) or (params.cost or "").startswith("/")
        )  # fmt: skip
        if params.download is not None and self.body_path is None:
            raise ValueError("`download` writes the output `Body`, which the job does not declare")

    def outputs(self) -> dict[str, Any]:
        params = self.params
        if not self.wants_json:
            self.submit(sink=self.body_path)
            return {}
        if params.poll is not None:
            return self.outputs_from(self.submit_and_poll(params.poll))
        answer = self.submission.answer_to_others() if self.is_paid else None
        if answer is not None:
            self.context.task("EXECUTES", "uses the answer that an attempt with other parameters received", _SUMMARY)
            return self.outputs_from(answer)
        answer = self.submit()
        try:
            return self.outputs_from(answer)
        except NotInAnswer as problem:
            if not self.is_paid or not self.submission.keep_answer(answer):
                raise
            kept = "the answer is remembered: correct `result` or `download`, and the next run uses it"
            raise NotInAnswer(f"{problem}; {kept}") from None

    @property
    def is_paid(self) -> bool:
        """Whether sending the request twice may cost twice."""
        return self.params.verb not in _REPEATABLE

    def outputs_from(self, answer: Answer) -> dict[str, Any]:
        params, document = self.params, parsed(answer)
        if params.download is not None:
            url = value_at(document, params.download)
            if not isinstance(url, str):
                raise NotInAnswer(f"{described(answer)}: there is no URL at `download: {params.download}`")
            self.download(absolute(answer, url, f"download: {params.download}"))
        elif self.body_path is not None:
            self.body_path.write_bytes(answer.body)
        if "Answer" not in self.context.output_names:
            return {}
        result = value_at(document, params.result)
        if result is ABSENT:
            raise NotInAnswer(f"{described(answer)}: there is nothing at `result: {params.result}`")
        return {"Answer": result}

    # -- the request itself --

    def submit(self, sink: Path | None = None) -> Answer:
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
        request = Request(params.verb, with_query(params.url, params.query), self.with_defaults(headers), body)
        repeatable = request.method in _REPEATABLE or params.key_header is not None
        try:
            return self.send(request, params.is_expected, repeatable=repeatable, sink=sink, submits=True)
        except UnexpectedStatus as problem:
            answer = problem.answer
            if not self.is_paid or answer is None or not is_good(answer.status):
                raise
            # The service accepted the request. Do not pay again only because `expect` lists another status.
            if not self.submission.keep_accepted(answer, params.poll):
                raise
            kept = "it was accepted, and the answer is remembered: correct `expect`, and the next run uses it"
            raise UnexpectedStatus(f"{problem}; {kept}") from None

    def with_defaults(self, headers: dict[str, str]) -> dict[str, str]:
        present = {name.lower() for name in headers}
        if "user-agent" not in present:
            headers["User-Agent"] = "whyrun"
        if "accept" not in present:
            headers["Accept"] = "application/json" if self.wants_json else "*/*"
        return headers

    # -- submit and poll --

    def submit_and_poll(self, poll: Poll) -> Answer:
        id_ = self.submission.known(poll, self.params.is_expected)
        if id_ is None:
            id_ = self.submission.keep(self.submit(), poll)
            self.context.task("EXECUTES", f"submitted request {id_}")
        else:
            message = f"polls request {id_}, which an earlier attempt submitted"
            self.context.task("EXECUTES", message, _SUMMARY)
        url = str(id_) if poll.url == ID else poll.url.replace(ID, quote(str(id_), safe=""))
        headers = {name: value for name, value in self.params.headers.items() if name.lower() != "content-type"}
        if poll.url == ID and origin(url) != origin(self.params.url):
            headers = {}  # the answer named another server: do not send it headers that may hold secrets
        return self.poll_until(poll, self.params.wait, Request("GET", url, self.with_defaults(headers)), id_)

    def poll_until(self, poll: Poll, wait: Wait, request: Request, id_: RequestId) -> Answer:
        started = time.monotonic()
        logged = None
        while True:
            try:
                answer = self.send(request, is_good, repeatable=True, also=_GONE)
            except RequestGone as gone:
                raise self.gone(gone, id_, was_known=logged is not None) from None
            document = parsed(answer)
            for pointer, wanted in poll.fail.items():
                if matches(document, pointer, wanted):
                    self.bill(answer)
                    self.submission.forget()  # polling again would give the same answer
                    message = f"request {id_} failed: `{pointer}` is {plain(value_at(document, pointer))}"
                    raise RequestFailed(f"{message}: {described(answer)}")
            if all(matches(document, pointer, wanted) for pointer, wanted in poll.until.items()):
                self.bill(answer)
                return answer
            state = {pointer: value_at(document, pointer) for pointer in poll.until}
            if state != logged:
                logged = state
                self.log(f"request {id_}: " + ", ".join(f"{p} is {plain(v)}" for p, v in state.items()))
            self.report_progress(wait, document)
            left = started + seconds(wait.timeout) - time.monotonic()
            if left <= 0:
                message = f"request {id_} is not done after `wait.timeout` ({seconds(wait.timeout):g}s)"
                message += "; the next run polls it again, also with a longer timeout"
                raise PollTimedOut(f"{message}: {described(answer)}")
            every = max(seconds(wait.every), min(retry_after(answer) or 0.0, seconds(self.params.retries.limit)))
            self.pause(min(every, left))

    def bill(self, answer: Answer) -> None:
        """A polled request has ended: its answer may tell what it cost."""
        if self.submission.bill is not None and self.params.cost is not None:
            self.billing.answered(answer, self.submission.bill, last=True)

    def gone(self, gone: RequestGone, id_: RequestId, *, was_known: bool) -> RequestGone:
        """The error for a request that the service does not know.

        A request that it knew before is over. For one that it never knew, `poll.url` may be wrong: submitting it again
        in every run would pay again and again.
        """
        if was_known:
            self.submission.forget()
            return RequestGone(f"{gone}: request {id_} is no longer known; the next attempt submits it again")
        advice = "correct `poll.url` or `poll.id`, and the next run polls again; `--force` submits it again"
        return RequestGone(f"{gone}: request {id_} was submitted, but the service does not know it; {advice}")

    def report_progress(self, wait: Wait, document: Any) -> None:
        if wait.progress is None:
            return
        total = wait.progress.total
        numbers = [
            value_at(document, wait.progress.done),
            value_at(document, total) if isinstance(total, str) else total,
        ]
        if all(isinstance(number, int | float) and not isinstance(number, bool) for number in numbers):
            self.context.progress(*numbers)

    # -- the file at a URL in the answer --

    def download(self, url: str) -> None:
        headers = dict(self.params.headers) if origin(url) == origin(self.params.url) else {}
        headers = {name: value for name, value in headers.items() if name.lower() not in ("content-type", "accept")}
        request = Request("GET", url, {**headers, "Accept": "*/*", "User-Agent": "whyrun"})
        self.send(request, is_good, repeatable=True, sink=self.body_path)

    # -- sending with retries --

    def send(
        self,
        request: Request,
        is_fine: Callable[[int], bool],
        *,
        repeatable: bool,
        sink: Path | None = None,
        also: frozenset[int] = frozenset(),
        submits: bool = False,
    ) -> Answer:
        """Send a request, with retries as `retries` allows. The schedule of waits is deterministic.

        `also`: more statuses to retry, because a service may not know a new request at once; if such a status stays,
        the request is gone. `submits`: after a refusal, the idempotency key is not used again.
        """
        retries = self.params.retries
        for number in range(retries.max + 1):
            answer: Answer | None = None
            problem: Exception
            try:
                answer = self.follow_redirects(request, is_fine, repeatable=repeatable, sink=sink)
                if submits and not (self.params.poll is not None and is_good(answer.status)):
                    self.bill_answer(answer)
                if is_fine(answer.status):
                    return answer
                if answer.status in _TOO_MANY and (asked := retry_after(answer)):
                    self.context.throttled(asked)
                again = self.params.is_retried(answer.status) or answer.status in also
                kind = RequestGone if answer.status in also else UnexpectedStatus
                problem = kind(described(answer))
            except NoConnection as failed:
                again, problem = True, failed
            except AnswerLost as failed:
                again, problem = repeatable, failed
                if submits and self.params.key_header is None:
                    self.billing.lost()
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
            self.log(f"{problem}; again in {wait:g}s")
            if wait >= _LONG:
                left = f"try {number + 2} of {retries.max + 1}"
                self.context.task("EXECUTES", f"{problem}; again in {wait:g}s ({left})", _SUMMARY)
            self.pause(wait)
        raise AssertionError("the last try returns or raises")

    def bill_answer(self, answer: Answer) -> None:
        """A request without polling was answered, or one with polling refused; a refusal may cost something, too."""
        if self.billing.is_paid:
            key = self.submission.idempotency_key() if self.params.key_header is not None else None
            self.billing.answered(answer, key, last=True)

    def delay(self, number: int, answer: Answer | None, problem: Exception) -> float:
        limit = seconds(self.params.retries.limit)
        requested = retry_after(answer) if answer is not None else None
        if requested is not None and requested > limit:
            message = f"it asks to wait {requested:g}s, more than `retries.limit` allows ({limit:g}s)"
            raise UnexpectedStatus(f"{problem}; {message}")
        doubled: float = seconds(self.params.retries.backoff) * 2**number
        return max(min(doubled, limit), requested or 0.0)

    def follow_redirects(
        self, request: Request, is_fine: Callable[[int], bool], *, repeatable: bool, sink: Path | None
    ) -> Answer:
        """Send a request and follow its redirects."""
        seen: list[str] = []
        while True:
            if self.context.cancelled:
                raise Stopped("the step was cancelled")
            exchange = Exchange(request, self.limits, is_fine, sink)
            answer = exchange.answer(lambda: self.context.cancelled, unbroken=not repeatable)
            location = answer.headers.get("location")
            if answer.status not in MOVED or location is None:
                return answer
            seen.append(shown(request.url))
            if len(seen) > self.params.redirects:
                chain = " → ".join(seen[-4:])
                raise RedirectRefused(f"{described(answer)}: more than {self.params.redirects} redirects: … {chain}")
            request = redirected(request, answer, urljoin(request.url, location))

    def pause(self, wait: float) -> None:
        until = time.monotonic() + wait
        while (left := until - time.monotonic()) > 0:
            if self.context.cancelled:
                raise Stopped("the step was cancelled while waiting")
            time.sleep(min(left, _CHECK_INTERVAL))

    def log(self, text: str) -> None:
        """Write to the step's log. Task statuses have none for a request that is still running."""
        print(text, file=sys.stderr, flush=True)
