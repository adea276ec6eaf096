"""Interprets the answers of a service: JSON, redirects, `Retry-After`, and values at JSON pointers. Sends nothing."""

from __future__ import annotations

import re
import time
from typing import Any
from urllib.parse import urlencode, urljoin, urlsplit

import msgspec

from whyrun.actions.http.exchange import Answer, MalformedAnswer, Request, origin, shown, split_url

ABSENT: Any = object()  # there is no value at the pointer; not the same as `null`
MOVED = frozenset({301, 302, 303, 307, 308})
_PLAIN_TYPES = frozenset({"", "text/plain", "application/octet-stream"})  # content types that may also hold JSON
_INDEX = re.compile(r"0|[1-9][0-9]*")


class NotInAnswer(MalformedAnswer):
    """The answer is valid, but has no value at `result` or `download`."""


class UnexpectedStatus(Exception):
    """The server answered with a status that `expect` does not list."""

    answer: Answer | None = None


class RedirectRefused(Exception):
    """The server redirects to a place where the request must not be sent."""


class RequestFailed(Exception):
    """The service reports that the request failed."""


class RequestGone(Exception):
    """The service no longer knows the request."""


class PollTimedOut(Exception):
    """The request was not done within `wait.timeout`."""


# --- JSON pointers (RFC 6901): `/choices/0/text` names one value in a document, "" the whole document ------------


def value_at(document: Any, pointer: str) -> Any:
    """The value at the pointer, or ABSENT. Negative indices do not count, nor numbers as names of an object."""
    if not pointer:
        return document
    for token in pointer[1:].split("/"):
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(document, dict) and name in document:
            document = document[name]
        elif isinstance(document, list) and _INDEX.fullmatch(name) and int(name) < len(document):
            document = document[int(name)]
        else:
            return ABSENT
    return document


def same(value: Any, wanted: Any) -> bool:
    """Equality in JSON, where `true` is not `1` as in Python."""
    return value == wanted and isinstance(value, bool) == isinstance(wanted, bool)


# --- answers -----------------------------------------------------------------------------------------------------


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
    """The URL in an answer, made absolute."""
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
    """The request that follows a redirect. Raises `RedirectRefused`."""
    try:
        same_origin = origin(url) == origin(request.url)
    except ValueError as problem:
        raise RedirectRefused(f"{described(answer)}: the redirect is refused: {problem}") from None
    if request.url.startswith("https:") and not url.startswith("https:"):
        raise RedirectRefused(f"{described(answer)}: it leads from https to {shown(url)}")
    method, body = request.method, request.body
    if answer.status == 303 and method != "GET":
        method, body = "GET", None
    if method != "GET" and (answer.status in (301, 302) or not same_origin):
        # Other clients would turn it into a GET, or send the body to another server.
        raise RedirectRefused(f"{described(answer)}: a {method} is not sent on to {shown(url)}; write that as `url`")
    keep = ("accept", "user-agent") if not same_origin else None
    headers = {
        name: value
        for name, value in request.headers.items()
        if (keep is None or name.lower() in keep) and (body is not None or not name.lower().startswith("content-"))
    }
    return Request(method, url, headers, body)


def matches(document: Any, pointer: str, wanted: Any) -> bool:
    """Whether the value at the pointer is one of the wanted ones. An absent value matches nothing."""
    value = value_at(document, pointer)
    return value is not ABSENT and any(same(value, one) for one in (wanted if isinstance(wanted, list) else [wanted]))


def retry_after(answer: Answer) -> float | None:
    """The seconds of the header `Retry-After`, which is a number or a date; None if it is missing or invalid."""
    text = answer.headers.get("retry-after", "").strip()
    if text.isdecimal() and text.isascii():
        return float(text)
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except ValueError:
        return None


def described(answer: Answer) -> str:
    return f"{shown(answer.url)} answered {answer.status}: {answer.excerpt()}"


def malformed(answer: Answer, what: str) -> MalformedAnswer:
    return MalformedAnswer(f"{described(answer)}: {what}")


def plain(value: Any) -> str:
    return "not there" if value is ABSENT else msgspec.json.encode(value).decode()[:100]
