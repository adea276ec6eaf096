"""A trace for OpenTelemetry: an OTLP request in protobuf. The run is the root span, each attempt a child, each task an
event of its attempt. Pure.

The messages are few, so they are encoded here; the tests decode them with the classes of opentelemetry-proto. A request
has at most 512 spans. Several requests in one file are one message to a reader: repeated fields add up.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

from whyrun.exports.formats.chrome_trace import micros
from whyrun.exports.record import Attempt, Rendered, RunRecord, Step, Subject
from whyrun.exports.texts import cut

SPANS = 512  # of a request
EVENTS = 128  # of a span; further tasks are counted
_LONGEST = 4000  # characters of a text
_INTERNAL, _OK, _ERROR = 1, 1, 2
_ERRORS = ("failed", "timed_out", "interrupted")

Value = str | bool | int | float | list[str]


def render(subject: Subject) -> Rendered:
    return Rendered(b"".join(requests(subject.record())))


def requests(record: RunRecord) -> Iterator[bytes]:
    """As many as are needed, the root span in the first."""
    spans = chain([root_span(record)], (attempt_span(record, *each) for each in record.attempts()))
    while some := list(islice(spans, SPANS)):
        yield request(record, some)


def request(record: RunRecord, spans: Sequence[bytes]) -> bytes:
    resource = _attributes(1, {
        "service.name": "whyrun", "service.version": record.engine_version, "whyrun.workflow": record.workflow,
    })  # fmt: skip
    scope = _text(1, "whyrun") + _text(2, record.engine_version)
    in_scope = _message(1, scope) + b"".join(_message(2, span) for span in spans)
    return _message(1, _message(1, resource) + _message(2, in_scope))


def trace_id(record: RunRecord) -> bytes:
    return hashlib.sha256(f"trace|{record.start_chain}".encode()).digest()[:16]


def span_id(record: RunRecord, step: str = "", attempt: int = 0) -> bytes:
    return hashlib.sha256(f"span|{record.start_chain}|{step}|{attempt}".encode()).digest()[:8]


def root_span(record: RunRecord) -> bytes:
    last = record.ended or record.last_ts
    about: dict[str, Value] = {
        "whyrun.run": record.run, "whyrun.mode": record.mode, "whyrun.state": record.state,
        "whyrun.outcome": record.outcome, "whyrun.unfinished": record.unfinished, "whyrun.backend": record.backend,
        "whyrun.up_to_date": record.up_to_date,
    }  # fmt: skip
    about |= {f"whyrun.steps.{status}": number for status, number in record.counts().items()}
    about |= {f"whyrun.spent.{currency}": amount for currency, amount in record.spent().to_json().items()}
    status = _status(record.outcome in _ERRORS, record.state == "running", record.error)
    name = f"{record.workflow} {record.run}"
    return _span(record, span_id(record), b"", name, record.started, last, about) + status


def attempt_span(record: RunRecord, step: Step, attempt: Attempt) -> bytes:
    last = record.ended or record.last_ts
    about: dict[str, Value] = {
        "whyrun.step": step.id, "whyrun.job": step.job, "whyrun.action": step.action, "whyrun.attempt": attempt.number,
        "whyrun.status": attempt.status, "whyrun.fingerprint": attempt.fingerprint,
        "whyrun.reasons": [f"{code}  {text}".rstrip() for code, text in step.reasons],
    }  # fmt: skip
    about |= {f"whyrun.spent.{currency}": amount for currency, amount in attempt.spent.to_json().items()}
    if attempt.end is None:
        about["whyrun.unfinished"] = True
    if attempt.error_type:
        about |= {"error.type": attempt.error_type, "exception.stacktrace": attempt.traceback}
    own = span_id(record, step.id, attempt.number)
    body = _span(record, own, span_id(record), step.id, attempt.start, attempt.end or last, about)
    for task in attempt.tasks[:EVENTS]:
        event = _fixed64(1, _nanos(task.ts)) + _text(2, task.status)
        body += _message(11, event + _attributes(3, {"whyrun.message": task.message}))
    if len(attempt.tasks) > EVENTS:
        body += _number(12, len(attempt.tasks) - EVENTS)
    return body + _status(attempt.status in _ERRORS, attempt.status == "running", attempt.error)


def _span(
    record: RunRecord, own: bytes, parent: bytes, name: str, start: str, end: str, about: dict[str, Value]
) -> bytes:
    """All of a span but its events and its status, which follow."""
    body = _bytes(1, trace_id(record)) + _bytes(2, own) + _bytes(4, parent) + _text(5, name) + _number(6, _INTERNAL)
    began = _nanos(start)
    return body + _fixed64(7, began) + _fixed64(8, max(began, _nanos(end))) + _attributes(9, about)


def _status(is_error: bool, is_open: bool, message: str) -> bytes:
    if is_open:
        return b""
    return _message(15, (_text(2, message) if is_error else b"") + _number(3, _ERROR if is_error else _OK))


def _nanos(ts: str) -> int:
    return micros(ts) * 1000


# --- protobuf ---------------------------------------------------------------------------------------------------------


def _varint(number: int) -> bytes:
    found = bytearray()
    number &= (1 << 64) - 1
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _bytes(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data if data else b""


def _message(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _text(field: int, text: str) -> bytes:
    return _bytes(field, cut(text, _LONGEST).encode())


def _number(field: int, number: int) -> bytes:
    return _varint(field << 3) + _varint(number)


def _fixed64(field: int, number: int) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<Q", max(0, number))


def _attributes(field: int, values: dict[str, Value]) -> bytes:
    """Empty texts and lists are left out."""
    return b"".join(
        _message(field, _text(1, name) + _message(2, _any(value)))
        for name, value in values.items()
        if value not in ("", [])
    )


def _any(value: Value) -> bytes:
    if isinstance(value, bool):
        return _number(2, int(value))
    if isinstance(value, int):
        return _number(3, value)
    if isinstance(value, float):
        return _varint(4 << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, list):
        return _message(5, b"".join(_message(1, _any(one)) for one in _some(value)))
    return _message(1, cut(value, _LONGEST).encode())


def _some(values: list[str]) -> Iterable[str]:
    return values[:EVENTS]
