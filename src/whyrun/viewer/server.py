"""The server of `whyrun view`: who may ask, what is served, and with which headers.

Artifacts and logs are hostile: they come from models and from the web. Everything that is not allowed here is refused.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import secrets
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from types import FrameType
from urllib.parse import parse_qs

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from whyrun import __version__
from whyrun.errors import InvalidError, WhyrunError, error
from whyrun.viewer.contents import Served, served_blob, served_input
from whyrun.viewer.current import InvalidState, Params, StateSource
from whyrun.viewer.live import event_stream
from whyrun.viewer.views import APP, LIVE, Views, asset, content_policy, live_page

LOOPBACK = ("127.0.0.1", "localhost", "::1")
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
}
# What a browser may do with the bytes of an artifact: show them. Scripts in them have no origin and do not run.
ARTIFACT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; media-src data:; sandbox; "
    "frame-ancestors 'self'"
)
FRAMED = ("image/svg+xml", "text/html; charset=utf-8")
HTTP_STATUS = {"UNKNOWN_REFERENCE": 404, "RUN_UNKNOWN": 404, "RUN_PRUNED": 410, "STORE_DAMAGED": 404}


@dataclass(frozen=True)
class Access:
    """Who may ask: the names by which the server may be called, and the secrets of its address and its cookie."""

    port: int
    hosts: frozenset[str]
    folder: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    key: str = field(default_factory=lambda: secrets.token_urlsafe(24))

    @property
    def cookie(self) -> str:
        """Its name: another server on this machine gets the cookies of all ports."""
        return f"whyrun-{self.port}"

    @property
    def path(self) -> str:
        return f"/{self.folder}/"

    def knows_host(self, header: str) -> bool:
        """Compared by name: a tunnel may come through any port."""
        return host_name(header) in self.hosts


def host_name(header: str) -> str | None:
    """`[::1]:8000` → `::1`; None if it is no host and port."""
    header = header.strip().lower()
    if header.startswith("["):
        name, bracket, rest = header[1:].partition("]")
        return name if bracket and _is_port(rest) else None
    name, colon, port = header.partition(":")
    return name.rstrip(".") if name and _is_port(colon + port) else None


def _is_port(text: str) -> bool:
    return text == "" or (text[0] == ":" and text[1:].isascii() and text[1:].isdigit() and len(text) <= 6)


class Guard:
    """Stands before every route, also those that do not exist: host, method, path, cookie and origin."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app, self.access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # no websockets: the connection is closed
        request = Request(scope, receive)
        refused = self.refuse(request)
        if refused is not None:
            await refused(scope, receive, _with_headers(send))
            return
        await self.app(scope, receive, _with_headers(send))

    def refuse(self, request: Request) -> Response | None:
        access = self.access
        hosts = request.headers.getlist("host")
        if len(hosts) != 1 or not access.knows_host(hosts[0]):
            return _plain(403, "This server is not known by that name. Give it with --allow-host NAME.")
        if request.method != "GET":
            return _plain(405, "Only GET: nothing can be started from the browser.", {"Allow": "GET"})
        if not request.url.path.startswith(access.path):
            return _plain(404, "Nothing is here. Open the address that `whyrun view` has printed.")
        given = request.query_params.get("token")
        if request.url.path == access.path and given is not None:
            return self._exchange(given)
        if not _equal(request.cookies.get(access.cookie, ""), access.key):
            return _plain(401, "Open the address that `whyrun view` has printed: it has the token.")
        if request.url.path != access.path and request.headers.get("sec-fetch-site", "none") not in (
            "same-origin",
            "none",
        ):
            return _plain(403, "Another page may not ask for this.")
        return None

    def _exchange(self, token: str) -> Response:
        """The token of the printed address becomes a cookie, and leaves the address."""
        if not _equal(token, self.access.token):
            return _plain(401, "This token is not valid: the server was started again. Open its new address.")
        response = RedirectResponse(self.access.path, status_code=303)
        response.set_cookie(
            self.access.cookie, self.access.key, path=self.access.path, httponly=True, samesite="strict"
        )
        return response


def _equal(given: str, secret: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), secret.encode())


def _with_headers(send: Send) -> Send:
    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            has = {name.lower() for name, _ in message["headers"]}
            extra = [(n.lower().encode(), v.encode()) for n, v in HEADERS.items() if n.lower().encode() not in has]
            message["headers"] = [*message["headers"], *extra]
        await send(message)

    return with_headers


def _plain(status: int, text: str, headers: dict[str, str] | None = None) -> Response:
    return Response(text + "\n", status, headers, media_type="text/plain")


# --- routes ----------------------------------------------------------------------------------------------------------


class Pages:
    """The routes. There is no other one."""

    def __init__(self, source: StateSource, views: Views, access: Access) -> None:
        self.source, self.views, self.access = source, views, access
        self.ends = False
        self._hashes: dict[_Version, str] = {}

    def routes(self) -> list[Route]:
        at = self.access.path
        return [
            Route(at, self.page),
            Route(f"{at}live.js", self.live_script),
            Route(f"{at}events", self.events),
            Route(f"{at}input", self.input),
            Route(f"{at}blob/{{sha256}}", self.blob),
            Route(f"{at}api/{{view}}", self.view),
        ]

    async def page(self, request: Request) -> Response:
        config = {"mode": "live", "version": __version__, "live": LIVE}
        policy = content_policy(asset(APP), live=True)
        return Response(
            live_page(self.source.title, config), media_type="text/html", headers={"Content-Security-Policy": policy}
        )

    async def live_script(self, request: Request) -> Response:
        # A SharedWorker has its own policy.
        policy = "default-src 'none'; connect-src 'self'"
        return Response(asset(LIVE), media_type="text/javascript", headers={"Content-Security-Policy": policy})

    async def view(self, request: Request) -> Response:
        return await self._answered(self._view, request)

    def _view(self, request: Request) -> Response:
        name = request.path_params["view"]
        state = self.source.refresh() if name == "state" else self.source.state()
        params = Params(parse_qs(request.url.query, keep_blank_values=True, max_num_fields=100))
        body = self.views.answer(state, name, params)
        return Response(msgspec.json.encode(body), media_type="application/json")

    async def blob(self, request: Request) -> Response:
        return await self._answered(self._blob, request)

    def _blob(self, request: Request) -> Response:
        served = served_blob(self.source.state(), request.path_params["sha256"], self.views.named)
        return self._file(served, request, "private, max-age=86400, immutable")

    async def input(self, request: Request) -> Response:
        return await self._answered(self._input, request)

    def _input(self, request: Request) -> Response:
        state = self.source.state()
        if isinstance(state, InvalidState):
            raise WhyrunError(state.problems)
        served = served_input(state, Params(parse_qs(request.url.query)).one("id"))
        return self._file(served, request, "no-store")

    def _file(self, served: Served, request: Request, cache: str) -> Response:
        """The bytes, if they are those that the plan or the log names: the file is opened once, and what is hashed is
        what is sent."""
        from whyrun.artifacts.hashing import descriptor_sha256

        try:
            descriptor = os.open(served.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            raise _changed() from None
        try:
            version = _version(descriptor)
            if version not in self._hashes:
                self._hashes[version] = descriptor_sha256(descriptor)
            if self._hashes[version] != served.sha256 or _version(descriptor) != version:
                raise _changed()
        except OSError:  # a folder
            os.close(descriptor)
            raise _changed() from None
        except BaseException:
            os.close(descriptor)
            raise
        return _OpenFile(descriptor, version, served, cache, download="download" in request.query_params)

    async def events(self, request: Request) -> Response:
        after = request.headers.get("last-event-id") or request.query_params.get("after")
        stream = event_stream(self.source, after, lambda: self.ends)
        return StreamingResponse(stream, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    async def _answered(self, answer: Callable[[Request], Response], request: Request) -> Response:
        try:
            return await asyncio.to_thread(answer, request)
        except WhyrunError as wrong:
            return _problem(wrong)


def _problem(wrong: WhyrunError) -> Response:
    """The diagnostics, as the commands print them with `--json`."""
    body = {"ok": False, "diagnostics": [one.to_json() for one in wrong.diagnostics]}
    status = HTTP_STATUS.get(wrong.diagnostics[0].code, 400 if isinstance(wrong, InvalidError) else 409)
    return Response(msgspec.json.encode(body), status, media_type="application/json")


_Version = tuple[int, ...]  # of the content of an open file


class _Cut(Exception):
    """A file was written to while it was sent."""


def _version(descriptor: int) -> _Version:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _changed() -> WhyrunError:
    return error("UNKNOWN_REFERENCE", "the file has changed since it was looked at", hint="reload the page")


class _OpenFile(FileResponse):
    """The bytes of an open file in pieces, so that neither a long file nor a range of it fills the memory.

    Another file may have got the name meanwhile; and where this one is written to, nothing more of it is sent.
    """

    def __init__(self, descriptor: int, version: _Version, served: Served, cache: str, *, download: bool) -> None:
        framed = served.media_type in FRAMED
        binary = served.media_type == "application/octet-stream"
        attached = download or binary or (served.sandboxed and not framed)
        super().__init__(
            f"/dev/fd/{descriptor}",
            media_type=served.media_type,
            filename=served.name,
            content_disposition_type="attachment" if attached else "inline",
            headers={"Content-Security-Policy": ARTIFACT_POLICY, "Cache-Control": cache},
        )
        self.descriptor, self.version = descriptor, version

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_unchanged(message: Message) -> None:
            if _version(self.descriptor)[:-1] != self.version[:-1]:  # the last changes with the name, too
                raise _Cut
            await send(message)

        try:
            with suppress(_Cut):  # the browser sees that the end is missing
                await super().__call__(scope, receive, send_unchanged)
        finally:
            os.close(self.descriptor)


def application(source: StateSource, views: Views, access: Access) -> tuple[ASGIApp, Pages]:
    pages = Pages(source, views, access)
    return Guard(Starlette(routes=pages.routes()), access), pages


# --- serving ---------------------------------------------------------------------------------------------------------


def bind(host: str, port: int) -> socket.socket:
    """A socket of the server. USAGE if the port is in use, or the host is not one of this machine."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(128)  # before the address is printed: who opens it at once waits, and is not refused
    except OSError as problem:
        listener.close()
        hint = "`--port 0` takes a free port; `--host 127.0.0.1` is this machine alone"
        raise error("USAGE", f"cannot listen on {host}, port {port}: {problem.strerror}", hint=hint) from None
    return listener


def known_hosts(host: str, allowed: Iterable[str]) -> frozenset[str]:
    names = {*LOOPBACK, *(name for one in allowed if (name := host_name(one)) is not None)}
    if host not in ("0.0.0.0", "::", ""):
        names.add(host.lower())
    return frozenset(names)


def address(host: str, access: Access) -> str:
    """What the user opens: with the token."""
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{name}:{access.port}{access.path}?token={access.token}"


def serve(listener: socket.socket, source: StateSource, views: Views, access: Access) -> None:
    """Serve until the user interrupts."""
    app, pages = application(source, views, access)
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, ws="none", lifespan="off",
        proxy_headers=False, timeout_graceful_shutdown=2, loop="asyncio",
    )  # fmt: skip
    threading.Thread(target=source.state, daemon=True).start()  # the first page need not wait so long
    _Server(config, pages).run(sockets=[listener])


class _Server(uvicorn.Server):
    """Ends the event streams first: they would go on for ever."""

    def __init__(self, config: uvicorn.Config, pages: Pages) -> None:
        super().__init__(config)
        self.pages = pages

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.pages.ends = True
        super().handle_exit(sig, frame)
