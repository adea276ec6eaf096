"""One HTTP request and its answer, with the standard library alone.

What went wrong is told apart by what it means for a second try: `NoConnection` (nothing was sent), `AnswerLost` (sent,
and nobody knows what became of it), `MalformedAnswer` (an answer that no second try would better).
"""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import SplitResult, quote, urlsplit

_SLICE = 0.1  # seconds between two looks at whether the step should stop
_PIECE = 1 << 16
_EXCERPT = 200  # bytes of an answer that stand in a message
_IN_URL = "%/:=&?~#+!$,;'@()*[]"  # what a URL may hold as it is


class NoConnection(Exception):
    """The request was not sent."""


class AnswerLost(Exception):
    """The request was sent, but no whole answer came."""


class MalformedAnswer(Exception):
    """There is an answer, but it is not what was asked for."""


class Stopped(Exception):
    """The step was told to stop."""


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
    body: bytes  # only its beginning where it went into a file

    def excerpt(self) -> str:
        """The first bytes, as they fit into one line."""
        text = self.body[:_EXCERPT].decode("utf-8", "backslashreplace")
        return repr(text) + (" …" if len(self.body) > _EXCERPT else "") if text else "an empty body"


# --- addresses ---------------------------------------------------------------------------------------------------


def split_url(url: str) -> SplitResult:
    """The parts of an http(s) URL, all ASCII; ValueError says what is wrong with it, without repeating a password."""
    parts = urlsplit(url)
    if not parts.netloc.isascii():
        parts = parts._replace(netloc=parts.netloc.encode("idna").decode())
    parts = urlsplit(quote(parts.geturl(), safe=_IN_URL))
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("it does not begin with http:// or https:// and a host")
    if parts.username is not None or parts.password is not None:
        raise ValueError("it holds a user or password; use the header `Authorization`, with a secret")
    if parts.port == 0:
        raise ValueError("0 is no port")
    return parts


def shown(url: str) -> str:
    """A URL for messages: without query and fragment, where keys and signatures stand."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def origin(url: str) -> tuple[str, str, int]:
    parts = split_url(url)
    return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def _proxy_for(parts: SplitResult) -> SplitResult | None:
    """As the environment of the step says: `env: {HTTPS_PROXY: …, NO_PROXY: …}`."""
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    from urllib.request import getproxies, proxy_bypass

    proxy = getproxies().get(parts.scheme)
    if proxy is None or proxy_bypass(parts.netloc):
        return None
    return urlsplit(proxy if "://" in proxy else f"http://{proxy}")


# --- one exchange ------------------------------------------------------------------------------------------------


class Exchange(threading.Thread):
    """In a thread of its own, so that a step that is told to stop can hang up, whatever it waits for."""

    def __init__(
        self, request: Request, limits: Limits, is_fine: Callable[[int], bool], sink: Path | None = None
    ) -> None:
        """`sink`: the file that takes the body of an answer whose status is fine."""
        super().__init__(daemon=True)
        self._request, self._limits, self._is_fine, self._sink = request, limits, is_fine, sink
        self._hung_up = False
        self._place = f"{request.method} {shown(request.url)}"
        self._connection: http.client.HTTPConnection | None = None
        self._answer: Answer | None = None
        self._problem: Exception | None = None

    def answer(self, stop: Callable[[], bool], *, unbroken: bool) -> Answer:
        """Wait for it. `unbroken`: even if told to stop, since an answer that nobody hears may have cost something."""
        self.start()
        while self.is_alive():
            self.join(_SLICE)
            if not unbroken and stop():
                self._hang_up()
                raise Stopped(f"{self._place}: told to stop")
        if self._problem is not None:
            raise self._problem from None
        assert self._answer is not None
        return self._answer

    def run(self) -> None:
        try:
            self._answer = self._talk()
        except Exception as problem:  # raised again where the answer is awaited
            self._problem = problem
        finally:
            if self._connection is not None:
                self._connection.close()

    def _hang_up(self) -> None:
        self._hung_up = True
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with contextlib.suppress(OSError):  # it has ended meanwhile
                connection.sock.shutdown(socket.SHUT_RDWR)
        self.join(1.0)  # so that it does not write into a folder that is being emptied

    def _talk(self) -> Answer:
        parts = split_url(self._request.url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        proxy = _proxy_for(parts)
        if proxy is not None and parts.scheme == "http":
            target = parts._replace(fragment="").geturl()
        self._connect(parts, proxy)
        connection = self._connection
        assert connection is not None
        if self._hung_up:  # while it connected: nothing is sent any more
            raise Stopped(f"{self._place}: told to stop")
        with _opened(self._request.body) as body, self._told():
            connection.request(self._request.method, target, body, dict(self._request.headers))
            response = connection.getresponse()
        return self._read(response)

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """What the network does wrong, in our words."""
        try:
            yield
        except TimeoutError:
            raise AnswerLost(f"{self._place}: no byte came within {self._limits.silence:g}s") from None
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
            raise MalformedAnswer(f"{self._place}: the answer is encoded as `{coding}`, which was not asked for")
        kept, size = bytearray(), 0
        to_file = self._sink is not None and self._is_fine(response.status)
        with open(self._sink, "wb") if to_file and self._sink else contextlib.nullcontext() as file:
            while True:
                with self._told():
                    piece = response.read(_PIECE)
                if not piece:
                    break
                size += len(piece)
                if size > self._limits.size:
                    message = f"the answer has more than `max_bytes: {self._limits.size}`"
                    raise MalformedAnswer(f"{self._place}: status {response.status}, {message}")
                if file is not None:
                    file.write(piece)
                if file is None or len(kept) <= _EXCERPT:
                    kept += piece
        if response.length:  # `read` with a size does not complain of an end that came too early
            raise AnswerLost(f"{self._place}: the answer broke off after {size} of {size + response.length} bytes")
        return Answer(response.status, headers, self._request.url, bytes(kept))


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
