"""One HTTP exchange: the body of a request, whole or as it comes; answers, whole or as a stream of frames."""

from __future__ import annotations

import json
import shutil
import struct
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any, BinaryIO
from urllib.parse import parse_qs, urlsplit

from loopback.faults import ConnectionLost, Network

_FRAME = struct.Struct(">BI")
_LAST = 2
_PIECE = 1 << 16


class Refused(Exception):
    """An answer other than success."""

    def __init__(self, status: int, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code  # the word of the Connect protocol; plain HTTP has the number


class Exchange:
    def __init__(self, handler: BaseHTTPRequestHandler, network: Network) -> None:
        self._handler = handler
        self._network = network
        target = urlsplit(handler.path)
        self.method = handler.command
        self.path = target.path
        self.query = {name: values[-1] for name, values in parse_qs(target.query).items()}
        self.headers = handler.headers
        self._unread = True

    # --- the request ---------------------------------------------------------------------------------------------

    def pieces(self) -> Iterator[bytes]:
        """The body as it arrives, decompressed."""
        self._unread = False
        pieces = self._chunked() if self.headers.get("Transfer-Encoding") == "chunked" else self._sized()
        if self.headers.get("Content-Encoding") != "gzip":
            yield from pieces
            return
        inflate = zlib.decompressobj(wbits=31)
        for piece in pieces:
            yield inflate.decompress(piece)
        yield inflate.flush()

    def _sized(self) -> Iterator[bytes]:
        remaining = int(self.headers.get("Content-Length", 0))
        while remaining:
            piece = self._handler.rfile.read(min(remaining, _PIECE))
            if not piece:
                raise ConnectionLost
            remaining -= len(piece)
            yield piece

    def _chunked(self) -> Iterator[bytes]:
        while True:
            line = self._handler.rfile.readline()
            if not line:
                raise ConnectionLost
            size = int(line.split(b";")[0], 16)
            data = self._handler.rfile.read(size)
            self._handler.rfile.readline()
            if not size:
                return
            if len(data) < size:
                raise ConnectionLost
            yield data

    def body(self) -> bytes:
        return b"".join(self.pieces())

    def json(self) -> Any:
        return json.loads(self.body() or b"{}")

    def frames(self) -> Iterator[Any]:
        """The messages of a Connect stream, as they arrive."""
        pieces = self.pieces()
        pending = b""
        while True:
            while len(pending) < _FRAME.size or len(pending) < _FRAME.size + _FRAME.unpack_from(pending)[1]:
                piece = next(pieces, None)
                if piece is None:
                    return
                pending += piece
            flag, length = _FRAME.unpack_from(pending)
            message, pending = pending[_FRAME.size : _FRAME.size + length], pending[_FRAME.size + length :]
            if flag != _LAST:
                yield json.loads(message)

    # --- the answer ----------------------------------------------------------------------------------------------

    def answer(self, value: Any, status: int = 200) -> None:
        self._answer_bytes(json.dumps(value).encode(), status, "application/json")

    def nothing(self, status: int = 204) -> None:
        self._answer_bytes(b"", status, None)

    def file(self, source: BinaryIO, size: int) -> None:
        self._head(200, {"Content-Type": "application/octet-stream", "Content-Length": str(size)})
        shutil.copyfileobj(source, self._handler.wfile)

    def refuse(self, refused: Refused) -> None:
        self.answer({"code": refused.code or refused.status, "message": refused.message}, refused.status)

    def _answer_bytes(self, data: bytes, status: int, kind: str | None) -> None:
        headers = {"Content-Length": str(len(data))} if status != 204 else {}
        if kind is not None:
            headers["Content-Type"] = kind
        self._head(status, headers)
        self._handler.wfile.write(data)

    def _head(self, status: int, headers: dict[str, str]) -> None:
        if self._unread:
            for _ in self.pieces():
                pass  # or the rest of the body would be taken for the next request
        self._network.pass_through()
        self._handler.send_response(status)
        for name, value in headers.items():
            self._handler.send_header(name, value)
        self._handler.end_headers()

    # --- a stream of frames --------------------------------------------------------------------------------------

    def begin_stream(self) -> None:
        self._head(200, {"Content-Type": "application/connect+json", "Transfer-Encoding": "chunked"})

    def frame(self, message: Any, flag: int = 0) -> None:
        data = json.dumps(message).encode()
        self._network.pass_through()
        self._chunk(_FRAME.pack(flag, len(data)) + data)

    def end_stream(self, error: Refused | None = None) -> None:
        self.frame({} if error is None else {"error": {"code": error.code, "message": error.message}}, _LAST)
        self._chunk(b"")

    def _chunk(self, data: bytes) -> None:
        self._handler.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self._handler.wfile.flush()
