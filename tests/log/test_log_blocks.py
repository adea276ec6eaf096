"""Reading a log in pieces, whatever ends where: long lines, holes, tails, and what the lock says is on the disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from whyrun.errors import StateError
from whyrun.log import events as ev
from whyrun.log import journal as journal_module
from whyrun.log.journal import (
    FIRST_CHAIN,
    Clock,
    Journal,
    check,
    check_chain,
    last_event,
    last_line,
    read_blocks,
    read_event_chunks,
    read_events,
    read_raw_lines,
    torn_from,
    utc_now,
)
from whyrun.log.sync_mark import lines_synced


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten bytes at a time, and no line of more than thirty."""
    monkeypatch.setattr(journal_module, "CHUNK", 10)
    monkeypatch.setattr(journal_module, "LONGEST_LINE", 30)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    folder = tmp_path / "wf" / "runs" / "r0001"
    folder.mkdir(parents=True)
    return folder / "events.jsonl"


def say_synced(log: Path, seq: int, run: str = "r0001") -> None:
    (log.parent.parent.parent / "lock").write_text(f'{{"pid":1,"synced":{{"run":"{run}","seq":{seq}}}}}\n')


def refusal(log: Path) -> tuple[str, int | None, str]:
    with pytest.raises(StateError) as caught:
        list(read_blocks(log))
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.file == str(log)
    return diagnostic.code, diagnostic.line, diagnostic.message


@pytest.mark.parametrize("tail", [b"", b"x", b"x" * 9, b"x" * 10, b"x" * 200])
@pytest.mark.parametrize("length", [0, 1, 8, 9, 10, 11, 19, 28, 29, 30])
def test_lines_come_whole_whatever_ends_between_two_reads(small: None, log: Path, length: int, tail: bytes) -> None:
    for lines in ([b"a", b"b" * length, b"c" * length, b"", b"d"], [b"b" * length, b"c"]):
        log.write_bytes(b"\n".join(lines) + b"\n" + tail)
        blocks = list(read_blocks(log))
        assert all(block.endswith(b"\n") for block in blocks)
        assert b"".join(blocks) == b"\n".join(lines) + b"\n"
        assert list(read_raw_lines(log)) == lines


@pytest.mark.parametrize("before", [0, 1, 7])
@pytest.mark.parametrize("length", [41, 50, 95])
def test_a_line_longer_than_any_event_is_damage_and_a_tail_is_none(
    small: None, log: Path, before: int, length: int
) -> None:
    log.write_bytes(b"ab\n" * before + b"x" * length)
    assert b"".join(read_blocks(log)) == b"ab\n" * before
    log.write_bytes(b"ab\n" * before + b"x" * length + b"\n" * 9 + b"ab\n")
    assert refusal(log) == ("LOG_DAMAGED", before + 1, "the line is longer than 0 MB; no event is that long")


def test_how_long_a_line_may_be_is_said_in_megabytes(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "CHUNK", 1 << 20)
    monkeypatch.setattr(journal_module, "LONGEST_LINE", 1 << 20)
    log.write_bytes(b"x" * (3 << 20) + b"\n")
    assert refusal(log) == ("LOG_DAMAGED", 1, "the line is longer than 1 MB; no event is that long")


@pytest.mark.parametrize("at", [0, 1, 2, 3, 4, 8, 9, 10, 11, 14, 17, 29, 30, 31])
def test_a_hole_ends_the_log_at_the_line_before_it(small: None, log: Path, at: int) -> None:
    whole = b"ab\n" * 20
    log.write_bytes(whole[:at] + b"\0" + whole[at + 1 :])
    left = whole[: at - at % 3]
    assert b"".join(read_blocks(log)) == left
    assert last_line(log) == (b"ab" if left else None)
    (log.parent / "status.json").touch()  # it was synced to its end: somebody else has made the hole
    assert b"".join(read_blocks(log)) == log.read_bytes()


def test_where_a_torn_tail_begins(log: Path) -> None:
    assert torn_from(log, b"ab\ncd\n") is None
    assert torn_from(log, b"\0b\ncd\n") == 0
    assert torn_from(log, b"ab\n\0d\n") == 3
    assert torn_from(log, b"ab\nc\0\n\0\n") == 3
    assert torn_from(log, b"\n\0d\n") == 1
    (log.parent.parent / "r0002").mkdir()
    assert torn_from(log, b"ab\n\0d\n") is None, "a run that has a successor was synced to its end"


def test_the_successor_of_a_run_is_the_next_number_and_no_other(tmp_path: Path) -> None:
    for name in ("r0001", "r9999", "r10000", "r10002"):
        (tmp_path / name).mkdir()
    assert torn_from(tmp_path / "r9999" / "events.jsonl", b"ab\n\0d\n") is None
    assert torn_from(tmp_path / "r10000" / "events.jsonl", b"ab\n\0d\n") == 3
    (tmp_path / "r10001").mkdir()
    assert torn_from(tmp_path / "r10000" / "events.jsonl", b"ab\n\0d\n") is None


def test_a_log_outside_of_any_run_may_be_torn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("notes", "r0000"):
        (tmp_path / name).mkdir()
        assert torn_from(f"{name}/events.jsonl", b"ab\n\0d\n") == 3
    (tmp_path / "r0009").mkdir()
    (tmp_path / "r0010").mkdir()
    monkeypatch.chdir(tmp_path / "r0009")
    assert torn_from("events.jsonl", b"ab\n\0d\n") is None, "the run is known from the folder in which one stands"


@pytest.mark.parametrize(("synced", "fine"), [(0, True), (1, True), (19, True), (20, True), (21, False), (30, False)])
def test_all_lines_that_were_synced_must_be_there(small: None, log: Path, synced: int, fine: bool) -> None:
    log.write_bytes(b"ab\n" * 20 + b"ab")
    say_synced(log, synced)
    if fine:
        assert b"".join(read_blocks(log)) == b"ab\n" * 20
    else:
        what = f"the log has 20 lines, but was synced up to line {synced}: its end was cut off"
        assert refusal(log) == ("LOG_DAMAGED", 20, what)


def test_a_log_of_which_all_is_gone_has_no_line_to_name(small: None, log: Path) -> None:
    log.write_bytes(b"a")
    say_synced(log, 1)
    what = "the log has 0 lines, but was synced up to line 1: its end was cut off"
    assert refusal(log) == ("LOG_DAMAGED", None, what)


def test_a_hole_in_what_was_synced_is_named_by_its_line(small: None, log: Path) -> None:
    log.write_bytes(b"ab\n" * 10 + b"\0b\n" + b"ab\n" * 10)
    say_synced(log, 10)
    assert b"".join(read_blocks(log)) == b"ab\n" * 10
    say_synced(log, 11)
    what = "the line has a zero byte, but the log was synced up to line 11: its content is lost"
    assert refusal(log) == ("LOG_DAMAGED", 11, what)


# --- what the lock says ------------------------------------------------------------------------------------------


def test_the_lock_says_how_many_lines_of_its_run_were_synced(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = log.parent.parent.parent / "lock"
    assert lines_synced(log) == 0, "nobody has ever held it"
    say_synced(log, 7)
    assert lines_synced(log) == 7
    assert lines_synced(log.parent.parent / "r0002" / "events.jsonl") == 0
    monkeypatch.chdir(log.parent)
    assert lines_synced("events.jsonl") == 7
    for left in (b"", b"{}", b'{"pid":1}', b'{"pid":1,"syn', b'{"synced":{"run":"r0001"}}', b"\xff", b"[" * 100_000):
        lock.write_bytes(left)
        assert lines_synced(log) == 0
    lock.unlink()
    lock.mkdir()
    assert lines_synced(log) == 0
    lock.rmdir()
    lock.parent.joinpath("runs").rename(lock.parent / "moved")
    lock.parent.joinpath("runs").touch()
    assert lines_synced(lock.parent / "runs" / "r0001" / "events.jsonl" / "x" / "y") == 0


# --- the last line -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tail", [b"", b"y" * 10, b"y" * 9000])
@pytest.mark.parametrize("length", [0, 8190, 8191, 8192, 9000, 10_000])
def test_the_last_line_is_read_from_the_end_however_far_that_is(
    log: Path, monkeypatch: pytest.MonkeyPatch, length: int, tail: bytes
) -> None:
    monkeypatch.setattr(journal_module, "LONGEST_LINE", 10_000)
    for before in (b"", b"\n", b"first\n", b"first\n" * 5000):
        log.write_bytes(before + b"x" * length + b"\n" + tail)
        assert last_line(log) == b"x" * length


def test_a_last_line_that_no_event_can_be_is_damage(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "LONGEST_LINE", 10_000)
    monkeypatch.setattr(journal_module, "CHUNK", 1000)
    log.write_bytes(b"first\nsecond\n" + b"x" * 20_001 + b"\n")
    with pytest.raises(StateError) as caught:
        last_line(log)
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.file, diagnostic.line) == ("LOG_DAMAGED", str(log), 3)
    assert diagnostic.message == "the line is longer than 0 MB; no event is that long"
    log.write_bytes(b"x" * 9_000 + b"\n")
    assert last_line(log) == b"x" * 9_000


@pytest.mark.parametrize(("lines", "last"), [(b"first\nsecond\n", b"second"), (b"", None)])
def test_a_tail_may_be_as_long_as_it_is(
    log: Path, monkeypatch: pytest.MonkeyPatch, lines: bytes, last: bytes | None
) -> None:
    monkeypatch.setattr(journal_module, "LONGEST_LINE", 10_000)
    monkeypatch.setattr(journal_module, "CHUNK", 1000)
    log.write_bytes(lines + b"x" * 50_000)
    assert last_line(log) == last


def test_what_stands_before_the_last_line_is_not_read(small: None, log: Path) -> None:
    log.write_bytes(b"x" * 100 + b"\nab\n")
    assert last_line(log) == b"ab"
    log.write_bytes(b"x" * 100 + b"\0\nab\n")
    (log.parent / "status.json").touch()
    assert last_line(log) == b"ab"


def bytes_read() -> int:
    """By this thread so far, as its kernel counts; this look is counted by the next one. (Others of this process belong
    to the runner of the tests, and read when they like.)"""
    with open("/proc/thread-self/io", "rb", buffering=0) as file:
        return int(file.read(4096).split()[1])


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        (b"x", 8 << 10),
        (b"x" * 8190, 8 << 10),
        (b"x" * 8191, (8 << 10) + (64 << 10)),  # its beginning is not there: eight times as much is read
        (b"x" * 100_000, (8 << 10) + (64 << 10) + (512 << 10)),
    ],
)
def test_no_more_of_a_long_log_is_read_than_its_end(log: Path, last: bytes, expected: int) -> None:
    log.write_bytes(b"first\n" * 500_000 + last + b"\n")
    (log.parent / "status.json").touch()  # it was synced: nobody looks for zeros
    began = bytes_read()
    again = bytes_read()
    assert last_line(log) == last
    assert bytes_read() - again - (again - began) == expected


def test_a_log_of_one_line_is_read_once(log: Path) -> None:
    log.write_bytes(b"first\n")
    (log.parent / "status.json").touch()
    began = bytes_read()
    again = bytes_read()
    assert last_line(log) == b"first"
    assert bytes_read() - again - (again - began) == len(b"first\n")


def test_zeros_after_the_last_line_are_looked_for_in_all_of_the_file(small: None, log: Path) -> None:
    log.write_bytes(b"ab\ncd\nef\n" + b"g" * 5 + b"\0")
    assert last_line(log) == b"ef"
    log.write_bytes(b"ab\nc\0\nef\ngh\nij\nkl\n")
    assert last_line(log) == b"ab"
    log.write_bytes(b"\0b\nef\ngh\nij\nkl\n")
    assert last_line(log) is None


def write_log(log: Path, clock: Clock, count: int = 3) -> Journal:
    journal = Journal.create(log.parent, "r0001", FIRST_CHAIN, clock)
    for number in range(count):
        journal.append(ev.StepBlocked(step_id=f"Job:A[{number}]", because=[]))
    journal.close()
    return journal


def test_a_last_line_that_is_no_event_is_damage_at_its_line(log: Path, clock: Clock) -> None:
    write_log(log, clock)
    data = log.read_bytes()
    for last, says in ((b"{}\n", "the line is broken: "), (b"\xff\n", "the line is broken: ")):
        log.write_bytes(data + last)
        with pytest.raises(StateError) as caught:
            last_event(log)
        (diagnostic,) = caught.value.diagnostics
        assert (diagnostic.code, diagnostic.file, diagnostic.line) == ("LOG_DAMAGED", str(log), 4)
        assert diagnostic.message.startswith(says)
    for chain in (b"", b"0" * 63, b"0" * 65, b"G" * 64):
        unchained = b'{"seq":4,"event":"step_blocked","step_id":"Job:A","because":[],"chain":"' + chain + b'"}\n'
        log.write_bytes(data + unchained)
        with pytest.raises(StateError) as caught:
            last_event(log)
        (diagnostic,) = caught.value.diagnostics
        assert (diagnostic.line, diagnostic.message) == (4, "the line has no chain")


# --- what is refused ---------------------------------------------------------------------------------------------


def test_an_event_that_no_reader_would_take_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    event = ev.StepBlocked(step_id="Job:A", because=["Job:B" * 20])
    size = len(check(event))
    monkeypatch.setattr(journal_module, "LONGEST_LINE", size)
    assert len(check(event)) == size
    monkeypatch.setattr(journal_module, "LONGEST_LINE", size - 1)
    with pytest.raises(ValueError, match=f"^StepBlocked has {size} bytes: no reader would accept it as an event$"):
        check(event)


def test_the_first_line_of_a_run_may_be_no_event(log: Path, clock: Clock) -> None:
    write_log(log, clock)
    data = log.read_bytes()
    log.write_bytes(b"{}\n" + data)
    with pytest.raises(StateError) as caught:
        check_chain([log])
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.file, diagnostic.line) == ("LOG_DAMAGED", str(log), 1)
    log.write_bytes(data[:-5] + b"x" + data[-4:])
    with pytest.raises(StateError) as caught:
        check_chain([log])
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.line, diagnostic.message) == (
        3, "the line does not follow from the one before it (`chain`)"
    )  # fmt: skip


@pytest.mark.parametrize("chunk", [100, 200, 300, 4000])
def test_events_of_several_blocks_are_counted_on(
    log: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    write_log(log, clock, 12)
    monkeypatch.setattr(journal_module, "CHUNK", chunk)
    assert [event.seq for event in read_events(log)] == list(range(1, 13))
    assert (len(list(read_event_chunks(log))) > 1) is (chunk < 1000)
    whole = log.read_bytes().splitlines(keepends=True)
    for lines, line, says in [
        ([*whole[:9], b"{}\n", *whole[9:]], 10, "the line is broken: "),
        ([*whole[:9], b"\n", *whole[9:]], 10, "the line is broken: "),
        ([*whole[:9], *whole[10:]], 10, "the line has seq 11, not 10: lines are lost or duplicated"),
        ([*whole[:9], whole[9].replace(b"r0001", b"r0002"), *whole[10:]], 10, "the line belongs to `r0002`, not to"),
        ([*whole[:11], b"\n"], 12, "the line is broken: Input data was truncated"),
        ([*whole[:11], b"{}\n"], 12, "the line is broken: Object missing required field `event`"),
    ]:
        log.write_bytes(b"".join(lines))
        with pytest.raises(StateError) as caught:
            list(read_events(log))
        (diagnostic,) = caught.value.diagnostics
        assert (diagnostic.code, diagnostic.file, diagnostic.line) == ("LOG_DAMAGED", str(log), line)
        assert diagnostic.message.startswith(says)


def test_the_clock_of_a_real_run_is_utc() -> None:
    now = utc_now()
    assert now.utcoffset() is not None
    assert not now.utcoffset()
