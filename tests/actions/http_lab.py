"""A real web service on a loopback port: it answers as a test has written down, and remembers what it was asked."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True)
class Reply:
    """One answer. `cut`: only so many bytes of the body come, then the connection ends. `raw`: these bytes alone."""

    status: int = 200
    body: Any = b""  # bytes as they are, anything else as JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    cut: int | None = None
    raw: bytes | None = None


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    headers: Mapping[str, str]  # names in lower case
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


Answering = Reply | Callable[[Asked], Reply]


class Service:
    """`with Service() as service: service.answer("POST /jobs", Reply(202, {"id": 7}))`. The last answer repeats."""

    def __init__(self, certificate: Path | None = None) -> None:
        """`certificate`: it speaks https, with this certificate and key."""
        self.asked: list[Asked] = []
        self._answers: dict[str, list[Answering]] = {}
        self._lock = threading.Lock()
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _any(self) -> None:
                service._handle(self)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _any

            def log_message(self, format: str, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                pass  # a client that was killed or hung up is what these tests are about

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        if certificate is not None:
            secure = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            secure.load_cert_chain(certificate)
            self._server.socket = secure.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
            self.url = self.url.replace("http:", "https:")
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request: str, *replies: Answering) -> Self:
        with self._lock:
            self._answers[request] = list(replies)
        return self

    def heard(self, request: str | None = None) -> list[str]:
        """What was asked, as `GET /path?query`; or only the requests that begin so."""
        return [str(one) for one in self.asked if request is None or str(one).startswith(request)]

    def wait_for(self, request: str, count: int = 1, seconds: float = 300.0) -> None:
        deadline = time.monotonic() + seconds
        while len(self.heard(request)) < count:
            assert time.monotonic() < deadline, f"nobody asked {request}: {self.heard()}"
            time.sleep(0.01)

    def _handle(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in handler.headers.items()}
        asked = Asked(handler.command, handler.path, headers, body)
        with self._lock:
            self.asked.append(asked)
            left = self._answers.get(
                f"{handler.command} {handler.path.partition('?')[0]}", [Reply(404, {"error": "?"})]
            )
            answering = left.pop(0) if len(left) > 1 else left[0]
        reply = answering if isinstance(answering, Reply) else answering(asked)
        time.sleep(reply.delay)
        self._send(handler, reply)

    def _send(self, handler: BaseHTTPRequestHandler, reply: Reply) -> None:
        if reply.raw is not None:
            handler.wfile.write(reply.raw)
            self._hang_up(handler)
            return
        is_bytes = isinstance(reply.body, bytes)
        data = reply.body if is_bytes else json.dumps(reply.body).encode()
        headers = {"Content-Type": "application/octet-stream" if is_bytes else "application/json", **reply.headers}
        handler.send_response(reply.status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(data if reply.cut is None else data[: reply.cut])
        if reply.cut is not None:
            self._hang_up(handler)

    def _hang_up(self, handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.flush()
        handler.close_connection = True
        handler.connection.shutdown(socket.SHUT_RDWR)


_TAKEN: list[socket.socket] = []


def free_port() -> int:
    """A port that nobody listens on, and nobody else will: it stays ours."""
    _TAKEN.append(socket.socket())
    _TAKEN[-1].bind(("127.0.0.1", 0))
    return int(_TAKEN[-1].getsockname()[1])
