"""The locks within one process: what their file says at every moment, whom they refuse, and that they let go."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from project_lab import is_held
from whyrun import disk
from whyrun.errors import StateError, WhyrunError, error
from whyrun.log import lock as lock_module
from whyrun.log.journal import FIRST_CHAIN, Clock, Journal
from whyrun.log.lock import Holder, RunLock, StoreLock, holder, holder_and_state
from whyrun.log.runs import WorkflowState

HOST = os.uname().nodename
FIRST = "2026-06-23T12:03:23.123456Z"
SECOND = "2026-06-23T12:03:23.124456Z"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "wf" / "lock"


@pytest.fixture
def hooked() -> Iterator[Callable[[Any], None]]:
    def put(hook: Any) -> None:
        disk.hook = hook

    yield put
    disk.hook = None


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_module, "_PATIENCE", 0.0)
    monkeypatch.setattr(lock_module, "_PAUSE", 0.0)


def in_use() -> WhyrunError:
    return error("LOCKED", "somebody writes", hint="wait")


def said(path: Path) -> Any:
    return json.loads(path.read_bytes())


def held(started: str = FIRST, **more: Any) -> dict[str, Any]:
    return {"pid": os.getpid(), "host": HOST, "started": started, **more}


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def is_shared(path: Path) -> bool:
    """Whether somebody who writes runs has a share in the store's lock."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def failing(at: str, number: int) -> Callable[..., Any]:
    def hook(point: str, call: Any, *given: Any) -> Any:
        if point == at:
            raise OSError(number, os.strerror(number))
        return call(*given)

    return hook


def diagnostic_of(refused: pytest.ExceptionInfo[StateError]) -> tuple[str, str, str | None, str | None]:
    (diagnostic,) = refused.value.diagnostics
    return diagnostic.code, diagnostic.message, diagnostic.file, diagnostic.hint


# --- what the file says ------------------------------------------------------------------------------------------


def test_the_file_follows_the_run_and_says_after_it_only_that_there_was_one(
    path: Path, clock: Clock, tmp_path: Path
) -> None:
    journal = Journal.create(tmp_path, "r0003", FIRST_CHAIN, clock)
    with RunLock(path, clock) as lock:
        assert said(path) == held()
        lock.announce("r0003", journal)
        assert said(path) == held(run="r0003", synced={"run": "r0003", "seq": 1})
        assert lock.synced_of("r0003") == 1
        journal.is_synced(1234)
        assert said(path) == held(run="r0003", synced={"run": "r0003", "seq": 1234})
        assert (lock.synced_of("r0003"), lock.synced_of("r0002")) == (1234, 0)
        journal.is_synced(7)  # a shorter text over a longer one
        assert path.read_bytes().rstrip(b" \n").endswith(b'"seq":7}}')
    after = held(run="r0003", synced={"run": "r0003", "seq": 0})
    assert said(path) == after
    journal.is_synced(8)
    assert said(path) == after, "who has let go says nothing more"
    journal.close()


def test_what_is_relied_on_is_synced_in_the_file_and_nothing_else_is(
    path: Path, clock: Clock, tmp_path: Path, hooked: Callable[[Any], None]
) -> None:
    done: list[tuple[str, Any]] = []

    def noting(point: str, call: Any, *given: Any) -> Any:
        found = call(*given)
        done.append((point, said(path)["synced"]["seq"]))
        return found

    journal = Journal.create(tmp_path, "r0003", FIRST_CHAIN, clock)
    with RunLock(path, clock) as lock:
        lock.announce("r0003", journal)
        hooked(noting)
        journal.is_synced(5)
        assert done == [("lock.write", 5), ("lock.cut", 5)]
        journal.is_synced(6, for_good=True)
        assert done[2:] == [("lock.write", 6), ("lock.cut", 6), ("lock.sync", 6)]
        hooked(None)
    journal.close()


def test_the_file_has_one_length_so_that_no_rewrite_can_tear_what_was_synced(
    path: Path, clock: Clock, tmp_path: Path
) -> None:
    """A longer text could reach the disk in the length of the shorter one before it, and say nothing at all."""
    sizes = []
    with RunLock(path, clock) as lock:
        sizes.append(path.stat().st_size)
        for seq in (1, 99, 100, 10**9):
            lock.announce("r0003")
            lock._note_synced(seq, False)
            sizes.append(path.stat().st_size)
    sizes.append(path.stat().st_size)
    assert sizes == [512] * 6


@pytest.mark.parametrize(("spare", "size"), [(1, 512), (0, 1024)])
def test_a_file_that_says_much_is_longer_by_whole_sectors(tmp_path: Path, spare: int, size: int) -> None:
    long = Holder(1, "", FIRST)
    long = Holder(1, "h" * (512 - spare - len(msgspec.json.encode(long))), FIRST)
    file = tmp_path / "lock"
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT)
    lock_module._write_text(descriptor, long)
    os.close(descriptor)
    data = file.read_bytes()
    assert (len(data), data[-1:], said(file)) == (size, b"\n", msgspec.to_builtins(long))


def test_without_a_journal_nobody_is_told_of_syncs(path: Path, clock: Clock) -> None:
    with RunLock(path, clock) as lock:
        assert lock.synced_of("r0001") == 0
        lock.announce("r0001")
        assert said(path) == held(run="r0001", synced={"run": "r0001", "seq": 1})


def test_a_sync_before_any_run_is_announced_is_not_noted(path: Path, clock: Clock) -> None:
    with RunLock(path, clock) as lock:
        lock._note_synced(5, False)
        assert said(path) == held()
    RunLock(path, clock)._note_synced(5, False)


def test_only_the_holder_announces_a_run(path: Path, clock: Clock) -> None:
    lock = RunLock(path, clock)
    assert lock.synced_of("r0001") == 0
    with pytest.raises(AssertionError, match="only the holder"):
        lock.announce("r0001")
    with lock:
        pass
    with pytest.raises(AssertionError, match="only the holder"):
        lock.announce("r0001")


def test_after_a_failure_the_next_holder_knows_how_far_the_run_was_synced(path: Path, clock: Clock) -> None:
    (path.parent / "runs" / "r0001").mkdir(parents=True)
    lock = RunLock(path, clock).__enter__()
    lock.announce("r0001")
    lock.__exit__(RuntimeError, RuntimeError(), None)
    kept = {"run": "r0001", "seq": 1}
    assert said(path)["synced"] == kept
    with RunLock(path, clock) as second:  # for something else than a run: the next one still wants to know
        assert said(path) == held(SECOND, synced=kept)
        assert second.synced_of("r0001") == 1
    assert said(path) == held(SECOND, synced=kept)
    assert not is_held(path)
    with RunLock(path, clock) as third:
        third.announce("r0002")
    assert said(path)["synced"] == {"run": "r0002", "seq": 0}


def test_of_a_run_that_is_gone_it_stays_said_that_there_was_one_and_nothing_more(path: Path, clock: Clock) -> None:
    path.parent.mkdir()
    path.write_bytes(b'{"pid":1,"host":"h","started":"t","run":"r0001","synced":{"run":"r0001","seq":9}}\n')
    with RunLock(path, clock) as lock:
        assert said(path) == held(synced={"run": "r0001", "seq": 0})
        assert lock.synced_of("r0001") == 0
    assert said(path) == held(synced={"run": "r0001", "seq": 0})


# --- taking and leaving ------------------------------------------------------------------------------------------


def test_one_lock_is_not_taken_twice(path: Path, clock: Clock) -> None:
    lock = RunLock(path, clock)
    assert not lock.held
    with lock:
        with pytest.raises(AssertionError, match="taken twice"):
            lock.__enter__()
        assert lock.held
        assert is_held(path)
    with lock:
        assert lock.held


def test_locks_and_refusals_leave_no_descriptor_open(path: Path, clock: Clock, impatient: None) -> None:
    store = path.parent.parent / "store.lock"
    before = descriptors()
    with RunLock(path, clock, store):
        assert descriptors() == before + 2
        for other in (RunLock(path, clock), StoreLock(store, clock, in_use)):
            with pytest.raises(StateError, match="LOCKED"):
                other.__enter__()
        assert is_held(path)
        assert descriptors() == before + 2
    assert descriptors() == before
    with StoreLock(store, clock, in_use):
        assert descriptors() == before + 1
        refused = RunLock(path, clock, store)
        with pytest.raises(StateError, match="LOCKED"):
            refused.__enter__()
        assert not refused.held
        assert not is_held(path)
        assert descriptors() == before + 1
    assert descriptors() == before
    assert not is_held(store)


def test_a_file_of_whom_nobody_can_say_anything_is_closed_again(path: Path, clock: Clock) -> None:
    before = descriptors()
    assert holder_and_state(path) == (False, None)
    path.parent.mkdir()
    path.write_bytes(b'{"pid":1,"host":"h","started":"t"}')
    assert holder_and_state(path) == (False, None)
    assert descriptors() == before


def test_several_workflows_write_at_once_and_whoever_clears_the_store_waits_for_none(
    tmp_path: Path, clock: Clock, impatient: None
) -> None:
    one, two = WorkflowState(tmp_path, "one"), WorkflowState(tmp_path, "two")
    with RunLock.of(one, clock), RunLock.of(two, clock):
        with pytest.raises(StateError) as refused, StoreLock(one.store_lock, clock, in_use):
            pass
        assert diagnostic_of(refused) == ("LOCKED", "somebody writes", None, "wait")
    clearing = StoreLock(one.store_lock, clock, in_use)
    with clearing:
        clear = said(one.store_lock)
        assert clear == held(clear["started"])
        with pytest.raises(StateError) as refused, RunLock.of(one, clock):
            pass
        assert diagnostic_of(refused) == (
            "LOCKED",
            f"the store is being cleared by process {os.getpid()} on {HOST} (since {clear['started']})",
            str(one.store_lock),
            "wait for `whyrun gc` to end, then try again",
        )
        one.store_lock.write_bytes(b"")
        with pytest.raises(StateError, match="the store is being cleared by another process"), RunLock.of(one, clock):
            pass
    with clearing:
        assert one.store_lock.read_bytes() != b""
    assert one.store_lock.read_bytes() == b"", "who has let go is not named any more"


def test_who_comes_second_is_told_who_holds_the_lock_and_how_to_stop_it(
    path: Path, clock: Clock, impatient: None
) -> None:
    def refusal() -> tuple[str, str, str | None, str | None]:
        with pytest.raises(StateError) as refused, RunLock(path, clock):
            pass
        return diagnostic_of(refused)

    me = f"process {os.getpid()} on {HOST} (since {FIRST}"
    stop = f"wait for it to end, or stop it (`kill -INT {os.getpid()}` on {HOST}), then try again"
    with RunLock(path, clock) as lock:
        assert refusal() == ("LOCKED", f"this workflow is being run by {me})", str(path), stop)
        lock.announce("r0007")
        assert refusal() == ("LOCKED", f"this workflow is being run by {me}, run r0007)", str(path), stop)
        path.write_bytes(b"")
        assert refusal() == (
            "LOCKED", "this workflow is being run by another process", str(path), "wait for it to end, then try again"
        )  # fmt: skip
        assert holder_and_state(path) == (True, None)


def test_a_lock_that_is_held_for_a_moment_only_is_waited_for(
    path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.parent.mkdir()
    path.touch()
    looking = os.open(path, os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    now, pauses = 100.0, []

    def pause(seconds: float) -> None:
        nonlocal now
        pauses.append(seconds)
        now += seconds
        if len(pauses) == 5:
            fcntl.flock(looking, fcntl.LOCK_UN)

    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(time, "sleep", pause)
    with RunLock(path, clock):
        assert pauses == [0.01] * 5
    fcntl.flock(looking, fcntl.LOCK_SH)
    with pytest.raises(StateError, match="LOCKED"), RunLock(path, clock):
        pass
    os.close(looking)
    assert sum(pauses[5:]) == pytest.approx(0.25, abs=0.02), "and not for longer"


# --- a disk that takes nothing -----------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_on_a_full_disk_only_who_makes_room_gets_the_lock(
    tmp_path: Path, clock: Clock, hooked: Callable[[Any], None], number: int
) -> None:
    state = WorkflowState(tmp_path, "wf")
    before = descriptors()
    hooked(failing("lock.write", number))
    for refused in (RunLock.of(state, clock), RunLock(state.lock_path, clock)):
        with pytest.raises(OSError, match=os.strerror(number)):
            refused.__enter__()
        assert not refused.held
        assert descriptors() == before
    assert not is_held(state.lock_path)
    with RunLock.of(state, clock, to_make_room=True) as lock:
        assert lock.held
        assert holder_and_state(state.lock_path) == (True, None)
    with StoreLock(state.store_lock, clock, in_use):
        assert holder_and_state(state.store_lock) == (True, None)
    assert descriptors() == before


def test_any_other_failure_of_the_disk_stops_who_makes_room_too(
    tmp_path: Path, clock: Clock, hooked: Callable[[Any], None]
) -> None:
    state = WorkflowState(tmp_path, "wf")
    before = descriptors()
    hooked(failing("lock.write", errno.EIO))
    for each in (RunLock.of(state, clock, to_make_room=True), StoreLock(state.store_lock, clock, in_use)):
        with pytest.raises(OSError, match="Input/output error"):
            each.__enter__()
        assert descriptors() == before
    assert (is_held(state.lock_path), is_held(state.store_lock)) == (False, False)


def test_the_lock_is_let_go_even_if_its_file_cannot_be_emptied(
    path: Path, clock: Clock, hooked: Callable[[Any], None]
) -> None:
    before = descriptors()
    lock = RunLock(path, clock, path.parent.parent / "store.lock").__enter__()
    hooked(failing("lock.cut", errno.EIO))
    with pytest.raises(OSError, match="Input/output error"):
        lock.__exit__(None, None, None)
    assert descriptors() == before
    assert not lock.held


# --- children ----------------------------------------------------------------------------------------------------


def in_child(check: Callable[[], bool]) -> bool:
    """Fork, and what the child finds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns where other threads run
        child = os.fork()
    if child == 0:
        found = False
        try:
            found = check()
        finally:
            os._exit(0 if found else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_forked_child_has_neither_lock_and_the_parent_keeps_both(path: Path, clock: Clock) -> None:
    store = path.parent.parent / "store.lock"
    other = path.parent.parent / "other.lock"
    with RunLock(path, clock, store) as lock, StoreLock(other, clock, in_use) as cleared:
        assert lock._descriptor is not None
        assert lock._share is not None
        assert cleared._descriptor is not None
        inherited = (lock._descriptor, lock._share, cleared._descriptor)

        def closed(descriptor: int) -> bool:
            try:
                os.fstat(descriptor)
            except OSError as problem:
                return problem.errno == errno.EBADF
            return False

        def has_none() -> bool:
            held = lock._descriptor, lock._share, cleared._descriptor
            lock._drop_in_child()  # a second time is harmless
            cleared._drop_in_child()
            return held == (None, None, None) and all(map(closed, inherited))

        assert in_child(has_none)
        assert (is_held(path), is_shared(store), is_held(other)) == (True, True, True)
        told = holder(path)
        assert told is not None
        assert told == Holder(os.getpid(), HOST, told.started)
        assert said(other)["pid"] == os.getpid()
    assert (is_held(path), is_shared(store), is_held(other)) == (False, False, False)
    assert in_child(lambda: lock._descriptor is None)


def test_what_a_child_drops_is_closed_and_nothing_is_written(path: Path, clock: Clock) -> None:
    store = path.parent.parent / "store.lock"
    before = descriptors()
    lock = RunLock(path, clock, store).__enter__()
    lock._drop_in_child()
    assert (lock.held, descriptors()) == (False, before)
    assert said(path) == held()
    cleared = StoreLock(store, clock, in_use).__enter__()
    cleared._drop_in_child()
    assert descriptors() == before
    assert said(store) == held(SECOND)
    for dropped in (lock, cleared):
        dropped._drop_in_child()
    assert (is_held(path), is_held(store)) == (False, False)
    with RunLock(path, clock, store) as lock, StoreLock(path.parent / "other", clock, in_use):
        lock_module._drop_all_in_child()
        assert (lock.held, descriptors()) == (False, before)


def test_a_lock_that_was_left_is_left_again_without_harm(path: Path, clock: Clock) -> None:
    lock = RunLock(path, clock)
    with lock:
        pass
    lock.__exit__(None, None, None)
    store = StoreLock(path, clock, in_use)
    with store:
        pass
    store.__exit__(None, None, None)
    assert not is_held(path)
