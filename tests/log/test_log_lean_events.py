"""The lean reader: the same lines as the strict one, and damage at the same place."""

from __future__ import annotations

from pathlib import Path

import pytest

from whyrun.errors import StateError
from whyrun.log import events as ev
from whyrun.log import journal as journal_module
from whyrun.log import lean_events as scan_module
from whyrun.log.journal import FIRST_CHAIN, Clock, Journal
from whyrun.log.lean_events import RunStart, StepSkipped, line_marks, read_lines, scan


@pytest.fixture
def log(tmp_path: Path, clock: Clock) -> Path:
    (tmp_path / "r0001").mkdir()
    journal = Journal.create(tmp_path / "r0001", "r0001", FIRST_CHAIN, clock)
    for number in range(12):
        journal.append(ev.StepBlocked(step_id=f"Job:A[{number}]", because=["Job:B"]))
    journal.close()
    return tmp_path / "r0001" / "events.jsonl"


@pytest.mark.parametrize("chunk", [100, 300, 4000])
def test_damage_is_named_by_its_line_whatever_chunk_it_is_in(
    log: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(journal_module, "CHUNK", chunk)
    read = [event for events in scan(log) for event in events]
    assert [event.seq for event in read] == list(range(1, 13))
    whole = log.read_bytes().splitlines(keepends=True)
    for at in (0, 4, 9, 11):
        for broken, says in (
            (b"\n", "it is empty"),
            (b"{}\n", "Object missing required field"),
            (b"\xff\n", ""),
            (whole[at][:-9] + b"\n", "Input data was truncated"),
        ):
            for rest in (whole[at:], whole[at + 1 :]):
                log.write_bytes(b"".join([*whole[:at], broken, *rest]))
                with pytest.raises(StateError) as caught:
                    list(scan(log))
                (told,) = caught.value.diagnostics
                assert (told.code, told.file, told.line) == ("LOG_DAMAGED", str(log), at + 1)
                assert told.message.startswith(f"this line is not an event: {says}")
                assert told.hint == ev.DAMAGE_HINT


def test_two_events_in_one_line_are_damage(log: Path) -> None:
    whole = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*whole[:3], whole[3][:-1], *whole[4:]]))
    with pytest.raises(StateError) as caught:
        list(scan(log))
    (told,) = caught.value.diagnostics
    assert (told.code, told.line) == ("LOG_DAMAGED", 4)


def test_what_a_line_leaves_out_is_read_as_nothing(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(
        b'{"seq":1,"session":"r0001","event":"run_start","mode":"run"}\n'
        b'{"seq":2,"session":"r0001","event":"run_start","mode":"run","options":{}}\n'
        b'{"seq":3,"session":"r0001","event":"run_start","mode":"run","options":{"accept":true}}\n'
        b'{"seq":4,"session":"r0001","event":"step_skipped","step_id":"Job:A","why":"reused","shared":{}}\n'
        b'{"seq":5,"session":"r0001","event":"step_skipped","step_id":"Job:A","why":"reused","shared":{"duration":2}}\n'
    )
    ((first, second, third, fourth, fifth),) = scan(path)
    for start, accept in ((first, False), (second, False), (third, True)):
        assert isinstance(start, RunStart)
        assert (start.options.accept, start.workflow_sha256) == (accept, "")
    for skipped, duration in ((fourth, 0.0), (fifth, 2.0)):
        assert isinstance(skipped, StepSkipped)
        assert skipped.shared is not None
        assert skipped.shared.duration == duration
        assert (skipped.fingerprint, skipped.from_run, skipped.from_step) == (None, None, None)
        assert bytes(skipped.bindings) == b""


# --- lines by their numbers --------------------------------------------------------------------------------------


@pytest.fixture
def marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_module, "MARK", 10)


def test_marks_count_the_lines_before_each_of_them(tmp_path: Path, marked: None) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"")
    assert list(line_marks(path)) == [0]
    path.write_bytes(b"abcdefghi\n" + b"\n" * 4 + b"x" * 26 + b"\nlast\ntorn")
    assert list(line_marks(path)) == [0, 1, 5, 5, 5, 7]


def test_each_line_is_found_from_the_nearest_mark(tmp_path: Path, marked: None) -> None:
    path = tmp_path / "events.jsonl"
    for width in (1, 4, 9, 10, 25):
        lines = [b"x" * (number % (width + 1)) + b"%d\n" % number for number in range(1, 101)]
        path.write_bytes(b"".join(lines) + b"torn")
        marks = line_marks(path)
        for number in range(1, 101):
            assert read_lines(path, {number}, marks) == {number: lines[number - 1]}
        assert read_lines(path, {99, 105}, marks) == {99: lines[98]}
        assert read_lines(path, {99, 105}) == {99: lines[98]}
        assert read_lines(path, set(range(3, 90)), marks) == {number: lines[number - 1] for number in range(3, 90)}
        assert read_lines(path, set(), marks) == {}
        assert read_lines(path, set()) == {}


def test_lines_come_in_the_order_of_their_numbers(tmp_path: Path, marked: None) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"".join(b"%04d\n" % number for number in range(1, 2001)))
    numbers = {1999, 1000, 7, 512, 64}
    assert list(read_lines(path, numbers, line_marks(path))) == sorted(numbers)
    assert list(read_lines(path, numbers)) == sorted(numbers)
