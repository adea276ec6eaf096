"""What `http/json` remembers of a request that it submitted, so that it is not paid for twice.

The key is made of the request itself. So it is found again whatever else of the job was changed since, and nothing but
this very request can be found under it. What is kept is the answer, and the id in it: also where `poll.id` names a
place that is not there, it is known that something was ordered, and a corrected `poll.id` finds the id.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from whyrun.actions.base import WorkerContext
from whyrun.actions.builtin.http_exchange import Answer, MalformedAnswer
from whyrun.actions.builtin.http_params import ID, Params, Poll
from whyrun.actions.builtin.http_rules import UnexpectedStatus, absolute, malformed, parsed, place, with_query
from whyrun.actions.builtin.json_pointer import ABSENT, value_at
from whyrun.json_values import limit_problem

_BODY = 8_000  # characters of an answer that are kept
_HEADERS = 16_000  # characters of all its headers
_NOT_KEPT = frozenset({"set-cookie", "www-authenticate", "proxy-authenticate", "date", "server", "connection"})
_ADVICE = (
    "it was submitted, and this answer is remembered: correct `poll.id`, and the next run takes the id from it; "
    "`--force` submits anew"
)
_WHOLE = 40_000  # characters of an answer that is kept as a whole
_NO_WAY_BACK = "it was submitted, and is not submitted again unless by `--force`"
RequestId = str | int


class _Kept(msgspec.Struct, frozen=True):
    """As it stands in the log. `at`: the `poll.id` that named the id, and whether it was to be a URL. `lost`: why it
    can never be asked for."""

    id: RequestId | None
    at: tuple[str, bool]
    status: int
    url: str
    headers: dict[str, str]
    body: str
    lost: str = ""

    def answer(self) -> Answer:
        return Answer(self.status, self.headers, self.url, self.body.encode())


class _Received(msgspec.Struct, frozen=True):
    """An answer that came at once. `wanted`: what was expected of it, or looked for in it, and is not there."""

    wanted: tuple[str, str | None, str]
    status: int
    url: str
    headers: dict[str, str]
    body: str


class Submission:
    def __init__(self, params: Params, context: WorkerContext) -> None:
        self._context = context
        self._wanted = params.result, params.download, msgspec.json.encode(params.expect).decode()
        identity = _identity(params, context)
        self._request, self._key, self._answer = (
            f"{what} {identity}" for what in ("request", "idempotency-key", "answer")
        )

    def idempotency_key(self) -> str:
        """Random, not derived from the request: a forced step is meant as another one, also for the server."""
        key = self._context.recall(self._key, any_parameters=True)
        if key is None:
            import uuid

            key = str(uuid.uuid4())
        if self._context.recall(self._key) != key:
            self._context.remember(self._key, key)  # before the first byte is sent: whatever happens then, it is known
        return str(key)

    def keep(self, answer: Answer, poll: Poll) -> RequestId:
        """Remember that it was submitted, before the wait starts; then the id, if the answer names one."""
        found: RequestId | None = None
        missing: MalformedAnswer | None = None
        try:
            found = request_id(poll, answer)
        except MalformedAnswer as problem:
            missing = problem
        if self._context.without_secrets(found) != found:
            # It cannot be written down, and in an answer with a part masked would stand another.
            lost = f"the id at `poll.id: {poll.id}` holds a secret of the step"
            self._remember(Answer(answer.status, {}, answer.url, b""), poll, None, lost)
            raise MalformedAnswer(f"{lost}; {_NO_WAY_BACK}")
        self._remember(answer, poll, found)
        if missing is not None:
            raise MalformedAnswer(f"{missing}; {_ADVICE}")
        assert found is not None
        return found

    def keep_accepted(self, answer: Answer, poll: Poll | None) -> bool:
        """Remember an answer whose status is none that `expect` has; whether that could be done."""
        if poll is None:
            return self.keep_answer(answer)
        try:
            self.keep(answer, poll)
        except MalformedAnswer:
            pass  # it is remembered all the same, and told once `expect` is right
        return True

    def known(self, poll: Poll, is_expected: Callable[[int], bool]) -> RequestId | None:
        """The id of the request, if an earlier attempt submitted it, with these or with other parameters."""
        remembered = self._context.recall(self._request, any_parameters=True)
        if remembered is None:
            return None
        kept = msgspec.convert(remembered, _Kept)
        if not kept.lost and not is_expected(kept.status):
            message = "it was accepted by an earlier attempt: correct `expect`, or submit anew with `--force`"
            raise UnexpectedStatus(f"{place(kept.answer())}; {message}")
        if kept.id is not None and kept.at == _place(poll):
            if self._context.recall(self._request) != remembered:
                self._context.remember(self._request, remembered)  # it belongs to these parameters from now on
            return kept.id
        if kept.lost:
            raise MalformedAnswer(f"{kept.lost}; {_NO_WAY_BACK}")
        try:
            found = request_id(poll, kept.answer())
        except MalformedAnswer as problem:
            raise MalformedAnswer(f"{problem}; {_ADVICE}") from None
        self._remember(kept.answer(), poll, found)
        return found

    # -- an answer that came at once --

    def keep_answer(self, answer: Answer) -> bool:
        """Whether it could be remembered: whole, and with nothing secret in it."""
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
        """The answer to the same request in which something else was looked for. The same is asked for anew."""
        remembered = self._context.recall(self._answer, any_parameters=True)
        if remembered is None:
            return None
        kept = msgspec.convert(remembered, _Received)
        if kept.wanted == self._wanted:
            return None
        if self._context.recall(self._answer) != remembered:
            self._context.remember(self._answer, remembered)  # success with these parameters ends it
        return Answer(kept.status, kept.headers, kept.url, kept.body.encode())

    def forget(self) -> None:
        for key in (self._request, self._key):
            if self._context.recall(key, any_parameters=True) is not None:
                self._context.remember(key, None)

    def _remember(self, answer: Answer, poll: Poll, found: RequestId | None, lost: str = "") -> None:
        body = answer.body.decode("utf-8", "backslashreplace")[:_BODY]
        kept = _Kept(found, _place(poll), answer.status, answer.url, _headers(answer), body, lost)
        self._context.remember(self._request, self._context.without_secrets(msgspec.to_builtins(kept)))


def _headers(answer: Answer) -> dict[str, str]:
    found: dict[str, str] = {}
    room = _HEADERS
    for name, value in answer.headers.items():
        room -= len(name) + len(value)
        if name not in _NOT_KEPT and room >= 0:
            found[name] = value
    return found


def request_id(poll: Poll, answer: Answer) -> RequestId:
    if poll.id.startswith("/"):
        found = value_at(parsed(answer), poll.id)
    else:
        found = answer.headers.get(poll.id.lower(), ABSENT)
    if isinstance(found, bool) or not isinstance(found, str | int) or found == "":
        what = "nothing" if found is ABSENT else "no text or number"
        raise malformed(answer, f"there is {what} at `poll.id: {poll.id}`, so the request cannot be asked for")
    if limit_problem(found) is not None:
        found = str(found)  # as a text it can be remembered, and it stands in the same URL
    return found if poll.url != ID else absolute(answer, str(found), f"poll.id: {poll.id}")


def _place(poll: Poll) -> tuple[str, bool]:
    return poll.id, poll.url == ID


def _identity(params: Params, context: WorkerContext) -> str:
    """Of the request alone: method, address, headers and body, without secrets. Another token asks for the same."""
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
