"""What a power cut may leave of a log: lines of which a page is missing, and lines whose bytes are."""

from __future__ import annotations

import hashlib

import msgspec
import pytest

from whyrun.artifacts.store import Store
from whyrun.errors import StateError
from whyrun.log.events import ArtifactAvailable, CfgMaterialized, LogRepaired, RunComplete, StepStart
from whyrun.log.journal import check_chain, last_event, read_events
from whyrun.log.lean_events import scan
from whyrun.log.lock import RunLock
from whyrun.log.repair import repair
from whyrun.log.runs import create_run

PAGE = 4096


@pytest.fixture
def begun(state, clock, run_start, step_events):
    """A run with the bytes of three complete steps in the store, and no end."""
    run, journal = create_run(state, run_start, clock)
    store = Store(state.store)
    shas = []
    for number in range(3):
        shas.append(store.put_bytes(b"%d" % number * 100))
        for event in step_events(f"Step{number}"):
            if isinstance(event, ArtifactAvailable):
                event = msgspec.structs.replace(event, sha256=shas[-1])
            journal.append(event)
    journal.close()
    return run, store, shas


def mend(state, clock):
    with RunLock(state.lock_path, clock) as lock:
        return repair(state, lock, clock, lambda run: (run.path / "status.json").write_text("{}"))


def holed(data: bytes) -> tuple[bytes, bytes]:
    """The log with zeros in the midst of its sixth line, as if a page had not been written; and the lines before."""
    lines = data.splitlines(keepends=True)
    at = sum(len(line) for line in lines[:5])
    middle = at + len(lines[5]) // 2
    return data[:middle] + b"\0" * 30 + data[middle + 30 :], data[:at]


def test_readers_take_the_lines_before_a_hole_for_the_log(begun):
    run, _, _ = begun
    torn, before = holed(run.events_path.read_bytes())
    run.events_path.write_bytes(torn)
    assert [event.seq for event in read_events(run.events_path)] == [1, 2, 3, 4, 5]
    assert [len(chunk) for chunk in scan(run.events_path)] == [5]
    assert last_event(run.events_path).seq == 5
    assert check_chain([run.events_path]) == last_event(run.events_path).chain
    assert run.events_path.read_bytes()[: len(before)] == before


def test_the_repair_cuts_a_log_before_the_hole_and_says_what_it_cut(state, clock, begun):
    run, _, _ = begun
    torn, before = holed(run.events_path.read_bytes())
    run.events_path.write_bytes(torn)
    report = mend(state, clock)
    cut = torn[len(before) :]
    assert (report.cut_bytes, report.cut_sha256) == (len(cut), hashlib.sha256(cut).hexdigest())
    assert report.interrupted == ()
    data = run.events_path.read_bytes()
    assert data.startswith(before)
    assert b"\0" not in data
    assert (run.path / "debug.log").read_text() == (
        f"the log ended in {len(cut)} bytes that are cut off (sha256 {report.cut_sha256})\n"
    )
    check_chain([run.events_path])
    assert mend(state, clock) is None


@pytest.mark.parametrize("ended_by", ["status", "a later run"])
def test_zeros_in_a_run_that_was_synced_to_its_end_are_damage(state, clock, run_start, begun, ended_by):
    run, _, _ = begun
    if ended_by == "status":
        (run.path / "status.json").write_text("{}")
    else:
        create_run(state, run_start, clock)[1].close()
    torn, _ = holed(run.events_path.read_bytes())
    run.events_path.write_bytes(torn)
    with pytest.raises(StateError, match=r"LOG_DAMAGED\] .*events.jsonl:6"):
        list(read_events(run.events_path))
    with pytest.raises(StateError, match=r"LOG_DAMAGED\] .*events.jsonl:6"):
        list(scan(run.events_path))


@pytest.mark.parametrize("lost", ["gone", "empty", "other bytes"])
def test_the_log_counts_up_to_the_first_line_whose_bytes_are_gone(state, clock, begun, lost):
    run, _, shas = begun
    blob = state.store / shas[1][:2] / shas[1][2:]
    blob.unlink()
    if lost != "gone":
        blob.write_bytes(b"" if lost == "empty" else b"\0" * 100)
    report = mend(state, clock)
    events = list(run.events())
    # `run_start`, four lines of the first step, two of the second; then its artifact, which is not there.
    assert [event.seq for event in events[:7]] == [1, 2, 3, 4, 5, 6, 7]
    assert report.interrupted == ("Job:Step1",)
    repaired, failed, end = events[7:]
    assert isinstance(repaired, LogRepaired)
    assert (failed.step_id, failed.status) == ("Job:Step1", "INTERRUPTED")
    assert isinstance(end, RunComplete)
    assert end.counts["completed"] == 1


def test_what_was_synced_is_not_doubted(state, clock, run_start, begun):
    """The lock says how far: bytes that a user has deleted since then are missing outputs, and no torn log."""
    run, _, shas = begun
    before = run.events_path.read_bytes()
    (state.store / shas[1][:2] / shas[1][2:]).unlink()
    say_synced(state, 9)
    report = mend(state, clock)
    assert report.cut_bytes == 0
    assert run.events_path.read_bytes().startswith(before)
    assert list(run.events())[-1].counts["completed"] == 3


def say_synced(state, seq, run="r0001"):
    state.lock_path.write_text(
        f'{{"pid":1,"host":"h","started":"t","run":"{run}","synced":{{"run":"{run}","seq":{seq}}}}}\n'
    )


READERS = {
    "events": lambda path: list(read_events(path)),
    "fold": lambda path: list(scan(path)),
    "chain": lambda path: check_chain([path]),
}
TORN = "the line has a zero byte, but the log was synced up to line 6: its content is lost"
CUT_OFF = "the log has 5 lines, but was synced up to line 6: its end was cut off"


@pytest.mark.parametrize(("damage", "line", "what"), [("a hole", 6, TORN), ("cut off", 5, CUT_OFF)])
def test_a_synced_line_that_is_torn_or_gone_is_damage_for_all_and_nothing_is_cut(
    state, clock, begun, damage, line, what
):
    run, _, _ = begun
    torn, before = holed(run.events_path.read_bytes())
    left = torn if damage == "a hole" else before + b'{"seq":6,"ts'
    run.events_path.write_bytes(left)
    say_synced(state, 6)
    for read in READERS.values():
        with pytest.raises(StateError) as refused:
            read(run.events_path)
        (told,) = refused.value.diagnostics
        assert (told.code, told.file, told.line, told.message) == ("LOG_DAMAGED", str(run.events_path), line, what)
    with pytest.raises(StateError, match="LOG_DAMAGED"):
        mend(state, clock)
    assert run.events_path.read_bytes() == left
    assert sorted(path.name for path in run.path.iterdir()) == ["events.jsonl"]


@pytest.mark.parametrize("said", ["5", "another run", "nothing", "half", "no lock"])
def test_what_follows_the_synced_lines_may_be_torn(state, clock, begun, said):
    run, _, _ = begun
    torn, before = holed(run.events_path.read_bytes())
    run.events_path.write_bytes(torn)
    say_synced(state, 9 if said == "another run" else 5, "r0002" if said == "another run" else "r0001")
    if said in ("nothing", "half"):
        state.lock_path.write_bytes(state.lock_path.read_bytes()[: 0 if said == "nothing" else 40])
    elif said == "no lock":
        state.lock_path.unlink()
    for read in READERS.values():
        read(run.events_path)
    report = mend(state, clock)
    assert report.cut_bytes == len(torn) - len(before)
    assert run.events_path.read_bytes().startswith(before)


def test_what_was_synced_of_a_run_that_was_moved_away_says_nothing_of_the_next_with_its_name(
    state, clock, run_start, begun, tmp_path
):
    run, _, _ = begun
    say_synced(state, 13)
    run.path.rename(tmp_path / "away")
    with RunLock(state.lock_path, clock) as lock:
        assert lock.synced_of("r0001") == 0
        again, journal = create_run(state, run_start, clock)
        journal.close()
        assert [event.seq for event in again.events()] == [1]


def test_a_small_value_needs_no_blob_to_have_survived(state, clock, run_start, step_events):
    """Of others' results such values are taken from what they say. Nobody knows what was synced here."""
    run, journal = create_run(state, run_start, clock)
    for event in step_events("Num"):
        if isinstance(event, ArtifactAvailable):
            event = msgspec.structs.replace(event, type="integer", value=7, sha256=hashlib.sha256(b"7").hexdigest())
        journal.append(event)
    journal.close()
    before = run.events_path.read_bytes()
    report = mend(state, clock)
    assert (report.cut_bytes, report.interrupted) == (0, ())
    assert run.events_path.read_bytes().startswith(before)
    assert list(run.events())[-1].counts["completed"] == 1


def test_a_step_whose_cfg_or_long_list_did_not_reach_the_disk_did_not_begin(state, clock, run_start):
    run, journal = create_run(state, run_start, clock)
    journal.append(CfgMaterialized(path="cfg/A.json", size=2, sha256=hashlib.sha256(b"{}").hexdigest()))
    wide = {"count": 65, "digest": "d" * 64, "blob": "d" * 64}
    journal.append(StepStart(step_id="Job:A", driver="d", attempt=1, fingerprint="f", bindings={"x": wide}))
    journal.close()
    (run.path / "cfg").mkdir()
    (run.path / "cfg" / "A.json").write_bytes(b"{}")
    report = mend(state, clock)
    assert report.interrupted == ()
    assert [type(event).__name__ for event in run.events()] == [
        "RunStart", "CfgMaterialized", "LogRepaired", "RunComplete"
    ]  # fmt: skip
