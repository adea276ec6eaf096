"""What `http/json` makes of answers: what they mean, what they name, where they point. Nothing is sent from here."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import urlencode, urljoin, urlsplit

import msgspec

from whyrun.actions.builtin.http_exchange import Answer, MalformedAnswer, Request, origin, shown, split_url
from whyrun.actions.builtin.json_pointer import ABSENT, same, value_at

MOVED = frozenset({301, 302, 303, 307, 308})
_PLAIN_TYPES = frozenset({"", "text/plain", "application/octet-stream"})  # labels that say nothing


class NotInAnswer(MalformedAnswer):
    """The answer is fine, but has not what `result` or `download` names."""


class UnexpectedStatus(Exception):
    """The server refused, or did what it was asked under another status than `expect` has."""

    answer: Answer | None = None


class RedirectRefused(Exception):
    """The server points elsewhere, and following would be wrong."""


class RequestFailed(Exception):
    """The service says that the request failed."""


class RequestGone(Exception):
    """The service does not know the request any more."""


class PollTimedOut(Exception):
    """The request is still not done."""


def is_good(status: int) -> bool:
    return 200 <= status < 300


def parsed(answer: Answer) -> Any:
    """The JSON of an answer."""
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in _PLAIN_TYPES and not kind.endswith(("/json", "+json")):
        raise malformed(answer, f"its content type is `{kind}`, not JSON")
    try:
        return msgspec.json.decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise malformed(answer, f"it is not JSON ({problem})") from None


def absolute(answer: Answer, named: str, parameter: str) -> str:
    """The URL that an answer names, wherever it is relative to."""
    url = urljoin(answer.url, named)
    try:
        split_url(url)
    except ValueError as problem:
        raise malformed(answer, f"the URL at `{parameter}` is refused: {problem}") from None
    return url


def with_query(url: str, query: dict[str, Any]) -> str:
    if not query:
        return url
    pairs = [
        (name, "" if one is None else str(one).lower() if isinstance(one, bool) else str(one))
        for name, value in query.items()
        for one in (value if isinstance(value, list) else [value])
    ]
    parts = urlsplit(url)
    return parts._replace(query="&".join(filter(None, [parts.query, urlencode(pairs)]))).geturl()


def redirected(request: Request, answer: Answer, url: str) -> Request:
    """The request that a redirect asks for, or `RedirectRefused`."""
    try:
        same_place = origin(url) == origin(request.url)
    except ValueError as problem:
        raise RedirectRefused(f"{place(answer)}: the redirect is refused: {problem}") from None
    if request.url.startswith("https:") and not url.startswith("https:"):
        raise RedirectRefused(f"{place(answer)}: it leads from https to {shown(url)}")
    method, body = request.method, request.body
    if answer.status == 303 and method != "GET":
        method, body = "GET", None
    if method != "GET" and (answer.status in (301, 302) or not same_place):
        # Other clients turn it into a GET, or send the body to whoever the answer names.
        raise RedirectRefused(f"{place(answer)}: a {method} is not sent on to {shown(url)}; write that as `url`")
    keep = ("accept", "user-agent") if not same_place else None
    headers = {
        name: value
        for name, value in request.headers.items()
        if (keep is None or name.lower() in keep) and (body is not None or not name.lower().startswith("content-"))
    }
    return Request(method, url, headers, body)


def matches(document: Any, pointer: str, wanted: Any) -> bool:
    """A place that is not there matches nothing: many services leave out what is not so yet."""
    found = value_at(document, pointer)
    return found is not ABSENT and any(same(found, one) for one in (wanted if isinstance(wanted, list) else [wanted]))


def retry_after(answer: Answer) -> float | None:
    """Seconds that the server asks to wait: a number, or a date; None if it does not say, or nothing sensible."""
    text = answer.headers.get("retry-after", "").strip()
    if text.isdecimal() and text.isascii():
        return float(text)
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except ValueError:
        return None


def place(answer: Answer) -> str:
    return f"{shown(answer.url)} answered {answer.status}: {answer.excerpt()}"


def malformed(answer: Answer, what: str) -> MalformedAnswer:
    return MalformedAnswer(f"{place(answer)}: {what}")


def plain(value: Any) -> str:
    return "not there" if value is ABSENT else msgspec.json.encode(value).decode()[:100]
