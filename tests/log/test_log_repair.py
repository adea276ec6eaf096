from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from project_lab import is_held
from whyrun import disk
from whyrun.artifacts.store import Store
from whyrun.errors import StateError
from whyrun.log.events import ArtifactAvailable, InputRecorded, LogRepaired, RunComplete, StepFailed, StepStart
from whyrun.log.journal import FIRST_CHAIN, Journal, check_chain, parse_timestamp
from whyrun.log.lock import RunLock
from whyrun.log.outcomes import LOST_END_HINT
from whyrun.log.repair import RepairReport, repair, survived
from whyrun.log.runs import create_run


@pytest.fixture
def killed(state, clock, run_start, step_events):
    """A run with one finished step, two open ones, and no end."""
    run, journal = create_run(state, run_start, clock)
    stored = Store(state.store).put_bytes(b"abc")
    for event in step_events("Script"):
        if isinstance(event, ArtifactAvailable):
            event = msgspec.structs.replace(event, sha256=stored)
        journal.append(event)
    for step in ("Job:Clip[0]", "Job:Clip[1]"):
        journal.append(StepStart(step_id=step, driver="python", attempt=1, fingerprint="f", bindings={}))
    journal.close()
    return run


@pytest.fixture
def mend(state, clock):
    completed = []

    def complete_folder(run):
        completed.append(run.name)
        (run.path / "status.json").write_text("{}")

    def mend():
        with RunLock(state.lock_path, clock) as lock:
            return repair(state, lock, clock, complete_folder)

    mend.completed = completed
    return mend


def test_a_killed_run_is_brought_to_its_end(state, killed, mend):
    before = killed.events_path.read_bytes()
    torn = b'{"seq":8,"ts":"2026-0'
    killed.events_path.write_bytes(before + torn)
    report = mend()
    assert report == RepairReport("r0001", len(torn), hashlib.sha256(torn).hexdigest(), ("Job:Clip[0]", "Job:Clip[1]"))
    assert killed.events_path.read_bytes().startswith(before)
    events = list(killed.events())
    repaired, first, second, end = events[7:]
    assert isinstance(repaired, LogRepaired)
    assert (repaired.cut_bytes, repaired.cut_sha256) == (len(torn), hashlib.sha256(torn).hexdigest())
    assert repaired.interrupted == ["Job:Clip[0]", "Job:Clip[1]"]
    for failed, step in ((first, "Job:Clip[0]"), (second, "Job:Clip[1]")):
        assert isinstance(failed, StepFailed)
        assert (failed.step_id, failed.driver, failed.status) == (step, "python", "INTERRUPTED")
        assert (failed.error_type, failed.error) == ("Interrupted", "the run ended before this step did")
        assert (failed.traceback, failed.duration, failed.will_retry) == ("", 0.0, False)
    assert isinstance(end, RunComplete)
    assert end.state == "interrupted"
    assert end.counts == {
        "completed": 1, "failed": 0, "timed_out": 0, "interrupted": 2, "skipped": 0, "blocked": 0
    }  # fmt: skip
    passed = parse_timestamp(events[6].ts) - parse_timestamp(events[0].ts)
    assert end.duration == passed.total_seconds() > 0
    assert mend.completed == ["r0001"]
    assert check_chain([killed.events_path]) == state.last_chain()


@pytest.mark.parametrize(("left", "kept"), [(b"Ada", True), (b"\0\0\0", False), (None, False)])
def test_a_torn_copy_of_an_input_is_removed_and_its_line_counts(state, clock, run_start, mend, left, kept):
    """Nothing but the page needs the copy."""
    run, journal = create_run(state, run_start, clock)
    store = Store(state.store)
    ada = store.put_bytes(b"Ada")
    journal.append(InputRecorded(id="Input:Photo", sha256=ada, size=3))
    journal.append(InputRecorded(id="Input:Gone", sha256=""))
    journal.close()
    path = Path(store.path(ada))
    path.unlink()
    if left is not None:
        path.write_bytes(left)
    before = run.events_path.read_bytes()
    assert survived(run, store, synced=1).kept_inputs == (ada,)
    assert survived(run, store, synced=2).kept_inputs == (), "it was synced: `verify` is to find what damaged it"
    assert mend().cut_bytes == 0
    assert run.events_path.read_bytes().startswith(before)
    assert path.is_file() is kept


def test_repairing_twice_is_repairing_once(killed, mend):
    mend()
    before = killed.events_path.read_bytes()
    assert mend() is None
    assert killed.events_path.read_bytes() == before
    assert mend.completed == ["r0001"]


def test_a_step_that_failed_and_was_to_be_tried_again_is_not_open(state, clock, run_start, mend):
    run, journal = create_run(state, run_start, clock)
    journal.append(StepStart(step_id="Job:A", driver="d", attempt=1, fingerprint="f", bindings={}))
    journal.append(
        StepFailed(
            step_id="Job:A",
            driver="d",
            error="no",
            error_type="OSError",
            traceback="",
            duration=1.0,
            status="FAILED",
            will_retry=True,
        )
    )
    journal.close()
    assert mend().interrupted == ()
    assert list(run.events())[-1].counts["failed"] == 1


def test_a_kill_at_any_byte_of_the_repair_is_repaired_again(killed, mend):
    """Whatever prefix of what the repair writes has reached the file, over a torn tail that is longer or shorter."""
    whole = killed.events_path.read_bytes()
    for torn in (b'{"seq":8', b'{"seq":8,"ts":"' + b"x" * 3000):
        killed.events_path.write_bytes(whole + torn)
        (killed.path / "status.json").unlink(missing_ok=True)
        mend()
        repaired = killed.events_path.read_bytes()
        for size in range(len(whole), len(repaired), 7):
            # Written over the torn bytes from the front; what was not reached yet still stands.
            left = (whole + torn)[size:]
            killed.events_path.write_bytes(repaired[:size] + left)
            (killed.path / "status.json").unlink(missing_ok=True)
            mend()
            events = list(killed.events())
            assert isinstance(events[-1], RunComplete)
            assert events[-1].counts["interrupted"] == 2
            assert [e.step_id for e in events if isinstance(e, StepFailed)] == ["Job:Clip[0]", "Job:Clip[1]"]
            assert killed.events_path.read_bytes().endswith(b"}\n")
            assert (killed.path / "status.json").exists()
            check_chain([killed.events_path])


def test_a_folder_that_was_not_completed_after_run_complete_is_completed(killed, mend):
    mend()
    (killed.path / "status.json").unlink()
    assert mend() is None
    assert mend.completed == ["r0001", "r0001"]


def test_a_damaged_log_is_not_repaired(killed, mend):
    data = killed.events_path.read_bytes()
    broken = data.replace(b'"seq":3', b'"seq":4', 1)
    killed.events_path.write_bytes(broken)
    with pytest.raises(StateError, match=r"LOG_DAMAGED\] .*events.jsonl:3"):
        mend()
    assert killed.events_path.read_bytes() == broken


def test_a_run_without_run_start_is_log_incomplete(state, mend):
    folder = state.runs_dir / "r0001"
    folder.mkdir(parents=True)
    with pytest.raises(StateError, match="LOG_INCOMPLETE"):
        mend()
    (folder / "events.jsonl").write_bytes(b'{"seq":1,"ts"')
    with pytest.raises(StateError, match="LOG_INCOMPLETE"):
        mend()


def test_only_the_holder_of_the_lock_may_repair(state, killed, clock):
    with pytest.raises(AssertionError):
        repair(state, RunLock(state.lock_path, clock), clock, lambda run: None)


def test_an_earlier_run_without_an_end_is_left_as_its_successor_found_it(state, killed, clock, run_start, mend):
    before = killed.events_path.read_bytes()
    _, journal = create_run(state, run_start, clock)
    journal.close()
    assert mend().run == "r0002"
    assert killed.events_path.read_bytes() == before
    assert mend.completed == ["r0001", "r0002"]
    check_chain(run.events_path for run in state.runs())
    assert mend() is None
    assert mend.completed == ["r0001", "r0002"], "once is enough"


@pytest.fixture
def calls(state):
    """What reaches the disk, in order: the point, and the file's name."""
    found = []

    def hook(point, call, *given):
        name = os.readlink(f"/proc/self/fd/{given[0]}") if isinstance(given[0], int) else os.fspath(given[0])
        if not point.startswith("lock."):
            found.append(f"{point} {os.path.basename(name)}")
        return call(*given)

    disk.hook = hook
    yield found
    disk.hook = None


WRITTEN = ["log.open events.jsonl", "log.write events.jsonl", "log.sync events.jsonl"]
CUT = [
    "run.open debug.log", "run.write debug.log",
    "log.open events.jsonl", "log.cut events.jsonl", "log.sync events.jsonl",
]  # fmt: skip


def test_what_is_cut_off_is_gone_for_good_before_anything_is_written_in_its_place(killed, mend, calls):
    before = len(os.listdir("/proc/self/fd"))
    mend()
    assert calls == WRITTEN, "nothing to cut"
    whole = killed.events_path.read_bytes()
    killed.events_path.write_bytes(whole[: whole.index(b'"seq":8') + 20])
    (killed.path / "status.json").unlink()
    calls.clear()
    mend()
    assert calls == [*CUT, "log.write events.jsonl", "log.sync events.jsonl"]
    assert len(os.listdir("/proc/self/fd")) == before


def test_after_the_end_of_a_log_only_its_tail_is_cut(killed, mend, calls):
    mend()
    whole = killed.events_path.read_bytes()
    torn = b'{"seq":12,'
    killed.events_path.write_bytes(whole + torn)
    (killed.path / "status.json").unlink()
    calls.clear()
    assert mend() == RepairReport("r0001", len(torn), hashlib.sha256(torn).hexdigest(), ())
    assert calls == CUT
    assert killed.events_path.read_bytes() == whole
    assert mend.completed == ["r0001", "r0001"]


def test_a_log_without_an_end_is_not_repaired_beside_a_status(killed, mend, calls):
    """That is written last, so the run had ended: a repair would write over what shows that the end was lost."""
    status = killed.path / "status.json"
    status.write_text("{}")
    whole = killed.events_path.read_bytes()
    with pytest.raises(StateError) as refused:
        mend()
    (told,) = refused.value.diagnostics
    assert (told.code, told.file, told.line, told.hint) == ("LOG_DAMAGED", str(killed.events_path), 7, LOST_END_HINT)
    assert told.message == (
        "the log has no `run_complete`, although `status.json`, which is written after it, exists: its end was cut off"
    )
    assert (calls, mend.completed) == ([], [])
    assert (killed.events_path.read_bytes(), status.read_text()) == (whole, "{}")
    status.unlink()  # the way out, as the hint says
    assert mend().interrupted == ("Job:Clip[0]", "Job:Clip[1]")


def test_lines_after_the_end_are_no_lost_end(killed, mend):
    """They are damage of another kind, which `verify` tells of; the repair has nothing to end."""
    mend()
    lines = killed.events_path.read_bytes().splitlines(keepends=True)
    more = lines[-2].replace(b'"seq":10', b'"seq":12')
    assert more != lines[-2]
    killed.events_path.write_bytes(b"".join([*lines, more]))
    assert mend() is None


def test_a_log_that_does_not_begin_with_its_start_is_not_repaired(state, clock, mend):
    run_dir = state.runs_dir / "r0001"
    run_dir.mkdir(parents=True)
    journal = Journal.create(run_dir, "r0001", FIRST_CHAIN, clock)
    journal.append(StepStart(step_id="Job:A", driver="d", attempt=1, fingerprint="f", bindings={}))
    journal.close()
    before = (run_dir / "events.jsonl").read_bytes()
    with pytest.raises(StateError, match=r"LOG_INCOMPLETE\](.|\n)*`r0001` has no `run_start`"):
        mend()
    assert (run_dir / "events.jsonl").read_bytes() == before


def test_a_clock_that_was_set_back_makes_no_run_shorter_than_nothing(state, clock, run_start, mend):
    run, journal = create_run(state, run_start, clock)
    step = StepStart(step_id="Job:A", driver="d", attempt=1, fingerprint="f", bindings={})
    journal.append(step, "2020-01-01T00:00:00.000000Z")
    journal.close()
    mend()
    assert list(run.events())[-1].duration == 0.0


def test_a_repair_that_fails_closes_the_log(killed, mend):
    before = len(os.listdir("/proc/self/fd"))

    def full(point, call, *given):
        if point == "log.sync":
            raise OSError(28, "No space left on device")
        return call(*given)

    disk.hook = full
    try:
        with pytest.raises(OSError, match="No space left"):
            mend()
    finally:
        disk.hook = None
    assert len(os.listdir("/proc/self/fd")) == before
    assert mend.completed == []


def test_every_run_whose_folder_is_not_complete_is_completed_in_order(state, clock, run_start, mend):
    for _ in range(3):
        _, journal = create_run(state, run_start, clock)
        journal.append(RunComplete(state="succeeded", counts={}, duration=0.0))
        journal.close()
    (state.runs_dir / "r0002" / "status.json").write_text("{}")
    assert mend() is None
    assert mend.completed == ["r0001", "r0003"]
    assert mend() is None
    assert mend.completed == ["r0001", "r0003"]


def test_a_run_without_a_line_stops_the_repair_of_all_later_ones(state, clock, run_start, mend):
    for _ in range(2):
        create_run(state, run_start, clock)[1].close()
    first = state.runs()[0].events_path
    first.write_bytes(b"")
    with pytest.raises(StateError, match=r"LOG_INCOMPLETE\](.|\n)*`r0001`"):
        mend()
    assert mend.completed == []


RUN = """
import sys
from pathlib import Path
from whyrun.log.events import RunStart, StepComplete, StepStart
from whyrun.log.journal import utc_now
from whyrun.log.lock import RunLock
from whyrun.log.repair import repair
from whyrun.log.runs import WorkflowState, create_run
state = WorkflowState(Path(sys.argv[1]), "wf")
with RunLock(state.lock_path, utc_now) as lock:
    repair(state, lock, utc_now, lambda run: (run.path / "status.json").write_text("{}"))
    start = RunStart(workflow="wf", workflow_sha256="", mode="run", options={}, backend="local", engine_version="0",
                     host="h", pid=1, previous_chain="")
    print(flush=True)
    run, journal = create_run(state, start, utc_now)
    n = 0
    while True:
        n += 1
        step = f"Job:A[{n}]"
        journal.append(StepStart(step_id=step, driver="d", attempt=1, fingerprint="f", bindings={}))
        journal.flush()
        folder = "x" * (n % 9000)
        journal.append(StepComplete(step_id=step, driver="d", output_dir=folder, duration=0.0, status="EXECUTES"))
        if n % 3 == 0:
            journal.flush()
"""


def test_runs_killed_at_random_moments_leave_a_log_that_goes_on(state, clock, tmp_path):
    import random
    import time

    delays = random.Random(7)
    for _ in range(8):
        process = subprocess.Popen([sys.executable, "-c", RUN, str(tmp_path / "s")], stdout=subprocess.PIPE)
        process.stdout.readline()
        time.sleep(delays.random() * 0.03)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    killed = type(state)(tmp_path / "s", "wf")
    assert not is_held(killed.lock_path)
    with RunLock(killed.lock_path, clock) as lock:
        repair(killed, lock, clock, lambda run: None)
    runs = killed.runs()
    check_chain(run.events_path for run in runs)
    for run in runs:
        assert isinstance(list(run.events())[-1], RunComplete)
