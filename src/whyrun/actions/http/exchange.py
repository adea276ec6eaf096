"""Sends one HTTP request and reads its answer, with the standard library only.

The exceptions say whether a retry is safe: `NoConnection` (nothing was sent), `AnswerLost` (sent, but the result is not
known), `MalformedAnswer` (a retry would not help).
"""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import SplitResult, quote, urlencode, urljoin, urlsplit

import msgspec

_CHECK_INTERVAL = 0.1  # seconds between two checks whether the step is cancelled
_CHUNK = 1 << 16
_EXCERPT = 200  # bytes of an answer that a message shows
_IN_URL = "%/:=&?~#+!$,;'@()*[]"  # characters that need no quoting in a URL


class NoConnection(Exception):
    """The request was not sent."""


class AnswerLost(Exception):
    """The request was sent, but the answer did not arrive completely."""


class MalformedAnswer(Exception):
    """The answer does not have the expected form."""


class Stopped(Exception):
    """The step was cancelled."""


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | Path | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    connect: float  # seconds
    silence: float  # seconds without a byte
    size: int  # bytes of an answer


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]  # names in lower case
    url: str
    body: bytes  # only the beginning if the body was written to a file

    def excerpt(self) -> str:
        """The first bytes, in one line."""
        text = self.body[:_EXCERPT].decode("utf-8", "backslashreplace")
        return repr(text) + (" …" if len(self.body) > _EXCERPT else "") if text else "an empty body"


# --- addresses ---------------------------------------------------------------------------------------------------


def split_url(url: str) -> SplitResult:
    """The parts of an http(s) URL, all ASCII. Raises a ValueError that does not show a password."""
    parts = urlsplit(url)
    if not parts.netloc.isascii():
        parts = parts._replace(netloc=parts.netloc.encode("idna").decode())
    parts = urlsplit(quote(parts.geturl(), safe=_IN_URL))
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("it does not start with http:// or https:// and a host")
    if parts.username is not None or parts.password is not None:
        raise ValueError("it contains a user or password; use the header `Authorization` with a secret")
    if parts.port == 0:
        raise ValueError("0 is not a valid port")
    return parts


def shown(url: str) -> str:
    """A URL for messages, without query and fragment, which may contain keys and signatures."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def origin(url: str) -> tuple[str, str, int]:
    parts = split_url(url)
    return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def _proxy_for(parts: SplitResult) -> SplitResult | None:
    """The proxy from the environment of the step: `env: {HTTPS_PROXY: …, NO_PROXY: …}`."""
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    from urllib.request import getproxies, proxy_bypass

    proxy = getproxies().get(parts.scheme)
    if proxy is None or proxy_bypass(parts.netloc):
        return None
    return urlsplit(proxy if "://" in proxy else f"http://{proxy}")


# --- one exchange ------------------------------------------------------------------------------------------------


class Exchange(threading.Thread):
    """One request in its own thread, so that a cancelled step can close the connection at any time."""

    def __init__(
        self, request: Request, limits: Limits, is_fine: Callable[[int], bool], sink: Path | None = None
    ) -> None:
        """`sink`: the file for the body of an answer with a good status."""
        super().__init__(daemon=True)
        self._request, self._limits, self._is_fine, self._sink = request, limits, is_fine, sink
        self._hung_up = False
        self._place = f"{request.method} {shown(request.url)}"
        self._connection: http.client.HTTPConnection | None = None
        self._answer: Answer | None = None
        self._problem: Exception | None = None

    def answer(self, stop: Callable[[], bool], *, unbroken: bool) -> Answer:
        """Wait for the answer. `unbroken`: also if the step is cancelled, because the request may cost something."""
        self.start()
        while self.is_alive():
            self.join(_CHECK_INTERVAL)
            if not unbroken and stop():
                self._hang_up()
                raise Stopped(f"{self._place}: the step was cancelled")
        if self._problem is not None:
            raise self._problem from None
        assert self._answer is not None
        return self._answer

    def run(self) -> None:
        try:
            self._answer = self._exchange()
        except Exception as problem:  # raised again in `answer`
            self._problem = problem
        finally:
            if self._connection is not None:
                self._connection.close()

    def _hang_up(self) -> None:
        self._hung_up = True
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with contextlib.suppress(OSError):  # the connection is already closed
                connection.sock.shutdown(socket.SHUT_RDWR)
        self.join(1.0)  # so that it does not write into the folder while the worker empties it

    def _exchange(self) -> Answer:
        parts = split_url(self._request.url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        proxy = _proxy_for(parts)
        if proxy is not None and parts.scheme == "http":
            target = parts._replace(fragment="").geturl()
        self._connect(parts, proxy)
        connection = self._connection
        assert connection is not None
        if self._hung_up:  # cancelled while connecting: send nothing
            raise Stopped(f"{self._place}: the step was cancelled")
        with _opened(self._request.body) as body, self._network_errors():
            connection.request(self._request.method, target, body, dict(self._request.headers))
            response = connection.getresponse()
        return self._read(response)

    @contextlib.contextmanager
    def _network_errors(self) -> Iterator[None]:
        """Turn network errors into our exceptions."""
        try:
            yield
        except TimeoutError:
            raise AnswerLost(f"{self._place}: the server sent nothing for {self._limits.silence:g}s") from None
        except OSError as problem:  # also `RemoteDisconnected`
            raise AnswerLost(f"{self._place}: {_reason(problem)}") from None
        except http.client.IncompleteRead:
            raise AnswerLost(f"{self._place}: the answer broke off") from None
        except http.client.HTTPException as problem:
            raise MalformedAnswer(f"{self._place}: this is not HTTP: {type(problem).__name__}: {problem}") from None

    def _connect(self, parts: SplitResult, proxy: SplitResult | None) -> None:
        secure = parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        host = parts.hostname or ""
        if proxy is None:
            connection = kind(host, parts.port, timeout=self._limits.connect)
        else:
            connection = kind(proxy.hostname or "", proxy.port, timeout=self._limits.connect)
            if secure:
                connection.set_tunnel(host, parts.port)
        self._connection = connection
        try:
            connection.connect()
        except TimeoutError:
            raise NoConnection(f"{self._place}: no connection within {self._limits.connect:g}s") from None
        except ssl.SSLCertVerificationError as problem:
            raise MalformedAnswer(f"{self._place}: the certificate is refused: {problem.verify_message}") from None
        except OSError as problem:
            raise NoConnection(f"{self._place}: {_reason(problem)}") from None
        connection.sock.settimeout(self._limits.silence)

    def _read(self, response: http.client.HTTPResponse) -> Answer:
        headers = {name.lower(): value for name, value in response.getheaders()}
        coding = headers.get("content-encoding", "identity")
        if coding.lower() not in ("identity", ""):
            raise MalformedAnswer(f"{self._place}: the answer is encoded as `{coding}`, which was not requested")
        beginning, size = bytearray(), 0
        to_file = self._sink is not None and self._is_fine(response.status)
        with open(self._sink, "wb") if to_file and self._sink else contextlib.nullcontext() as file:
            while True:
                with self._network_errors():
                    chunk = response.read(_CHUNK)
                if not chunk:
                    break
                size += len(chunk)
                if size > self._limits.size:
                    message = f"the answer has more than `max_bytes: {self._limits.size}`"
                    raise MalformedAnswer(f"{self._place}: status {response.status}, {message}")
                if file is not None:
                    file.write(chunk)
                if file is None or len(beginning) <= _EXCERPT:
                    beginning += chunk
        if response.length:  # `read` with a size does not raise if the answer ends too early
            raise AnswerLost(f"{self._place}: the answer broke off after {size} of {size + response.length} bytes")
        return Answer(response.status, headers, self._request.url, bytes(beginning))


@contextlib.contextmanager
def _opened(body: bytes | Path | None) -> Iterator[bytes | BinaryIO | None]:
    if isinstance(body, Path):
        with open(body, "rb") as file:
            yield file
    else:
        yield body


def _reason(problem: OSError) -> str:
    if isinstance(problem, http.client.RemoteDisconnected):
        return "the connection was closed without an answer"
    return problem.strerror or str(problem) or type(problem).__name__


# --- reading answers --------------------------------------------------------------------------------------------------
# Interprets the answers of a service: JSON, redirects, `Retry-After`, and values at JSON pointers. Sends nothing.


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
