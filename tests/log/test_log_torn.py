"""What a power cut may leave of a log: lines of which a page is missing, and lines whose bytes are."""

from __future__ import annotations

import hashlib

import msgspec
import pytest

from whyrun.artifacts.store import Store
from whyrun.errors import StateError
from whyrun.log.events import ArtifactAvailable, CfgMaterialized, LogRepaired, RunComplete, StepStart
from whyrun.log.journal import check_chain, last_event, read_events
from whyrun.log.lock import RunLock
from whyrun.log.repair import repair
from whyrun.log.runs import create_run
from whyrun.log.scan import scan

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
    state.lock_path.parent.mkdir(exist_ok=True)
    state.lock_path.write_text('{"pid":1,"host":"h","started":"t","run":"r0001","synced":{"run":"r0001","seq":9}}\n')
    report = mend(state, clock)
    assert report.cut_bytes == 0
    assert run.events_path.read_bytes().startswith(before)
    assert list(run.events())[-1].counts["completed"] == 3


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
