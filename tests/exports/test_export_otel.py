"""`otel`: decoded by the classes of opentelemetry-proto, and held to what receivers ask of spans."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest
from export_lab import RUNS, exported, fixed, subject
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from project_lab import Lab
from whyrun.errors import WhyrunError
from whyrun.exports import live_trace
from whyrun.exports.formats.otel import EVENTS, requests
from whyrun.exports.live_trace import LiveTrace, endpoint_of
from whyrun.exports.record import Attempt, Step, TaskMark
from whyrun.exports.registry import export


def read(data: bytes) -> tuple[Span, list[Span]]:
    """(the root, the others). No field is unknown, IDs are unique, parents are there, times are in order."""
    request, known = ExportTraceServiceRequest.FromString(data), ExportTraceServiceRequest.FromString(data)
    known.DiscardUnknownFields()
    if known.SerializeToString() != request.SerializeToString():
        raise ValueError("unknown fields")
    spans = [span for one in request.resource_spans for scope in one.scope_spans for span in scope.spans]
    for one in request.resource_spans:
        assert attributes(one.resource).get("service.name") == "whyrun"
        assert [scope.scope.name for scope in one.scope_spans] == ["whyrun"]
    ids = {span.span_id for span in spans}
    assert len(ids) == len(spans)
    roots = [span for span in spans if not span.parent_span_id]
    assert len(roots) == 1
    for span in spans:
        assert (len(span.trace_id), len(span.span_id)) == (16, 8)
        assert span.trace_id == roots[0].trace_id
        assert span.name
        assert span.kind == Span.SPAN_KIND_INTERNAL
        assert not span.parent_span_id or span.parent_span_id in ids
        assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano
        assert len({one.key for one in span.attributes}) == len(span.attributes)
        assert all(one.key and one.value.WhichOneof("value") for one in span.attributes)
    return roots[0], [span for span in spans if span.parent_span_id]


def attributes(message: Any) -> dict[str, Any]:
    found = {}
    for one in message.attributes:
        value = getattr(one.value, one.value.WhichOneof("value"))
        found[one.key] = [each.string_value for each in value.values] if hasattr(value, "values") else value
    return found


def test_real_runs(exporting: Lab) -> None:
    read_ = {kind: read(exported(exporting, "otel", kind).data) for kind in RUNS}
    states = {kind: (root.name, root.status.code) for kind, (root, _) in read_.items()}
    assert states == {
        "success": ("study r0001", Status.STATUS_CODE_OK), "failure": ("study r0002", Status.STATUS_CODE_ERROR),
        "comparison": ("study r0003", Status.STATUS_CODE_OK), "killed": ("study r0004", Status.STATUS_CODE_ERROR),
    }  # fmt: skip
    root, spans = read_["success"]
    assert attributes(root)["whyrun.spent.USD"] == "0.04"
    assert attributes(root)["whyrun.steps.succeeded"] == 6
    (script,) = [span for span in spans if span.name == "Job:Script"]
    assert [(event.name, attributes(event)) for event in script.events] == [
        ("EXECUTES", {"whyrun.message": "wrote a <b>story</b> & more"})
    ]
    assert attributes(script)["whyrun.reasons"][0] == "MISSING_OUTPUT  Artifact:Script.Story"
    _, spans = read_["failure"]
    assert [(span.name, attributes(span)["whyrun.attempt"]) for span in spans] == [("Job:Check", 1), ("Job:Check", 2)]
    assert spans[1].status.message.startswith("cannot read data/table.csv, …/other.csv as ***")
    assert attributes(spans[1])["error.type"] == "ValueError"


class _Receiver(BaseHTTPRequestHandler):
    """Takes traces as any OTLP receiver does, after some refusals."""

    taken: ClassVar[list[bytes]] = []
    refusals: ClassVar[list[int]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.headers["Content-Type"] == "application/x-protobuf"
        code = 404 if self.path != "/v1/traces" else self.refusals.pop() if self.refusals else 200
        if code == 200:
            self.taken.append(body)
        self.send_response(code)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[str]:
    _Receiver.taken.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Receiver)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


FLOW = """
    workflow: w
    inputs: {Fails: {type: boolean, default: false}}
    jobs:
      A: {uses: shell, with: {run: 'echo 1 > "$out_N"'}, outputs: {N: {type: integer}}}
      B:
        uses: shell
        with:
          n: ${{ jobs.A.outputs.N }}
          fails: ${{ inputs.Fails }}
          run: test "$fails" = false && echo 2 > "$out_N"
        outputs: {N: {type: integer}}
"""


def test_a_live_trace_has_the_spans_of_the_export(
    project: Callable[..., Lab], receiver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the first look comes before the run began, in its middle, or only at its end."""
    monkeypatch.setattr(live_trace, "POLL", 0.01)
    _Receiver.refusals[:] = [503, 500]
    lab = project(FLOW)
    notes: list[str] = []
    for number, sets in enumerate(((), ("Fails=true",)), 1):
        _Receiver.taken.clear()
        trace = LiveTrace(lab.opened(), endpoint_of(receiver), notes.append)
        lab.run(sets=sets)
        trace.finish()
        sent = read(b"".join(_Receiver.taken))
        kept = read(export(subject(lab, f"r000{number}"), "otel").data)
        assert sent[0].SerializeToString() == kept[0].SerializeToString()
        assert [span.SerializeToString() for span in sent[1]] == [span.SerializeToString() for span in kept[1]]
    assert notes == []


def test_a_receiver_that_does_not_answer_is_told_and_fails_no_run(project: Callable[..., Lab], receiver: str) -> None:
    lab = project(FLOW)
    notes: list[str] = []
    trace = LiveTrace(lab.opened(), f"{receiver}/elsewhere", notes.append)
    lab.succeed()
    trace.finish()
    assert notes == [
        f"3 of 3 spans were not sent to {receiver}/elsewhere: HTTP Error 404: Not Found; "
        "`whyrun export otel` has them all"
    ]
    idle = LiveTrace(lab.opened(), receiver, notes.append)
    lab.succeed()  # nothing to do: there is no run
    idle.finish()
    assert (len(notes), _Receiver.taken) == (1, [])


def test_what_is_no_receiver_is_refused() -> None:
    assert endpoint_of("http://h:4318/") == "http://h:4318/v1/traces"
    assert endpoint_of("https://h/otlp/v1/traces") == "https://h/otlp/v1/traces"
    with pytest.raises(WhyrunError, match="is no URL of a receiver"):
        endpoint_of("localhost:4318")


def test_an_unfinished_run_is_marked_and_has_no_status() -> None:
    root, spans = read(b"".join(requests(fixed(ended=False))))
    assert attributes(root)["whyrun.unfinished"] is True
    assert root.status.code == Status.STATUS_CODE_UNSET
    (open_,) = [span for span in spans if span.name == "Job:Open"]
    assert (attributes(open_)["whyrun.unfinished"], open_.status.code) == (True, Status.STATUS_CODE_UNSET)


def test_requests_have_512_spans_and_a_span_128_events() -> None:
    record = fixed()
    ts = "2026-11-20T08:00:30.000001Z"
    for number in range(1200):
        record.steps[f"Job:Many[{number}]"] = Step(
            f"Job:Many[{number}]", attempts=[Attempt(1, ts, ts, "succeeded", 0.0)]
        )
    many = record.steps["Job:Many[7]"].attempts[0]
    many.tasks = [TaskMark(ts, "EXECUTES", f"task {i}") for i in range(EVENTS + 40)]
    parts = list(requests(record))
    read_ = [ExportTraceServiceRequest.FromString(part) for part in parts]
    sizes = [sum(len(s.spans) for one in request.resource_spans for s in one.scope_spans) for request in read_]
    assert sizes == [512, 512, sum(sizes) - 1024]
    _, spans = read(b"".join(parts))
    (span,) = [span for span in spans if span.name == "Job:Many[7]"]
    assert (len(span.events), span.dropped_events_count) == (EVENTS, 40)
    assert span.start_time_unix_nano % 1_000_000_000 == 1000


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"\x0a\x10", b"\x0a\x0f"),  # a trace ID of 15 bytes
        (b"service.name", b"service.mane"),
        (b"study", b"stu\xffy"),
        (b"\x30\x01", b"\x30\x02"),  # a span of another kind
    ],
)
def test_a_mistake_is_refused(old: bytes, new: bytes) -> None:
    data = b"".join(requests(fixed()))
    read(data)
    assert old in data
    with pytest.raises((DecodeError, ValueError, AssertionError)):
        read(data.replace(old, new, 1))
