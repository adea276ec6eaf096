"""Remembers submitted requests, so that `http/json` does not pay for one twice.

The key is a hash of the request itself, so a request is found again after other parameters of the job change, and only
this request is found. The answer is stored with the id in it. So a submission is known even if `poll.id` was wrong, and
a corrected `poll.id` finds the id in the stored answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from whyrun.actions.base import WorkerContext
from whyrun.actions.http.billing import Billing
from whyrun.actions.http.exchange import (
    ABSENT,
    Answer,
    MalformedAnswer,
    UnexpectedStatus,
    absolute,
    described,
    malformed,
    parsed,
    value_at,
    with_query,
)
from whyrun.actions.http.params import ID, Params, Poll
from whyrun.json_values import limit_problem

_BODY = 8_000  # characters of an answer that are stored
_HEADERS = 16_000  # characters of all stored headers
_NOT_KEPT = frozenset({"set-cookie", "www-authenticate", "proxy-authenticate", "date", "server", "connection"})
_ADVICE = (
    "it was submitted, and this answer is remembered: correct `poll.id`, and the next run takes the id from it; "
    "`--force` submits it again"
)
_WHOLE = 40_000  # characters of the longest answer that is stored completely
_NO_WAY_BACK = "it was submitted, and only `--force` submits it again"
RequestId = str | int


class _Kept(msgspec.Struct, frozen=True):
    """A submitted request in the log. `at`: the `poll.id` that found the id, and whether the id is a URL. `lost`: why
    the request can never be polled."""

    id: RequestId | None
    at: tuple[str, bool]
    status: int
    url: str
    headers: dict[str, str]
    body: str
    lost: str = ""
    bill: str = ""  # names the purchase: see `Billing.answered`

    def answer(self) -> Answer:
        return Answer(self.status, self.headers, self.url, self.body.encode())


class _Received(msgspec.Struct, frozen=True):
    """An answer without polling. `wanted`: the parameters `result`, `download` and `expect` that did not fit it."""

    wanted: tuple[str, str | None, str]
    status: int
    url: str
    headers: dict[str, str]
    body: str


class Submission:
    def __init__(self, params: Params, context: WorkerContext, billing: Billing) -> None:
        self._context, self._billing = context, billing
        self._has_key = params.key_header is not None
        self.bill: str | None = None  # of the request that was submitted
        self._wanted = params.result, params.download, msgspec.json.encode(params.expect).decode()
        identity = _identity(params, context)
        self._request, self._key, self._answer = (
            f"{what} {identity}" for what in ("request", "idempotency-key", "answer")
        )

    def idempotency_key(self) -> str:
        """A random key, not derived from the request: a forced step must be a new request for the server, too."""
        key = self._context.recall(self._key, any_parameters=True)
        if key is None:
            import uuid

            key = str(uuid.uuid4())
        if self._context.recall(self._key) != key:
            self._context.remember(self._key, key)  # before sending, so that the key is never lost
        return str(key)

    def keep(self, answer: Answer, poll: Poll) -> RequestId:
        """Remember the submission and the id in the answer, before polling starts. Then record what it cost."""
        self.bill = self._new_bill()
        try:
            return self._keep(answer, poll)
        finally:
            if self.bill is not None:
                self._billing.answered(answer, self.bill, last=False)

    def _keep(self, answer: Answer, poll: Poll) -> RequestId:
        id_: RequestId | None = None
        missing: MalformedAnswer | None = None
        try:
            id_ = request_id(poll, answer)
        except MalformedAnswer as problem:
            missing = problem
        if self._context.without_secrets(id_) != id_:
            # The log must not contain it, and a masked answer would contain another id.
            lost = f"the id at `poll.id: {poll.id}` contains a secret of the step"
            self._remember(Answer(answer.status, {}, answer.url, b""), poll, None, lost)
            raise MalformedAnswer(f"{lost}; {_NO_WAY_BACK}")
        self._remember(answer, poll, id_)
        if missing is not None:
            raise MalformedAnswer(f"{missing}; {_ADVICE}")
        assert id_ is not None
        return id_

    def keep_accepted(self, answer: Answer, poll: Poll | None) -> bool:
        """Remember an answer with a status that `expect` does not list. Returns whether that was possible."""
        if poll is None:
            return self.keep_answer(answer)
        try:
            self.keep(answer, poll)
        except MalformedAnswer:
            pass  # it is remembered anyway; the problem is reported after `expect` is corrected
        return True

    def known(self, poll: Poll, is_expected: Callable[[int], bool]) -> RequestId | None:
        """The id of the request, if an earlier attempt submitted it, with these or other parameters."""
        remembered = self._context.recall(self._request, any_parameters=True)
        if remembered is None:
            return None
        kept = msgspec.convert(remembered, _Kept)
        if kept.bill:  # a kill may have come before its cost was recorded
            self.bill = kept.bill
            self._billing.answered(kept.answer(), kept.bill, last=False)
        if not kept.lost and not is_expected(kept.status):
            message = "an earlier attempt submitted it: correct `expect`, or submit it again with `--force`"
            raise UnexpectedStatus(f"{described(kept.answer())}; {message}")
        if kept.id is not None and kept.at == _id_source(poll):
            if self._context.recall(self._request) != remembered:
                self._context.remember(self._request, remembered)  # store it for these parameters, too
            return kept.id
        if kept.lost:
            raise MalformedAnswer(f"{kept.lost}; {_NO_WAY_BACK}")
        try:
            id_ = request_id(poll, kept.answer())
        except MalformedAnswer as problem:
            raise MalformedAnswer(f"{problem}; {_ADVICE}") from None
        self._remember(kept.answer(), poll, id_)
        return id_

    # -- answers without polling --

    def keep_answer(self, answer: Answer) -> bool:
        """Remember the whole answer, if it is short enough and contains no secret. Returns whether it did."""
        try:
            body = answer.body.decode()
        except UnicodeDecodeError:
            return False
        if len(body) > _WHOLE or self._context.without_secrets(body) != body:
            return False
        kept = _Received(self._wanted, answer.status, answer.url, _headers(answer), body)
        self._context.remember(self._answer, self._context.without_secrets(msgspec.to_builtins(kept)))
        return True

    def answer_to_others(self) -> Answer | None:
        """The answer to the same request with other `result`, `download` or `expect`; None if these are the same."""
        remembered = self._context.recall(self._answer, any_parameters=True)
        if remembered is None:
            return None
        kept = msgspec.convert(remembered, _Received)
        if kept.wanted == self._wanted:
            return None
        if self._context.recall(self._answer) != remembered:
            self._context.remember(self._answer, remembered)  # store it for these parameters, too
        return Answer(kept.status, kept.headers, kept.url, kept.body.encode())

    def forget(self) -> None:
        for key in (self._request, self._key):
            if self._context.recall(key, any_parameters=True) is not None:
                self._context.remember(key, None)

    def _remember(self, answer: Answer, poll: Poll, id_: RequestId | None, lost: str = "") -> None:
        body = answer.body.decode("utf-8", "backslashreplace")[:_BODY]
        kept = _Kept(id_, _id_source(poll), answer.status, answer.url, _headers(answer), body, lost, self.bill or "")
        fields = msgspec.to_builtins(kept)
        if self.bill is None:
            del fields["bill"]
        self._context.remember(self._request, self._context.without_secrets(fields))

    def _new_bill(self) -> str | None:
        """A name for what is bought with this submission; None if its cost is not recorded."""
        if not self._billing.is_paid:
            return None
        if self._has_key:
            return self.idempotency_key()
        import uuid

        return str(uuid.uuid4())


def _headers(answer: Answer) -> dict[str, str]:
    kept: dict[str, str] = {}
    room = _HEADERS
    for name, value in answer.headers.items():
        room -= len(name) + len(value)
        if name not in _NOT_KEPT and room >= 0:
            kept[name] = value
    return kept


def request_id(poll: Poll, answer: Answer) -> RequestId:
    in_body = poll.id.startswith("/")
    id_ = value_at(parsed(answer), poll.id) if in_body else answer.headers.get(poll.id.lower(), ABSENT)
    if isinstance(id_, bool) or not isinstance(id_, str | int) or id_ == "":
        what = "nothing" if id_ is ABSENT else "no text or number"
        raise malformed(answer, f"there is {what} at `poll.id: {poll.id}`, so the request cannot be polled")
    if limit_problem(id_) is not None:
        id_ = str(id_)  # too large for the log as a number; as a text it gives the same URL
    return id_ if poll.url != ID else absolute(answer, str(id_), f"poll.id: {poll.id}")


def _id_source(poll: Poll) -> tuple[str, bool]:
    return poll.id, poll.url == ID


def _identity(params: Params, context: WorkerContext) -> str:
    """A hash of method, address, headers and body, without secrets: a new token does not make a new request."""
    body: Any = params.json
    if isinstance(params.body, Path):
        with open(params.body, "rb") as file:
            body = {"file": hashlib.file_digest(file, "sha256").hexdigest()}
    elif params.body is not None:
        body = {"text": params.body}
    headers = {name.lower(): value for name, value in params.headers.items()}
    request = [params.verb, with_query(params.url, params.query), headers, params.body is None, body]
    data = msgspec.json.encode(context.without_secrets(request), order="sorted")
    return hashlib.sha256(data).hexdigest()[:32]
