"""The parameters of `http/json`, and the checks of its `with:` block."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Struct, field

from whyrun.actions.http.exchange import split_url
from whyrun.actions.parameters import Meta, Parameters
from whyrun.actions.problem import Problem
from whyrun.money import DEFAULT_CURRENCY, check_currency, decimal
from whyrun.workflow import advice
from whyrun.workflow.fields import parse_duration

# Durations are written as in workflows: `30s`, `1h30m`, or a number of seconds. Pointers follow RFC 6901.
_DURATION = Meta(pattern=r"^(\d+(\.\d+)?(d|h|ms|m|s))+$", title="a duration like `30s`, `200ms` or `1h30m`")
Duration = Annotated[str, _DURATION] | Annotated[float, Meta(ge=0, title="a number of seconds")]
_POSITIVE = Meta(pattern=r"^(?=.*[1-9])(\d+(\.\d+)?(d|h|ms|m|s))+$", title="a duration like `30s`, above 0")
Longer = Annotated[str, _POSITIVE] | Annotated[float, Meta(gt=0, title="a number of seconds > 0")]
Pointer = Annotated[str, Meta(pattern=r"^(/.*)?$", title="a JSON pointer like `/id`")]
Scalar = str | int | float | bool | None
Query = dict[str, Scalar | list[Scalar]]
Price = int | float | str  # a decimal; a text is taken as it is written
Status = Annotated[int, Meta(ge=100, le=599)]

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OWN_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "accept-encoding", "connection"})
ID = "{id}"


def seconds(duration: str | float) -> float:
    number = parse_duration(duration) if isinstance(duration, str) else duration
    if number is None:
        raise ValueError(f"`{duration}` is not a duration: write `30s`, `5m`, `1h30m`, or a number of seconds")
    return number


class Retries(Struct, forbid_unknown_fields=True, frozen=True):
    """Retries of a request within one attempt of the step. The waits are `backoff`, twice that, four times that, …"""

    max: Annotated[int, Meta(ge=0, le=1000)] = 4
    backoff: Duration = "1s"
    limit: Duration = "1m"  # the longest wait, also for `Retry-After` of a server
    on: list[Status] | None = None  # None: 429 and every 5xx


class Progress(Struct, forbid_unknown_fields=True, frozen=True):
    done: Pointer
    total: Pointer | float = 100.0


class Poll(Struct, forbid_unknown_fields=True, frozen=True):
    """Poll a submitted request until it is done."""

    id: Annotated[str, Meta(min_length=1)]  # where the first answer has the id: a pointer, or the name of a header
    url: str  # contains `{id}`; if it is only `{id}`, the id is itself a URL
    until: dict[Pointer, Scalar | list[Scalar]]
    fail: dict[Pointer, Scalar | list[Scalar]] = {}

    def __post_init__(self) -> None:
        if ID not in self.url:
            raise ValueError(f"`poll.url` does not contain the id: write `{ID}` in it")
        if self.url != ID:
            check_url("poll.url", self.url.replace(ID, "id"))
        if not self.id.startswith("/") and not _is_header(self.id):
            hint = f": write `/{self.id}`" if self.id.isidentifier() else ""
            message = "`poll.id` must be a JSON pointer, or the name of a header: `Location`, or one with a `-` in it"
            raise ValueError(f"{message}{hint}")
        if not self.until:
            raise ValueError('`poll.until` is empty; write when the request is done: `{"/status": [done]}`')


class Wait(Struct, forbid_unknown_fields=True, frozen=True):
    """How to poll; it does not change the result."""

    every: Duration = "2s"
    timeout: Longer = "1h"  # for one attempt
    progress: Progress | None = None

    def __post_init__(self) -> None:
        if seconds(self.every) < 0.01:
            raise ValueError("`wait.every` must be at least 10ms")


def _is_header(name: str) -> bool:
    """A plain word could be a header, too, but is more likely a pointer without its slash."""
    return bool(_HEADER.fullmatch(name)) and (name.lower() == "location" or "-" in name)


class Params(Parameters):
    uncounted: ClassVar[tuple[str, ...]] = (
        "timeout", "connect_timeout", "retries", "wait", "max_bytes", "idempotency_key", "redirects",
        "cost", "price", "currency",
    )  # fmt: skip

    url: Annotated[str, Meta(pattern="^https?://", title="an address that starts with `http://` or `https://`")]
    method: Annotated[
        Literal["GET", "POST", "PUT", "PATCH", "DELETE"] | None,
        Meta(description="null: POST with a body, else GET"),
    ] = None
    headers: Annotated[dict[str, str], Meta(description="may use `${{ secrets.NAME }}`")] = field(default_factory=dict)
    query: Annotated[Query, Meta(description="added to the URL")] = field(default_factory=dict)
    json: Annotated[Any, Meta(description="the body, sent as JSON")] = None
    body: Annotated[Any, Meta(description="the body as it is: a text, or a bound file")] = None
    expect: Annotated[
        Status | list[Status] | None, Meta(description="statuses that count as success; null: any 2xx")
    ] = None
    result: Annotated[Pointer, Meta(description="JSON pointer to the part of the answer that becomes `Answer`")] = ""
    download: Annotated[Pointer | None, Meta(description="JSON pointer to the URL of `Body` in the answer")] = None
    timeout: Annotated[Longer, Meta(description="how long the server may send nothing")] = "1m"
    connect_timeout: Longer = "10s"
    retries: Annotated[Retries, Meta(description="after 429, 5xx and lost connections")] = Retries()
    idempotency_key: Annotated[
        bool | str, Meta(description="true, or the name of a header; the server uses it to detect a repeated request")
    ] = False
    redirects: Annotated[int, Meta(ge=0, le=50)] = 5
    max_bytes: Annotated[int, Meta(gt=0, description="of an answer")] = 64 * 1024 * 1024
    poll: Annotated[Poll | None, Meta(description="submit, then poll until done")] = None
    wait: Annotated[Wait, Meta(description="how `poll` waits")] = Wait()
    cost: Annotated[
        str | dict[Pointer, Price] | None,
        Meta(description="where an answer tells the cost: a JSON pointer, a header, or pointers with prices of a unit"),
    ] = None
    price: Annotated[
        Price | None, Meta(description="of one request; it is also what is recorded if there is no `cost`")
    ] = None
    currency: Annotated[str, Meta(description="of `cost` and `price`")] = DEFAULT_CURRENCY

    def __post_init__(self) -> None:
        check_url("url", self.url)
        if self.json is not None and self.body is not None:
            raise ValueError("use either `json` or `body`: a request has one body")
        if self.body is not None and not isinstance(self.body, str | Path):
            raise ValueError("`body` must be a text or a bound file; use `json` for JSON")
        if self.verb == "GET" and (self.json is not None or self.body is not None):
            raise ValueError("a GET has no body: write `method: POST`, or use `query`")
        if self.poll is None and self.wait != Wait():
            raise ValueError("`wait` belongs to `poll`, and there is no `poll`; add it, or remove `wait`")
        for name, value in self.headers.items():
            if not _HEADER.fullmatch(name):
                raise ValueError(f"`{name}` is not a valid name of a header")
            if name.lower() in _OWN_HEADERS:
                raise ValueError(f"the action itself sets the header `{name}`; remove it")
            if not value.isprintable() or not value.isascii():
                raise ValueError(f"the header `{name}` contains characters that headers cannot have")
        if isinstance(self.cost, str) and not self.cost.startswith("/") and not _is_header(self.cost):
            hint = f": write `/{self.cost}`" if self.cost.isidentifier() else ""
            raise ValueError(f"`cost` must be a JSON pointer, or the name of a header with a `-` in it{hint}")
        if isinstance(self.cost, dict):
            for pointer, price in self.cost.items():
                decimal(f"`cost.{pointer}`", price)
        if self.price is not None:
            decimal("`price`", self.price)
        check_currency(self.currency)
        if isinstance(self.idempotency_key, str) and not _HEADER.fullmatch(self.idempotency_key):
            raise ValueError("`idempotency_key` must be true, or the name of the header for the key")

    @property
    def verb(self) -> str:
        if self.method is not None:
            return self.method
        return "GET" if self.json is None and self.body is None else "POST"

    @property
    def key_header(self) -> str | None:
        """The name of the header with the idempotency key, by which the server detects a repeated request."""
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


_TYPES = {  # the types of the outputs, the usual ones first
    "Answer": (
        *("json", "string", "integer", "number", "boolean", "text"),
        *("json[]", "string[]", "integer[]", "number[]"),  # of a list or an object
    ),
    "Body": ("file", "image", "text", "dataset", "json", "string"),
}


def check_outputs(with_: Mapping[str, Any], outputs: Mapping[str, str]) -> list[Problem]:
    """Problems that would otherwise appear only after the request was sent and paid for."""
    problems = []
    for name, type_ in outputs.items():
        known = _TYPES.get(name, (type_,))
        if type_ not in known:
            hint = "write one of " + ", ".join(f"`{one}`" for one in known)
            problems.append(Problem(f"outputs.{name}", f"`{name}` cannot be of type `{type_}`", hint))
    if with_.get("download") is not None and "Body" not in outputs:
        message = "`download` writes the output `Body`, which the job does not declare"
        problems.append(Problem("download", message, advice.declare_body()))
    return problems


def check_url(name: str, url: str) -> None:
    try:
        split_url(url)
    except ValueError as problem:
        raise ValueError(f"`{name}` is refused: {problem}") from None
