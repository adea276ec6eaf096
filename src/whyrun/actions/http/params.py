"""The parameters of `http/json`: what may stand in its `with:` block."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Struct, field

from whyrun.actions.builtin.http_exchange import split_url
from whyrun.actions.parameters import Meta, Parameters
from whyrun.actions.problem import Problem
from whyrun.workflow.fields import parse_duration

# Both begin like those of the language: `30s`, `1h30m`, or a number of seconds; and RFC 6901.
_DURATION = Meta(pattern=r"^(\d+(\.\d+)?(d|h|ms|m|s))+$", title="a duration like `30s`, `200ms` or `1h30m`")
Duration = Annotated[str, _DURATION] | Annotated[float, Meta(ge=0, title="a number of seconds")]
_POSITIVE = Meta(pattern=r"^(?=.*[1-9])(\d+(\.\d+)?(d|h|ms|m|s))+$", title="a duration like `30s`, above 0")
Longer = Annotated[str, _POSITIVE] | Annotated[float, Meta(gt=0, title="a number of seconds > 0")]
Pointer = Annotated[str, Meta(pattern=r"^(/.*)?$", title="a JSON pointer like `/id`")]
Scalar = str | int | float | bool | None
Query = dict[str, Scalar | list[Scalar]]
Status = Annotated[int, Meta(ge=100, le=599)]

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OWN_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "accept-encoding", "connection"})
ID = "{id}"


def seconds(duration: str | float) -> float:
    found = parse_duration(duration) if isinstance(duration, str) else duration
    if found is None:
        raise ValueError(f"`{duration}` is no duration: write `30s`, `5m`, `1h30m`, or a number of seconds")
    return found


class Retries(Struct, forbid_unknown_fields=True, frozen=True):
    """Tries after the first, within one attempt of the step. The waits are `backoff`, twice that, four times that, …"""

    max: Annotated[int, Meta(ge=0, le=1000)] = 4
    backoff: Duration = "1s"
    limit: Duration = "1m"  # the longest wait, also of what a server asks for with `Retry-After`
    on: list[Status] | None = None  # None: 429 and every 5xx


class Progress(Struct, forbid_unknown_fields=True, frozen=True):
    done: Pointer
    total: Pointer | float = 100.0


class Poll(Struct, forbid_unknown_fields=True, frozen=True):
    """Ask again and again what became of a request."""

    id: Annotated[str, Meta(min_length=1)]  # where the first answer names it: a pointer, or the name of a header
    url: str  # with `{id}`; nothing but `{id}`: what was named is a URL itself
    until: dict[Pointer, Scalar | list[Scalar]]
    fail: dict[Pointer, Scalar | list[Scalar]] = {}

    def __post_init__(self) -> None:
        if ID not in self.url:
            raise ValueError(f"`poll.url` does not say where the id goes: write `{ID}` in it")
        if self.url != ID:
            check_url("poll.url", self.url.replace(ID, "id"))
        if not self.id.startswith("/") and not _is_header(self.id):
            hint = f": write `/{self.id}`" if self.id.isidentifier() else ""
            message = "`poll.id` is a JSON pointer, or the name of a header: `Location`, or one with a `-` in it"
            raise ValueError(f"{message}{hint}")
        if not self.until:
            raise ValueError('`poll.until` says when it is done: `{"/status": [done]}`')


class Wait(Struct, forbid_unknown_fields=True, frozen=True):
    """How to ask: none of it changes what comes."""

    every: Duration = "2s"
    timeout: Longer = "1h"  # of one attempt
    progress: Progress | None = None

    def __post_init__(self) -> None:
        if seconds(self.every) < 0.01:
            raise ValueError("`wait.every` is at least 10ms")


def _is_header(name: str) -> bool:
    """A plain word could be one too, but is rather a pointer whose slash was forgotten."""
    return bool(_HEADER.fullmatch(name)) and (name.lower() == "location" or "-" in name)


class Params(Parameters):
    uncounted: ClassVar[tuple[str, ...]] = ("timeout", "connect_timeout", "retries", "wait", "max_bytes")

    url: Annotated[str, Meta(pattern="^https?://", title="an address that begins with `http://` or `https://`")]
    method: Annotated[
        Literal["GET", "POST", "PUT", "PATCH", "DELETE"] | None,
        Meta(description="where it is null: POST with a body, else GET"),
    ] = None
    headers: Annotated[dict[str, str], Meta(description="may hold `${{ secrets.NAME }}`")] = field(default_factory=dict)
    query: Annotated[Query, Meta(description="added to the URL")] = field(default_factory=dict)
    json: Annotated[Any, Meta(description="the body, sent as JSON")] = None
    body: Annotated[Any, Meta(description="the body as it is: a text, or a bound file")] = None
    expect: Annotated[
        Status | list[Status] | None, Meta(description="statuses that are fine; where it is null: any 2xx")
    ] = None
    result: Annotated[Pointer, Meta(description="the part of the answer that is `Answer`, as a JSON pointer")] = ""
    download: Annotated[Pointer | None, Meta(description="where the answer names the URL of `Body`")] = None
    timeout: Annotated[Longer, Meta(description="the longest silence of the server")] = "1m"
    connect_timeout: Longer = "10s"
    retries: Annotated[Retries, Meta(description="after 429, 5xx and lost connections")] = Retries()
    idempotency_key: Annotated[
        bool | str, Meta(description="true, or a header's name: the server knows a repeated request by it")
    ] = False
    redirects: Annotated[int, Meta(ge=0, le=50)] = 5
    max_bytes: Annotated[int, Meta(gt=0, description="of an answer")] = 64 * 1024 * 1024
    poll: Annotated[Poll | None, Meta(description="submit, then ask until done")] = None
    wait: Annotated[Wait, Meta(description="how `poll` waits")] = Wait()

    def __post_init__(self) -> None:
        check_url("url", self.url)
        if self.json is not None and self.body is not None:
            raise ValueError("there are both `json` and `body`: a request has one body")
        if self.body is not None and not isinstance(self.body, str | Path):
            raise ValueError("`body` is a text or a bound file; what is JSON goes into `json`")
        if self.verb == "GET" and (self.json is not None or self.body is not None):
            raise ValueError("a GET has no body: write `method: POST`, or use `query`")
        if self.poll is None and self.wait != Wait():
            raise ValueError("`wait` says how to wait for what `poll` asks for, and there is no `poll`")
        for name, value in self.headers.items():
            if not _HEADER.fullmatch(name):
                raise ValueError(f"`{name}` is no name of a header")
            if name.lower() in _OWN_HEADERS:
                raise ValueError(f"the header `{name}` is set by the action itself")
            if not value.isprintable() or not value.isascii():
                raise ValueError(f"the header `{name}` holds characters that a header cannot hold")
        if isinstance(self.idempotency_key, str) and not _HEADER.fullmatch(self.idempotency_key):
            raise ValueError("`idempotency_key` is true, or the name of the header that carries it")

    @property
    def verb(self) -> str:
        if self.method is not None:
            return self.method
        return "GET" if self.json is None and self.body is None else "POST"

    @property
    def key_header(self) -> str | None:
        """The name of the header that carries a key by which the server knows a repeated request."""
        if self.idempotency_key is True:
            return "Idempotency-Key"
        return self.idempotency_key or None

    def is_expected(self, status: int) -> bool:
        if self.expect is None:
            return 200 <= status < 300
        return status in (self.expect if isinstance(self.expect, list) else [self.expect])

    def is_retried(self, status: int) -> bool:
        on = self.retries.on
        return status == 429 or 500 <= status < 600 if on is None else status in on


_TYPES = {  # of the outputs, first those that they usually are
    "Answer": ("json", "string", "integer", "number", "boolean", "text"),
    "Body": ("file", "image", "text", "dataset", "json", "string"),
}


def check_outputs(with_: Mapping[str, Any], outputs: Mapping[str, str]) -> list[Problem]:
    """What would fail only after the request was made, and paid for."""
    problems = []
    for name, type_ in outputs.items():
        known = _TYPES.get(name, (type_,))
        if type_ not in known:
            hint = "write one of " + ", ".join(f"`{one}`" for one in known)
            problems.append(Problem(f"outputs.{name}", f"`{name}` cannot be of type `{type_}`", hint))
    if with_.get("download") is not None and "Body" not in outputs:
        message = "`download` fills the output `Body`, which the job does not declare"
        problems.append(Problem("download", message, "declare it: `outputs: {Body: {type: file}}`"))
    return problems


def check_url(name: str, url: str) -> None:
    try:
        split_url(url)
    except ValueError as problem:
        raise ValueError(f"`{name}` is refused: {problem}") from None
