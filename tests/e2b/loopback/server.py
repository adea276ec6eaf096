"""A server on this machine that speaks what E2B speaks: the REST API of its control plane, and what runs in a sandbox.

    with Loopback(folder) as server:
        sandbox = e2b.Sandbox.create(**server.options())   # or set `server.environment()`
        server.sandboxes[sandbox.sandbox_id].faults.chunk = 3
        server.network.cut()

The sandboxes are folders and processes of this machine. The SDK in front of it is the real one, unpatched.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from loopback import files_api, process_api
from loopback.exchange import Exchange, Refused
from loopback.faults import ConnectionLost, Faults, Network, due
from loopback.sandbox import Sandbox, Template

DATA_TEMPLATE = "data"  # the name of one that has the packages of the data actions
API_KEY = "e2b_" + "0" * 40


class Loopback:
    def __init__(self, folder: Path, faults: Faults | None = None) -> None:
        self.faults = faults or Faults()  # of sandboxes that are still to be made
        self.network = Network()
        self.template = Template()
        self.templates = {DATA_TEMPLATE: Template(packages=None)}  # by name; any other name gives `template`
        self.sandboxes: dict[str, Sandbox] = {}
        self.refuse_sandboxes: Refused | None = None
        self.before_deletion: Callable[[Sandbox], None] = lambda sandbox: (
            None
        )  # its processes have ended, its files stand
        self.requests: list[str] = []  # "POST /v2/sandboxes", in the order in which they came
        self._folder = folder
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._http: _Server | None = _Server(self)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def environment(self) -> dict[str, str]:
        return {"E2B_API_URL": self.url, "E2B_SANDBOX_URL": self.url, "E2B_API_KEY": API_KEY}

    def options(self) -> dict[str, str]:
        return {"api_url": self.url, "sandbox_url": self.url, "api_key": API_KEY}

    # --- its end -------------------------------------------------------------------------------------------------

    def die(self) -> None:
        """The server is gone: connections are reset, new ones refused. Its sandboxes run on, out of reach."""
        http, self._http = self._http, None
        if http is None:
            return
        http.shutdown()
        http.server_close()
        self._thread.join()
        self.network.close()
        self.drop_connections()

    def drop_connections(self) -> None:
        """Every connection is closed, also in the middle of an answer. New ones are welcome."""
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # closed by the other side

    def close(self) -> None:
        self.die()
        for sandbox in list(self.sandboxes.values()):
            sandbox.kill()

    def opened(self, connection: socket.socket) -> None:
        with self._lock:
            self._connections.add(connection)

    def closed(self, connection: socket.socket) -> None:
        with self._lock:
            self._connections.discard(connection)

    # --- what it answers -----------------------------------------------------------------------------------------

    def handle(self, exchange: Exchange) -> None:
        self.requests.append(f"{exchange.method} {exchange.path}")
        sandbox_id = exchange.headers.get("E2b-Sandbox-Id")
        if sandbox_id is None:
            self._control(exchange)
        else:
            self._inside(self._addressed(sandbox_id, exchange), exchange)

    def _control(self, exchange: Exchange) -> None:
        if exchange.headers.get("X-API-KEY") != API_KEY:
            raise Refused(401, "Invalid API key")
        match exchange.method, exchange.path.strip("/").split("/"):
            case "POST", ["v2", "sandboxes"]:
                exchange.answer(self._create(exchange.json()).created(), 201)
            case "GET", ["v2", "sandboxes"]:
                exchange.answer([sandbox.detail() for sandbox in self._alive()])
            case "GET", ["sandboxes", sandbox_id]:
                exchange.answer(self._known(sandbox_id).detail())
            case "DELETE", ["sandboxes", sandbox_id]:
                self._known(sandbox_id).kill()
                exchange.nothing()
            case "POST", ["sandboxes", sandbox_id, "timeout"]:
                self._known(sandbox_id).set_timeout(exchange.json()["timeout"])
                exchange.nothing()
            case "POST", ["v2", "sandboxes", sandbox_id, "connect"]:
                exchange.answer(self._known(sandbox_id).created())
            case _:
                raise Refused(404, f"no such route: {exchange.method} {exchange.path}")

    def _create(self, request: dict[str, Any]) -> Sandbox:
        if self.refuse_sandboxes is not None:
            raise self.refuse_sandboxes
        template = self.templates.get(request["templateID"], self.template)
        sandbox = Sandbox(self._folder, request, self.faults.copy(), lambda one: self.before_deletion(one), template)
        self.sandboxes[sandbox.id] = sandbox
        return sandbox

    def _alive(self) -> list[Sandbox]:
        return [sandbox for sandbox in self.sandboxes.values() if sandbox.alive]

    def _known(self, sandbox_id: str) -> Sandbox:
        sandbox = self.sandboxes.get(sandbox_id)
        if sandbox is None or not sandbox.alive:
            raise Refused(404, f"sandbox {sandbox_id} not found")
        return sandbox

    def _addressed(self, sandbox_id: str, exchange: Exchange) -> Sandbox:
        """As the proxy in front of the sandboxes would answer."""
        sandbox = self.sandboxes.get(sandbox_id)
        if sandbox is None or not sandbox.alive:
            raise Refused(502, "The sandbox was not found")
        if sandbox.faults.port_closed:
            raise Refused(502, "The sandbox is running but port is not open")
        if exchange.path != "/health" and exchange.headers.get("X-Access-Token") != sandbox.token:
            raise Refused(401, "unauthenticated")
        return sandbox

    def _inside(self, sandbox: Sandbox, exchange: Exchange) -> None:
        route = exchange.path.rpartition("/")[2]
        if due(sandbox.faults.drop_requests, route):
            raise ConnectionLost
        if sandbox.faults.request_delay:
            time.sleep(sandbox.faults.request_delay)
        match exchange.method, exchange.path.strip("/").split("/"):
            case "GET", ["health"]:
                exchange.nothing()
            case "GET", ["files"]:
                files_api.download(sandbox, exchange)
            case "POST", ["files"]:
                files_api.upload(sandbox, exchange)
            case "POST", ["process.Process", call] if call in process_api.STREAMS:
                process_api.STREAMS[call](sandbox, exchange)
            case "POST", ["process.Process", call] if call in process_api.CALLS:
                self._answer(sandbox, exchange, route, process_api.CALLS[call](sandbox, exchange.json()))
            case "POST", ["filesystem.Filesystem", call] if call in files_api.CALLS:
                self._answer(sandbox, exchange, route, files_api.CALLS[call](sandbox, exchange.json()))
            case _:
                raise Refused(404, f"no such route: {exchange.method} {exchange.path}", "unimplemented")

    def _answer(self, sandbox: Sandbox, exchange: Exchange, route: str, answer: dict[str, Any]) -> None:
        if due(sandbox.faults.lose_answers, route):
            raise ConnectionLost
        exchange.answer(answer)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, loopback: Loopback) -> None:
        self.loopback = loopback
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """What the other side does to a connection is no error of ours; anything else shows in the test's output."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.server.loopback.opened(self.connection)

    def finish(self) -> None:
        self.server.loopback.closed(self.connection)
        try:
            super().finish()
        except OSError:
            pass  # the other side is gone

    def _serve(self) -> None:
        loopback = self.server.loopback
        try:
            loopback.network.pass_through()
            exchange = Exchange(self, loopback.network)
            try:
                loopback.handle(exchange)
            except Refused as refused:
                exchange.refuse(refused)
            self.wfile.flush()
        except (ConnectionLost, ConnectionError):
            self.close_connection = True
            try:
                self.connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    do_GET = do_POST = do_DELETE = do_PUT = _serve

    def log_message(self, format: str, *arguments: Any) -> None:
        pass
