"""The journal when the disk takes less than it was given, or nothing: no byte is lost or written twice."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from whyrun import disk
from whyrun.log import events as ev
from whyrun.log.journal import FIRST_CHAIN, Journal, check_chain, last_event, last_line, read_events

NOW = datetime(2026, 1, 2, 3, 4, 5, 6, UTC)
WRITTEN = "2026-01-02T03:04:05.000006Z"


def event(number: int) -> ev.StepBlocked:
    return ev.StepBlocked(step_id=f"Job:A[{number}]", because=[])


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    (tmp_path / "r0001").mkdir()
    made = Journal.create(tmp_path / "r0001", "r0001", FIRST_CHAIN, lambda: NOW)
    yield made
    made.close()


@pytest.fixture
def hooked() -> Iterator[Callable[[Any], None]]:
    def put(hook: Any) -> None:
        disk.hook = hook

    yield put
    disk.hook = None


def steps(folder: Path) -> list[str]:
    return [each.step_id for each in read_events(folder / "r0001" / "events.jsonl")]  # type: ignore[union-attr]


def test_short_writes_are_gone_on_with(tmp_path: Path, journal: Journal, hooked: Callable[[Any], None]) -> None:
    sizes: list[int] = []

    def short(point: str, call: Any, descriptor: int, data: bytes) -> int:
        sizes.append(len(data))
        return int(call(descriptor, data[:50]))

    assert journal.append(event(0)) == WRITTEN
    assert journal.append(event(1), "2025-01-01T00:00:00.000000Z") == "2025-01-01T00:00:00.000000Z"
    hooked(short)
    journal.flush()
    assert sizes == list(range(sizes[0], 0, -50)), "each time what is left"
    writes = len(sizes)
    journal.flush()
    assert len(sizes) == writes, "nothing is left to write"
    hooked(None)
    assert steps(tmp_path) == ["Job:A[0]", "Job:A[1]"]
    assert check_chain([tmp_path / "r0001" / "events.jsonl"]) == journal.chain


def test_what_could_not_be_written_is_written_later_once(
    tmp_path: Path, journal: Journal, hooked: Callable[[Any], None]
) -> None:
    calls = 0

    def failing(point: str, call: Any, descriptor: int, data: bytes) -> int:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise OSError(28, "No space left on device")
        return int(call(descriptor, data[:20]))

    journal.append(event(0))
    hooked(failing)
    with pytest.raises(OSError, match="No space left"):
        journal.flush()
    journal.append(event(1))
    hooked(None)
    journal.sync()
    assert steps(tmp_path) == ["Job:A[0]", "Job:A[1]"]


def test_a_sync_that_failed_fails_ever_after(journal: Journal, hooked: Callable[[Any], None]) -> None:
    told: list[tuple[int, bool]] = []
    journal.is_synced(1)
    journal.on_synced = lambda *heard: told.append(heard)
    journal.is_synced(7)
    journal.is_synced(8, for_good=True)
    assert told == [(7, False), (8, True)]
    journal.append(event(0))
    journal.sync()

    def failing(point: str, call: Any, *given: Any) -> int:
        if point == "log.sync":
            raise OSError(5, "Input/output error", "events.jsonl")
        return int(call(*given))

    hooked(failing)
    with pytest.raises(OSError, match="Input/output error"):
        journal.sync()
    hooked(None)
    with pytest.raises(OSError, match="Input/output error") as again:
        journal.sync()
    assert (again.value.errno, again.value.filename) == (5, "events.jsonl")


def test_what_events_speak_of_could_not_be_synced_and_so_neither_are_they(journal: Journal) -> None:
    journal.cannot_sync(OSError(28, "first"))
    journal.cannot_sync(OSError(5, "second"))
    with pytest.raises(OSError, match="first"):
        journal.sync_written()


def test_closing_writes_what_is_left_and_twice_is_harmless(tmp_path: Path, journal: Journal) -> None:
    journal.append(event(0))
    held = len(os.listdir("/proc/self/fd"))
    journal.close()
    journal.close()
    assert len(os.listdir("/proc/self/fd")) == held - 1, "its own and no other"
    assert steps(tmp_path) == ["Job:A[0]"]


def test_going_on_after_a_cut_takes_away_what_followed(tmp_path: Path, journal: Journal) -> None:
    journal.append(event(0))
    journal.flush()
    chain, file = journal.chain, tmp_path / "r0001" / "events.jsonl"
    size = file.stat().st_size
    journal.append(event(1))
    journal.close()
    resumed = Journal.resume(tmp_path / "r0001", "r0001", 1, chain, size, lambda: NOW)
    resumed.append(ev.StepBlocked(step_id="Job:B", because=[]))
    resumed.cut()
    assert steps(tmp_path) == ["Job:A[0]", "Job:B"], "what was appended is there when the rest goes"
    resumed.close()
    assert steps(tmp_path) == ["Job:A[0]", "Job:B"]
    assert check_chain([file]) == resumed.chain


@pytest.mark.parametrize("length", [10, 8000, 8192, 70_000])
def test_the_last_line_is_found_however_long_it_and_its_tail_are(tmp_path: Path, journal: Journal, length: int) -> None:
    journal.append(event(0))
    journal.append(ev.StepBlocked(step_id="Job:B", because=["Job:" + "C" * length]))
    journal.close()
    file = tmp_path / "r0001" / "events.jsonl"
    *_, whole = file.read_bytes().splitlines()
    assert last_line(file) == whole
    with file.open("ab") as more:
        more.write(b"x" * length)
    assert last_line(file) == whole
    found = last_event(file)
    assert found is not None
    assert (found.seq, found.chain) == (2, journal.chain)


def test_a_log_without_a_whole_line_has_no_last_one(tmp_path: Path, journal: Journal) -> None:
    file = tmp_path / "r0001" / "events.jsonl"
    assert last_line(file) is None
    file.write_bytes(b"only a tail")
    assert last_line(file) is None
    assert last_event(file) is None
    file.write_bytes(b"one line\n")
    assert last_line(file) == b"one line"
    assert os.path.getsize(file) == 9
