"""A small S3 server on the loopback, spoken to over HTTP by the real s3fs: objects, ranges, parts, conditional puts.

What it cannot do it refuses with 501, so that a test never passes because a request was misunderstood. Tests look into
`objects` and change them, and set `before` to slow a request down or to make it fail.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

KEY, SECRET = "loopback-key", "loopback-secret-value"
READER = "reader-key"  # may read, and nothing else


class S3Server:
    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}  # "bucket/key" → content
        self.buckets = {"team"}
        self.parts: dict[str, dict[int, bytes]] = {}
        self.requests: list[tuple[str, str]] = []
        self.before: Callable[[str, str], None] = lambda method, path: None
        self.lock = threading.Lock()
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.http.daemon_threads = True
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_address[1]}"

    def env(self, key: str = KEY) -> dict[str, str]:
        """What s3fs takes from the environment."""
        return {
            "AWS_ACCESS_KEY_ID": key,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_ENDPOINT_URL": self.url,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def keys(self, kind: str) -> list[str]:
        return sorted(key for key in self.objects if f"/v1/{kind}/" in key)

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(_Handler):
            s3 = server

        return Handler


@contextmanager
def s3_server() -> Iterator[S3Server]:
    server = S3Server()
    server.thread.start()
    try:
        yield server
    finally:
        server.close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else an answer in two parts takes 40 ms
    s3: S3Server

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self._serve(self._get)

    def do_HEAD(self) -> None:
        self._serve(self._get)

    def do_PUT(self) -> None:
        self._serve(self._put)

    def do_POST(self) -> None:
        self._serve(self._post)

    def do_DELETE(self) -> None:
        self._serve(self._delete)

    # -- around each request --

    def _serve(self, answer: Callable[[], None]) -> None:
        split = urlsplit(self.path)
        self.name = unquote(split.path).lstrip("/")
        self.query = {key: values[0] for key, values in parse_qs(split.query, keep_blank_values=True).items()}
        self.body = self._read_body()
        self.s3.requests.append((self.command, self.name))
        try:
            self.s3.before(self.command, self.name)
            credential = self.headers.get("Authorization", "")
            reader = f"Credential={READER}/" in credential
            if f"Credential={KEY}/" not in credential and not reader:
                self._refuse(403, "InvalidAccessKeyId")
            elif reader and self.command not in ("GET", "HEAD"):
                self._refuse(403, "AccessDenied")
            elif self.name.split("/")[0] not in self.s3.buckets:
                self._refuse(404, "NoSuchBucket")
            else:
                answer()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the other side has lost patience, as it may

    def _read_body(self) -> bytes:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "aws-chunked" not in self.headers.get("Content-Encoding", ""):
            return body
        found = b""
        while body:
            head, _, rest = body.partition(b"\r\n")
            size = int(head.split(b";")[0], 16)
            if not size:
                break
            found, body = found + rest[:size], rest[size + 2 :]
        return found

    def _send(self, status: int, data: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", headers.pop("length", str(len(data))))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _refuse(self, status: int, code: str) -> None:
        self._send(status, f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode())

    def _xml(self, text: str) -> None:
        self._send(200, f'<?xml version="1.0"?>{text}'.encode(), Content_Type="application/xml")

    # -- requests --

    def _get(self) -> None:
        if "/" not in self.name.rstrip("/"):
            self._list()
            return
        data = self.s3.objects.get(self.name)
        if data is None:
            self._refuse(404, "NoSuchKey")
            return
        etag = f'"{md5(data, usedforsecurity=False).hexdigest()}"'
        asked = self.headers.get("Range")
        if asked is None:
            self._send(200, data, ETag=etag)
            return
        first, _, last = asked.removeprefix("bytes=").partition("-")
        start, end = int(first), min(int(last or len(data)), len(data) - 1)
        if start >= len(data):
            self._refuse(416, "InvalidRange")
            return
        self._send(206, data[start : end + 1], ETag=etag, Content_Range=f"bytes {start}-{end}/{len(data)}")

    def _list(self) -> None:
        if self.query.get("list-type") != "2":
            self._refuse(501, "NotImplemented")
            return
        bucket, prefix = self.name.rstrip("/"), self.query.get("prefix", "")
        found = [key for key in sorted(self.s3.objects) if key.startswith(f"{bucket}/{prefix}")]
        keys = "".join(
            f"<Contents><Key>{escape(key.partition('/')[2])}</Key><Size>{len(self.s3.objects[key])}</Size></Contents>"
            for key in found[: int(self.query.get("max-keys", "1000"))]
        )
        self._xml(f"<ListBucketResult><IsTruncated>false</IsTruncated>{keys}</ListBucketResult>")

    def _put(self) -> None:
        with self.s3.lock:
            if "uploadId" in self.query:
                self.s3.parts[self.query["uploadId"]][int(self.query["partNumber"])] = self.body
            elif self.headers.get("If-None-Match") == "*" and self.name in self.s3.objects:
                self._refuse(412, "PreconditionFailed")
                return
            else:
                self.s3.objects[self.name] = self.body
        self._send(200, ETag=f'"{md5(self.body, usedforsecurity=False).hexdigest()}"')

    def _post(self) -> None:
        with self.s3.lock:
            if "uploads" in self.query:
                upload = f"upload-{len(self.s3.parts)}"
                self.s3.parts[upload] = {}
                self._xml(
                    f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
                )
                return
            if "uploadId" not in self.query:
                self._refuse(501, "NotImplemented")
                return
            parts = self.s3.parts.pop(self.query["uploadId"])
            self.s3.objects[self.name] = b"".join(parts[number] for number in sorted(parts))
        self._xml("<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>")

    def _delete(self) -> None:
        self.s3.parts.pop(self.query.get("uploadId", ""), None)
        self._send(204)
