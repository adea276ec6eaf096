from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import msgspec
import pytest

from whyrun.errors import StateError
from whyrun.log.events import (
    ArtifactAvailable,
    InputRecorded,
    RequestRecorded,
    RunComplete,
    StepBlocked,
    StepComplete,
    StepFailed,
    StepStart,
    Task,
    check_ids,
)
from whyrun.log.journal import (
    FIRST_CHAIN,
    Journal,
    check_chain,
    last_chain,
    last_event,
    last_line,
    read_event_chunks,
    read_events,
    read_raw_lines,
    timestamp,
)


@pytest.fixture
def written(tmp_path, clock, run_start, step_events):
    """A log of several steps in `r0001`, and its events without what the journal adds."""
    folder = tmp_path / "r0001"
    folder.mkdir()
    journal = Journal.create(folder, "r0001", FIRST_CHAIN, clock)
    run_start = msgspec.structs.replace(run_start, previous_chain=FIRST_CHAIN)
    records = [run_start, *(e for i in range(20) for e in step_events(f"Portrait{i}"))]
    for record in records:
        journal.append(record)
    journal.close()
    return folder / "events.jsonl", records


def plain(event):
    return msgspec.structs.replace(event, seq=0, ts="", session="", chain="")


def damage(path: Path) -> tuple[int | None, str]:
    with pytest.raises(StateError) as caught:
        list(read_events(path))
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.file) == ("LOG_DAMAGED", str(path))
    assert diagnostic.hint
    return diagnostic.line, diagnostic.message


def test_what_is_written_is_read_back(written):
    path, records = written
    events = list(read_events(path))
    assert [plain(e) for e in events] == records
    assert [e.seq for e in events] == list(range(1, len(records) + 1))
    assert {e.session for e in events} == {"r0001"}
    assert events[0].ts == "2026-06-23T12:03:23.123456Z"
    assert events[1].ts == "2026-06-23T12:03:23.124456Z"


def test_the_first_keys_are_seq_ts_session_event_and_the_last_is_chain(written):
    path, _ = written
    for line in path.read_bytes().splitlines():
        keys = list(json.loads(line))
        assert keys[:4] == ["seq", "ts", "session", "event"]
        assert keys[-1] == "chain"


def test_the_bytes_of_a_line_and_its_chain_are_pinned(tmp_path, clock):
    journal = Journal.create(tmp_path, "r0001", FIRST_CHAIN, clock)
    journal.append(StepBlocked(step_id="Job:Clip[1]", because=["Job:Clip[0]"]))
    journal.append(Task(step_id="Job:Clip[1]", status="note", message="ü\n"), ts="2026-01-02T03:04:05.000006Z")
    journal.close()
    first = (
        b'{"seq":1,"ts":"2026-06-23T12:03:23.123456Z","session":"r0001",'
        b'"event":"step_blocked","step_id":"Job:Clip[1]","because":["Job:Clip[0]"]'
    )
    second = (
        b'{"seq":2,"ts":"2026-01-02T03:04:05.000006Z","session":"r0001",'
        b'"event":"task","step_id":"Job:Clip[1]","status":"note","message":"\xc3\xbc\\n"'
    )
    chain_1 = hashlib.sha256(b"0" * 64 + first).hexdigest()
    chain_2 = hashlib.sha256(chain_1.encode() + second).hexdigest()
    assert (tmp_path / "events.jsonl").read_bytes() == (
        first + b',"chain":"' + chain_1.encode() + b'"}\n' + second + b',"chain":"' + chain_2.encode() + b'"}\n'
    )
    assert chain_2 == "ccada64726c73bc6b3d74e24feacad4f4c10053057cf0c9f50d32b71ac035e78"
    assert (journal.seq, journal.chain) == (2, chain_2)


@pytest.mark.parametrize(
    ("event", "wrong"),
    [
        (Task(step_id="Job:A", status="note", message=3), TypeError),
        (StepBlocked(step_id="Job:A", because="Job:B"), TypeError),
        (StepStart(step_id="Job:A", driver="shell", attempt="1", fingerprint="", bindings={}), TypeError),
        (RunComplete(state="fine", counts={}, duration=1.0), TypeError),
        (
            StepComplete(step_id="Job:A", driver="d", output_dir="o", duration=float("nan"), status="EXECUTES"),
            TypeError,
        ),
        (RequestRecorded(step_id="Job:A", fingerprint="", key="k", value=float("inf")), ValueError),
        (RequestRecorded(step_id="Job:A", fingerprint="", key="k", value={1: 2}), ValueError),
        (RequestRecorded(step_id="Job:A", fingerprint="", key="k", value=b"bytes"), ValueError),
        (RequestRecorded(step_id="Job:A", fingerprint="", key="k", value="\ud800"), ValueError),
        (Task(step_id="Job:A", status="s", message="m", seq=3), ValueError),
        (Task(step_id="Job:A", status="s", message="m", session="r0009"), ValueError),
    ],
)
def test_an_event_that_does_not_fit_its_type_is_refused_and_leaves_no_trace(tmp_path, clock, event, wrong):
    journal = Journal.create(tmp_path, "r0001", FIRST_CHAIN, clock)
    with pytest.raises(wrong):
        journal.append(event)
    assert (journal.seq, journal.chain) == (0, FIRST_CHAIN)
    journal.close()
    assert (tmp_path / "events.jsonl").read_bytes() == b""


@pytest.mark.parametrize(
    "ts", ["", "2026-06-23T12:03:23Z", "2026-06-23T12:03:23.123456", '2026-06-23T12:03:23.1"3456Z']
)
def test_a_time_in_another_form_is_refused(tmp_path, clock, ts):
    journal = Journal.create(tmp_path, "r0001", FIRST_CHAIN, clock)
    with pytest.raises(ValueError, match="not a time"):
        journal.append(Task(step_id="Job:A", status="s", message="m"), ts=ts)
    journal.close()


def test_times_are_utc_with_microseconds():
    assert timestamp(datetime(2026, 1, 2, tzinfo=UTC)) == "2026-01-02T00:00:00.000000Z"
    east = timezone(timedelta(hours=2))
    assert timestamp(datetime(2026, 1, 2, 1, 30, tzinfo=east)) == "2026-01-01T23:30:00.000000Z"
    with pytest.raises(ValueError, match="zone"):
        timestamp(datetime(2026, 1, 2))


def test_nothing_is_written_before_flush(tmp_path, clock):
    journal = Journal.create(tmp_path, "r0001", FIRST_CHAIN, clock)
    journal.append(Task(step_id="Job:A", status="s", message="m"))
    assert (tmp_path / "events.jsonl").read_bytes() == b""
    journal.flush()
    assert len(list(read_raw_lines(tmp_path / "events.jsonl"))) == 1
    journal.close()
    journal.close()


def test_a_log_is_not_begun_twice(tmp_path, clock):
    Journal.create(tmp_path, "r0001", FIRST_CHAIN, clock).close()
    with pytest.raises(FileExistsError):
        Journal.create(tmp_path, "r0001", FIRST_CHAIN, clock)


def test_lesson_30_a_log_cut_at_any_byte_of_its_last_4_kb_opens_with_the_complete_lines(written, tmp_path):
    path, records = written
    data = path.read_bytes()
    cut = tmp_path / "cut" / "r0001" / "events.jsonl"
    cut.parent.mkdir(parents=True)
    assert len(data) > 4096
    for size in range(len(data) - 4096, len(data) + 1):
        cut.write_bytes(data[:size])
        complete = data[:size].count(b"\n")
        assert [plain(e) for e in read_events(cut)] == records[:complete]
        assert len(list(read_raw_lines(cut))) == complete
        assert last_event(cut).seq == complete
        assert check_chain([cut]) == last_chain(cut)


def test_a_log_without_a_complete_line_has_no_events(tmp_path):
    path = tmp_path / "events.jsonl"
    for data in (b"", b'{"seq":1', b"\0" * 100):
        path.write_bytes(data)
        assert list(read_events(path)) == []
        assert last_line(path) is None
        assert last_chain(path) is None


@pytest.mark.parametrize(
    ("change", "line", "says"),
    [
        (lambda lines: lines.__setitem__(2, b"garbage"), 3, "malformed"),
        (lambda lines: lines.__setitem__(2, lines[2][:-5]), 3, "broken"),
        (lambda lines: lines.__setitem__(2, b""), 3, "truncated"),
        (lambda lines: lines.__setitem__(2, b"\xff" + lines[2]), 3, "broken"),
        (lambda lines: lines.__setitem__(2, b"\0" * 200), 3, "broken"),
        (lambda lines: lines.__setitem__(2, lines[2].replace(b'"message":"', b'"message":7,"m":"')), 3, "`str`"),
        (lambda lines: lines.__setitem__(2, lines[2].replace(b'"event":"task"', b'"event":"tusk"')), 3, "tusk"),
        (lambda lines: lines.__setitem__(2, lines[2].replace(b'"r0001"', b'"r0002"')), 3, "belongs to `r0002`"),
        (lambda lines: lines.__delitem__(2), 3, "seq 4, not 3"),
        (lambda lines: lines.insert(2, lines[1]), 3, "seq 2, not 3"),
        (lambda lines: lines.insert(2, b""), 3, "broken"),
        (lambda lines: lines.__setitem__(slice(2, 4), [lines[2] + lines[3]]), 3, "broken"),
        (lambda lines: lines.__delitem__(0), 1, "seq 2, not 1"),
    ],
)
def test_a_broken_line_before_the_end_is_log_damaged_with_file_and_line(written, change, line, says):
    path, _ = written
    lines = path.read_bytes().split(b"\n")
    change(lines)
    path.write_bytes(b"\n".join(lines))
    (path.parent / "status.json").write_text("{}")  # it has come to its end: zeros are damage, too
    found, message = damage(path)
    assert found == line
    assert says in message


def test_damage_far_into_a_long_log_is_found_with_its_line(tmp_path, clock):
    folder = tmp_path / "r0001"
    folder.mkdir()
    journal = Journal.create(folder, "r0001", FIRST_CHAIN, clock)
    for _ in range(30):
        journal.append(Task(step_id="Job:A", status="note", message="x" * 500_000))
    journal.close()
    path = folder / "events.jsonl"
    assert sum(map(len, read_event_chunks(path))) == 30
    lines = path.read_bytes().split(b"\n")
    lines[24] = b"{}"
    path.write_bytes(b"\n".join(lines))
    assert damage(path)[0] == 25


def test_the_session_is_that_of_the_first_line_where_no_run_folder_says_it(written, tmp_path):
    path, records = written
    other = tmp_path / "scenario" / "events.jsonl"
    other.parent.mkdir()
    other.write_bytes(path.read_bytes())
    assert len(list(read_events(other))) == len(records)
    with pytest.raises(StateError, match="belongs to `r0001`, not to `r0002`"):
        list(read_events(other, "r0002"))


def test_unknown_fields_of_a_newer_version_are_read_over_and_kept(written):
    path, records = written
    data = path.read_bytes().replace(b'"event":"task",', b'"event":"task","v":2,"novelty":{"a":1},', 1)
    path.write_bytes(data)
    events = list(read_events(path))
    assert len(events) == len(records)
    assert events[2].v == 2
    assert b'"novelty":{"a":1}' in list(read_raw_lines(path))[2]


# --- the chain ---------------------------------------------------------------------------------------------------


@pytest.fixture
def two_runs(tmp_path, clock, run_start):
    paths = []
    chain = FIRST_CHAIN
    for name in ("r0001", "r0002"):
        folder = tmp_path / name
        folder.mkdir()
        journal = Journal.create(folder, name, chain, clock)
        journal.append(msgspec.structs.replace(run_start, previous_chain=chain))
        journal.append(RunComplete(state="succeeded", counts={}, duration=1.0))
        journal.close()
        chain = journal.chain
        paths.append(folder / "events.jsonl")
    return paths, chain


def test_the_chain_goes_on_across_runs(two_runs):
    paths, chain = two_runs
    assert check_chain(paths) == chain
    assert last_chain(paths[1]) == chain
    assert check_chain([]) == FIRST_CHAIN


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("old", [b'"duration":1.0', b'"mode":"run"', b'"chain":"'])
def test_the_chain_shows_a_changed_byte(two_runs, number, old):
    paths, _ = two_runs
    data = paths[number].read_bytes()
    at = data.index(old) + len(old)
    changed = bytes([data[at - 1] ^ 1]) if old != b'"chain":"' else b""
    paths[number].write_bytes(data[: at - 1] + changed + data[at:])
    with pytest.raises(StateError, match="LOG_DAMAGED"):
        check_chain(paths)


def test_the_chain_shows_lost_lines_and_lost_runs(two_runs):
    paths, _ = two_runs
    with pytest.raises(StateError, match=r"r0002/events.jsonl:1: .*a run is lost"):
        check_chain(paths[1:])
    lines = paths[0].read_bytes().splitlines(keepends=True)
    paths[0].write_bytes(lines[0])
    with pytest.raises(StateError, match=r"r0002/events.jsonl:1: .*a run is lost"):
        check_chain(paths)


# --- IDs ---------------------------------------------------------------------------------------------------------

GOOD = [
    StepStart(
        step_id='Job:learn["7"][asia]',
        driver="d",
        attempt=1,
        fingerprint="f",
        bindings={"a": [{"id": "Input:X[0]", "sha256": ""}], "b": {"count": 70, "digest": "", "blob": ""}},
    ),
    ArtifactAvailable(artifact="Artifact:In/A.B[0].C", step_id="Job:In/A[0]", sha256="", size=0, type="json"),
    StepBlocked(step_id="Job:A", because=["Job:B[1]"]),
    InputRecorded(id="Input:A.with.caption", sha256=""),
    RunComplete(state="failed", counts={}, duration=0.0),
]
BAD = [
    StepStart(step_id="Clip[0]", driver="d", attempt=1, fingerprint="f", bindings={}),
    StepStart(step_id="Artifact:A.B", driver="d", attempt=1, fingerprint="f", bindings={}),
    StepStart(step_id="Job:A[007]", driver="d", attempt=1, fingerprint="f", bindings={}),
    StepStart(step_id="Job:A", driver="d", attempt=1, fingerprint="f", bindings={"a": [{"id": "X", "sha256": ""}]}),
    StepStart(step_id="Job:A", driver="d", attempt=1, fingerprint="f", bindings={"a": [{"sha256": ""}]}),
    ArtifactAvailable(artifact="artifact:A.B", step_id="Job:A", sha256="", size=0, type="json"),
    StepBlocked(step_id="Job:A", because=["Job:A.B]"]),
    InputRecorded(id="Job:A", sha256=""),
]


@pytest.mark.parametrize("event", GOOD)
def test_canonical_ids_pass(event):
    check_ids(event, "events.jsonl")


@pytest.mark.parametrize("event", BAD)
def test_an_id_that_does_not_parse_is_log_damaged(event):
    with pytest.raises(StateError, match=r"LOG_DAMAGED\] runs/r0001/events.jsonl:9: "):
        check_ids(msgspec.structs.replace(event, seq=9), "runs/r0001/events.jsonl")


def test_failed_steps_keep_their_traceback_as_it_was(tmp_path, clock):
    trace = 'Traceback (most recent call last):\n  File "a.py"\r\n\tline\x1b[0m\u2029'
    journal = Journal.create(tmp_path, "r0001", FIRST_CHAIN, clock)
    journal.append(
        StepFailed(
            step_id="Job:A",
            driver="d",
            error="é\n",
            error_type="E",
            traceback=trace,
            duration=0.0,
            status="FAILED",
            will_retry=False,
        )
    )
    journal.close()
    (event,) = read_events(tmp_path / "events.jsonl")
    assert (event.error, event.traceback) == ("é\n", trace)
